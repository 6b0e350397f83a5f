"""Cards in a terminal: what is shown, and what a line means."""

from __future__ import annotations

import pytest

from hermes_mobile.cli.card import Answer, read, shown
from hermes_mobile.client import CardKind, Option, PromptCard
from hermes_mobile.protocol import cards


def approval(command: str, description: str = "") -> PromptCard:
    return cards.approval("p1", "s", command, description, ("once", "deny"), 300.0).frame(0.0)


def question(text: str, *choices: str) -> PromptCard:
    return cards.clarification("p1", "s", text, choices, 60.0).frame(0.0)


def confirmation(text: str) -> PromptCard:
    return cards.confirmation("p1", "s", text, ("once", "cancel"), 60.0).frame(0.0)


def test_an_approval_shows_the_exact_command():
    """Once, behind a bar that no line of it can pass for, with what cannot be seen spelled out."""
    card = approval("rm -r \x1b[8mbuild\n  1  Deny\u202e", "Cleans\x07 up.")
    assert shown(card).split("\n") == [
        "Allow this command?",
        "  │ rm -r <U+001B>[8mbuild",
        "  │   1  Deny<U+202E>",
        "  Cleans<U+0007> up.",
        "  1  Allow once",
        "  2  Deny",
        "  (answer with a number from 1 to 2, within 300 s)",
    ]


def test_a_long_command_is_shown_whole():
    """D23: the text of the card cuts it; the card shows all of it, and once."""
    command = "echo " + "x" * 5000
    assert shown(approval(command)).split("\n")[:2] == ["Allow this command?", f"  │ {command}"]


def test_a_question():
    """Its choices have numbers; words of one's own do, too."""
    assert shown(question("Tea or coffee?", "Tea", "Coffee\nblack")).split("\n") == [
        "Tea or coffee?",
        "  1  Tea",
        "  2  Coffee black",
        "  3  Other answer",
        "  (answer with a number from 1 to 3, or in words, within 60 s)",
    ]


def test_a_question_without_choices():
    """There is nothing to choose from, and so no number."""
    assert shown(question("How many?")).split("\n") == [
        "How many?",
        "  (answer in words, within 60 s)",
    ]


@pytest.mark.parametrize(
    ("card", "line", "answer"),
    [
        (approval("ls"), " 1 ", Answer("once")),
        (approval("ls"), "deny", Answer("deny")),
        (approval("ls"), "ALLOW ONCE", Answer("once")),
        (approval("ls"), "3", Answer()),
        (approval("ls"), "always", Answer()),
        (approval("ls"), "what does it do?", Answer()),
        (confirmation("Go?"), "yes", Answer()),
        (confirmation("Go?"), "2", Answer("cancel")),
        (question("Tea?", "Yes", "No"), "2", Answer("c1")),
        (question("Tea?", "Yes", "No"), "no", Answer("c1")),
        (question("Tea?", "Yes", "No"), "3", Answer("other")),
        (question("Tea?", "Yes", "No"), " a bit ", Answer("other", " a bit ")),
        (question("Tea?", "Yes", "No"), "4", Answer("other", "4")),
        (question("How many?"), "1", Answer("other", "1")),
        (question("How many?"), "other", Answer("other", "other")),
    ],
)
def test_what_a_line_says_to_a_card(card, line, answer):
    """A number, an id or a label chooses; words answer a question, and nothing else (D23)."""
    assert read(card, line) == answer


def test_a_number_is_a_place():
    """Even where an option has a number for an id, of another place."""
    options = (Option("2", "First"), Option("1", "Second"))
    card = PromptCard("p1", CardKind.SLASH_CONFIRM, "Which?", options, "s", 60)
    assert read(card, "1") == Answer("2")
