"""Cards: the questions an agent asks, and what an answer to one means (D21, D22, D23, D34)."""

from math import inf

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_mobile.protocol.cards import (
    SAFE_OPTION,
    SHOWN_COMMAND_CHARS,
    Applied,
    AwaitingText,
    Card,
    Cards,
    Repeated,
    approval,
    clarification,
    confirmation,
)
from hermes_mobile.protocol.frames import CardKind, Option, PromptAnswer, PromptCard, PromptDone

SESSION = "mobile:tel-1"
APPROVAL = approval("p-1", SESSION, "rm -r build", "Removes it.", ["once", "deny"], 300.0)
CONFIRMATION = confirmation("p-2", SESSION, "Reset?", ["once", "always", "cancel"], 300.0)
CHOICE = clarification("p-3", SESSION, "Which?", ["Red", "Blue"], 300.0)
QUESTION = clarification("p-4", SESSION, "Why?", [], 300.0)
ALL = (APPROVAL, CONFIRMATION, CHOICE, QUESTION)


def cards_with(*opened: Card) -> Cards:
    cards = Cards()
    for card in opened:
        cards.open(card)
    return cards


def option_ids(card: Card) -> list[str]:
    return [option.id for option in card.options]


# What a card looks like


def test_approval_shows_its_command_in_the_text_too() -> None:
    """A client that knows only text and options must not approve unseen (D23)."""
    assert APPROVAL.kind is CardKind.EXEC_APPROVAL
    assert "rm -r build" in APPROVAL.text
    assert (APPROVAL.command, APPROVAL.description) == ("rm -r build", "Removes it.")


def test_long_command_is_cut_in_the_text_only() -> None:
    """The text holds the beginning and a mark; `command` is always whole (D23)."""
    command = "x" * (SHOWN_COMMAND_CHARS + 1)
    card = approval("p", SESSION, command, "", ["once"], 1.0)
    assert card.text.endswith("x…")
    assert card.text.count("x") == SHOWN_COMMAND_CHARS
    assert card.command == command


def test_asker_chooses_options_and_their_order() -> None:
    """Each option appears once, in the order asked for (D21)."""
    card = approval("p", SESSION, "ls", "", ["deny", "always", "deny"], 1.0)
    assert option_ids(card) == ["deny", "always"]


@pytest.mark.parametrize("wanted", [[], ["once"], ["always"]])
def test_safe_option_is_always_offered(wanted: list[str]) -> None:
    """An asker who leaves it out gets it all the same (D21)."""
    assert option_ids(approval("p", SESSION, "ls", "", wanted, 1.0)) == [*wanted, "deny"]
    assert option_ids(confirmation("p", SESSION, "Sure?", wanted, 1.0)) == [*wanted, "cancel"]


def test_choices_are_numbered_and_other_is_last() -> None:
    """`c0` to `cN` in the order of the choices, then `other` (D22)."""
    assert CHOICE.options == (
        Option("c0", "Red"),
        Option("c1", "Blue"),
        Option("other", "Other answer"),
    )
    assert CHOICE.choices == ("Red", "Blue")
    assert option_ids(QUESTION) == ["other"]


def test_option_outside_the_table_is_the_askers_mistake() -> None:
    """The message says what the kind has (D21)."""
    with pytest.raises(ValueError, match="exec_approval has no option 'yes'; it has once, session"):
        approval("p", SESSION, "ls", "", ["yes"], 1.0)
    with pytest.raises(ValueError, match="slash_confirm has no option 'session'; it has once"):
        confirmation("p", SESSION, "Sure?", ["session"], 1.0)


def test_empty_question_is_the_askers_mistake() -> None:
    """A card without words cannot be answered; the message names what is empty (D21)."""
    with pytest.raises(ValueError, match="command must not be empty"):
        approval("p", SESSION, " ", "", ["once"], 1.0)
    with pytest.raises(ValueError, match="text must not be empty"):
        confirmation("p", SESSION, "", ["once"], 1.0)
    with pytest.raises(ValueError, match="question must not be empty"):
        clarification("p", SESSION, "\n", [], 1.0)
    with pytest.raises(ValueError, match="choice must not be empty"):
        clarification("p", SESSION, "Which?", ["a", ""], 1.0)


def test_frame_carries_everything() -> None:
    """The frame is the card, with what remains of its time (D13)."""
    assert APPROVAL.frame(0.0) == PromptCard(
        "p-1",
        CardKind.EXEC_APPROVAL,
        APPROVAL.text,
        APPROVAL.options,
        SESSION,
        300,
        "rm -r build",
        "Removes it.",
    )


@pytest.mark.parametrize(
    ("now", "seconds"), [(0.0, 300), (0.5, 300), (298.9, 2), (299.9, 1), (300.0, 1), (400.0, 1)]
)
def test_remaining_time_is_rounded_up(now: float, seconds: int) -> None:
    """A card shown again says what remains, and never 0 (D13)."""
    assert APPROVAL.frame(now).timeout_seconds == seconds


@given(st.floats(0, 1e7), st.integers(1, 86_400))
def test_remaining_time_is_exact_when_just_asked(now: float, ttl: int) -> None:
    """The clock's fractions never make a second of their own (D13)."""
    assert evolve(APPROVAL, deadline=now + ttl).frame(now).timeout_seconds == ttl


def test_words_stay_out_of_the_representation() -> None:
    """A card that ends up in a log line shows nothing that was asked (D39)."""
    assert "rm" not in repr(APPROVAL)
    assert "Why" not in repr(QUESTION)


# What an answer means


@pytest.mark.parametrize(
    ("card", "answer", "option"),
    [
        pytest.param(APPROVAL, PromptAnswer("p-1", "once"), "once", id="offered"),
        pytest.param(APPROVAL, PromptAnswer("p-1", "always"), "deny", id="not on this card"),
        pytest.param(APPROVAL, PromptAnswer("p-1", "sudo"), "deny", id="unknown"),
        pytest.param(APPROVAL, PromptAnswer("p-1", "", " Once\n"), "once", id="text as option"),
        pytest.param(APPROVAL, PromptAnswer("p-1", "", "yes, do"), "deny", id="free text"),
        pytest.param(APPROVAL, PromptAnswer("p-1", "no", "once"), "deny", id="option before text"),
        pytest.param(CONFIRMATION, PromptAnswer("p-2", "always"), "always", id="confirmed"),
        pytest.param(CONFIRMATION, PromptAnswer("p-2", "c0"), "cancel", id="another kind's"),
    ],
)
def test_option_that_counts(card: Card, answer: PromptAnswer, option: str) -> None:
    """Only what this card offers counts, however it is said; else the safe one (D21, D23)."""
    cards = cards_with(card)
    assert cards.answer(answer, 1.0) == Applied(card, option)
    assert card.id not in cards


@pytest.mark.parametrize(
    ("answer", "option", "text"),
    [
        pytest.param(PromptAnswer("p-3", "c1"), "c1", "Blue", id="choice"),
        pytest.param(PromptAnswer("p-3", "c0", "Pink"), "c0", "Red", id="choice before text"),
        pytest.param(PromptAnswer("p-3", "other", " Pink "), "other", " Pink ", id="other"),
        pytest.param(PromptAnswer("p-3", "", "Pink"), "other", "Pink", id="text alone"),
        pytest.param(PromptAnswer("p-3", "c9", "Pink"), "other", "Pink", id="no such choice"),
        pytest.param(PromptAnswer("p-3", "", "c1"), "other", "c1", id="text is no option"),
    ],
)
def test_clarification_in_words(answer: PromptAnswer, option: str, text: str) -> None:
    """A choice answers with its label, anything else with the person's own words (D22)."""
    assert cards_with(CHOICE).answer(answer, 1.0) == Applied(CHOICE, option, text)


@pytest.mark.parametrize("option", ["other", "c9", "deny"])
def test_other_without_text_waits_for_the_next_text(option: str) -> None:
    """The app is told `other` at once, and its next text is the answer (D22)."""
    cards = cards_with(CHOICE)
    assert cards.capture("hello", 1.0) is None
    assert cards.answer(PromptAnswer("p-3", option, " "), 1.0) == AwaitingText(CHOICE)
    assert cards.awaiting_text("p-3")
    assert "p-3" in cards
    assert cards.capture(" Pink", 2.0) == Applied(CHOICE, "other", " Pink")
    assert not cards.awaiting_text("p-3")
    assert cards.capture("Pink again", 2.0) is None


def test_waiting_card_keeps_its_option() -> None:
    """After `other` no choice counts any more, but the words may come in a prompt too (D21)."""
    cards = cards_with(CHOICE)
    cards.answer(PromptAnswer("p-3", "other"), 1.0)
    told = Repeated(PromptDone("p-3", "other"))
    assert cards.answer(PromptAnswer("p-3", "c0"), 2.0) == told
    assert cards.answer(PromptAnswer("p-3", "other"), 2.0) == told
    assert cards.answer(PromptAnswer("p-3", "other", "Pink"), 2.0) == Applied(
        CHOICE, "other", "Pink"
    )


def test_question_without_choices_captures_from_the_start() -> None:
    """There is nothing else to answer it with; but the app was told nothing yet (D22)."""
    cards = cards_with(QUESTION)
    assert not cards.awaiting_text("p-4")
    assert cards.capture("because", 1.0) == Applied(QUESTION, "other", "because")


def test_oldest_capture_comes_first() -> None:
    """Several cards take the texts in the order in which they began to wait for them (D22)."""
    cards = cards_with(CHOICE, QUESTION)
    cards.answer(PromptAnswer("p-3", "other"), 1.0)
    cards.answer(PromptAnswer("p-4", "other"), 1.0)
    assert cards.awaiting_text("p-4")
    assert cards.capture("first", 2.0) == Applied(QUESTION, "other", "first")
    assert cards.capture("second", 2.0) == Applied(CHOICE, "other", "second")


def test_expired_card_captures_nothing() -> None:
    """A text that comes too late for one card goes to the next, or is a message (D22)."""
    early = evolve(QUESTION, id="early", deadline=10.0)
    cards = cards_with(early, QUESTION)
    assert cards.capture("late", 10.0) == Applied(QUESTION, "other", "late")
    assert cards.capture("later", 10.0) is None


# How a card ends


def test_double_tap_gets_what_was_applied() -> None:
    """A later answer is told the option applied then, not an expiry (D21)."""
    cards = cards_with(APPROVAL)
    cards.answer(PromptAnswer("p-1", "once"), 1.0)
    repeated = cards.answer(PromptAnswer("p-1", "deny"), 400.0)
    assert repeated == Repeated(PromptDone("p-1", "once"))


def test_unknown_card_counts_as_expired() -> None:
    """An answer to nothing does no harm (D21)."""
    assert Cards().answer(PromptAnswer("p-9", "once"), 0.0) == Repeated(
        PromptDone("p-9", expired=True)
    )


@pytest.mark.parametrize("card", ALL, ids=lambda card: card.kind)
def test_answer_at_the_deadline_is_too_late(card: Card) -> None:
    """At the deadline nothing is applied, even before the expiry was noticed (D34)."""
    cards = cards_with(card)
    late = Repeated(PromptDone(card.id, expired=True))
    assert cards.answer(PromptAnswer(card.id, "once"), 300.0) == late
    assert cards.close_expired(299.9) == []
    assert cards.close_expired(300.0) == [card]
    assert cards.close_expired(300.0) == []
    assert cards.answer(PromptAnswer(card.id, "once"), 0.0) == late


def test_waiting_card_expires_like_any_other() -> None:
    """`other` moves no deadline (D22, D34)."""
    cards = cards_with(CHOICE)
    cards.answer(PromptAnswer("p-3", "other"), 1.0)
    assert cards.close_expired(300.0) == [CHOICE]
    assert not cards.awaiting_text("p-3")
    assert cards.capture("late", 300.0) is None


def test_withdrawn_card_is_gone() -> None:
    """A card whose turn ended answers as expired, and is withdrawn once (D34)."""
    cards = cards_with(QUESTION)
    assert cards.withdraw("p-4") is QUESTION
    assert cards.withdraw("p-4") is None
    assert cards.capture("hello", 1.0) is None
    done = PromptDone("p-4", expired=True)
    assert cards.answer(PromptAnswer("p-4", "", "because"), 1.0) == Repeated(done)


def test_open_cards_in_their_order_and_the_next_deadline() -> None:
    """What a new connection is shown, and what the one timer waits for (D13, D34)."""
    cards = Cards()
    assert cards.next_deadline == inf
    early = evolve(QUESTION, deadline=10.0)
    cards.open(APPROVAL)
    cards.open(early)
    assert cards.open_cards == [APPROVAL, early]
    assert cards.next_deadline == 10.0


def test_answers_of_256_closed_cards_are_remembered() -> None:
    """Beyond that the oldest counts as expired (D21)."""
    cards = Cards()
    for number in range(257):
        cards.open(evolve(APPROVAL, id=f"p{number}"))
        cards.answer(PromptAnswer(f"p{number}", "once"), 0.0)
    forgotten = cards.answer(PromptAnswer("p0", "once"), 0.0)
    assert forgotten == Repeated(PromptDone("p0", expired=True))
    assert cards.answer(PromptAnswer("p1", "deny"), 0.0) == Repeated(PromptDone("p1", "once"))


class CardLives(RuleBasedStateMachine):
    """Cards asked, answered, captured, withdrawn and expired in any order, as time goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.cards = Cards()
        self.now = 0.0
        self.asked: dict[str, Card] = {}
        self.applied: dict[str, str] = {}
        self.ended: set[str] = set()

    def note(self, applied: Applied) -> None:
        card = applied.card
        assert self.now < card.deadline
        assert card.id not in self.applied.keys() | self.ended
        assert applied.option in option_ids(card)
        self.applied[card.id] = applied.option

    @rule(like=st.sampled_from(ALL), ttl=st.integers(1, 5))
    def ask(self, like: Card, ttl: int) -> None:
        card = evolve(like, id=str(len(self.asked)), deadline=self.now + ttl)
        self.asked[card.id] = card
        self.cards.open(card)

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @precondition(lambda self: self.asked)
    @rule(
        data=st.data(),
        option=st.sampled_from(["", "once", "always", "deny", "cancel", "c0", "c1", "other"]),
        text=st.sampled_from(["", "once", "words"]),
    )
    def answer(self, data: st.DataObject, option: str, text: str) -> None:
        card = self.asked[data.draw(st.sampled_from(sorted(self.asked)))]
        told = self.cards.awaiting_text(card.id)
        match self.cards.answer(PromptAnswer(card.id, option, text), self.now):
            case Applied() as applied:
                assert applied.card is card
                self.note(applied)
                if option:
                    assert applied.option in {option, SAFE_OPTION[card.kind]}
                assert not told or applied.option == "other"
            case AwaitingText():
                assert card.kind is CardKind.CLARIFY
                assert not told
            case Repeated(done):
                late = self.now >= card.deadline or card.id in self.ended
                told_now = "other" if told and not late else ""
                expected = self.applied.get(card.id, told_now)
                assert done == PromptDone(card.id, expected, expired=not expected)

    @rule()
    def capture(self) -> None:
        applied = self.cards.capture("words", self.now)
        if applied is not None:
            assert applied.card.kind is CardKind.CLARIFY
            assert (applied.option, applied.text) == ("other", "words")
            self.note(applied)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        card_id = data.draw(st.sampled_from(sorted(self.asked)))
        if self.cards.withdraw(card_id) is not None:
            self.ended.add(card_id)

    @rule()
    def expire(self) -> None:
        for card in self.cards.close_expired(self.now):
            assert card.deadline <= self.now
            assert card.id not in self.applied.keys() | self.ended
            self.ended.add(card.id)
        assert self.cards.next_deadline > self.now

    @invariant()
    def every_card_is_open_or_ended_once(self) -> None:
        open_ids = {card.id for card in self.cards.open_cards}
        assert open_ids == self.asked.keys() - self.applied.keys() - self.ended
        assert not self.applied.keys() & self.ended


TestCardLives = CardLives.TestCase
TestCardLives.__doc__ = "The first answer wins, none counts after the deadline, nothing is unsafe."
