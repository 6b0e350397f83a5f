"""Cards in a terminal: how one is shown, and what a typed line says to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from hermes_mobile.cli.printable import exact, printable
from hermes_mobile.client import CardKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_mobile.client import Option, PromptCard

OTHER: Final = "other"
"""The option of a question that stands for words of the person's own."""


@frozen
class Answer:
    """An option, words, or both; with neither the line was no answer."""

    option_id: str = ""
    text: str = field(default="", repr=False)


def label_of(card: PromptCard, option_id: str) -> str:
    """What a person knows an option by."""
    return next((_label(each) for each in card.options if each.id == option_id), option_id)


def shown(card: PromptCard) -> str:
    """The card as text: what it asks, the exact command, and the options with their numbers."""
    return "\n".join(_lines(card))


def _lines(card: PromptCard) -> Iterator[str]:
    yield from printable(_question(card)).strip().split("\n")
    if card.command:
        # The bar stands before every line, so that no command passes for what is around it.
        yield from (f"  │ {line}" for line in exact(card.command).split("\n"))
    if card.description:
        yield from (f"  {line}" for line in printable(card.description).split("\n"))
    if not _asks_for_words(card):
        for number, option in enumerate(card.options, 1):
            yield f"  {number}  {_label(option)}"
    yield f"  ({_how(card)}, within {card.timeout_seconds} s)"


def _question(card: PromptCard) -> str:
    """The text without the command, which the text of an approval holds, too (D23)."""
    if not card.command:
        return card.text
    begin = card.command.split("\n")[0][:100]
    return card.text.partition(f"\n\n{begin}")[0]


def _how(card: PromptCard) -> str:
    if _asks_for_words(card):
        return "answer in words"
    numbers = f"answer with a number from 1 to {len(card.options)}"
    return f"{numbers}, or in words" if card.kind is CardKind.CLARIFY else numbers


def _label(option: Option) -> str:
    return " ".join(printable(option.label or option.id).split())


def _asks_for_words(card: PromptCard) -> bool:
    return card.kind is CardKind.CLARIFY and [option.id for option in card.options] in ([], [OTHER])


def read(card: PromptCard, line: str) -> Answer:
    """What a line says to a card: the number, id or label of an option, or words to a question.

    Words to anything else than a question are no answer: what was meant as a message must not deny.
    """
    said = line.strip().casefold()
    if not _asks_for_words(card):
        by_number = {str(number): option for number, option in enumerate(card.options, 1)}
        by_label = {option.label.casefold(): option for option in card.options}
        by_id = {option.id.casefold(): option for option in card.options}
        option = by_number.get(said) or by_id.get(said) or by_label.get(said)
        if option is not None:
            return Answer(option.id)
    if card.kind is CardKind.CLARIFY and said:
        return Answer(OTHER, line)
    return Answer()
