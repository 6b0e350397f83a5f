"""The open cards of one session, and the turns that wait for their answers (D21 to D23, D34)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import structlog
import trio

from hermes_mobile.agents import Answer
from hermes_mobile.protocol.cards import Applied, AwaitingText, Cards
from hermes_mobile.protocol.frames import CardKind, PromptDone
from hermes_mobile.server.timer import Timer
from hermes_mobile.server.units import CardEndUnit, CardUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_mobile.protocol.cards import Card
    from hermes_mobile.protocol.frames import PromptAnswer, PromptCard
    from hermes_mobile.server.session import Session

log = structlog.get_logger()


class Question:
    """An open card's other side: the turn that waits for the answer."""

    __slots__ = ("_answer", "_answered", "unit")

    def __init__(self, unit: CardUnit) -> None:
        self.unit = unit
        self._answer: Answer | None = None
        self._answered = trio.Event()

    def answer(self, answer: Answer) -> None:
        self._answer = answer
        self._answered.set()

    async def wait(self) -> Answer:
        await self._answered.wait()
        assert self._answer is not None  # noqa: S101 - set before the event
        return self._answer


class Questions:
    """What is asked of the device of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cards = Cards()
        self._open: dict[str, Question] = {}
        self._watch: trio.CancelScope | None = None

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def remembered(self) -> int:
        """How many closed cards a late answer would still be told about (D21)."""
        return self._cards.remembered

    @property
    def next_deadline(self) -> float:
        return self._cards.next_deadline

    def shown_before(self, now: float) -> Iterator[PromptCard]:
        """The open cards that the device has confirmed, with the time that remains (D13)."""
        for card in self._cards.open_cards:
            confirmed = self._open[card.id].unit not in self._session.mailbox
            if confirmed and not self._cards.awaiting_text(card.id):
                yield card.frame(now)

    async def ask(self, card: Card, open_cards: set[str]) -> Answer:
        """Show `card`, listed in `open_cards` while it is open, and wait for its end.

        *Cancellation*: withdraws the card.
        """
        unit = CardUnit(trio.current_time(), card)
        question = self._open[card.id] = Question(unit)
        self._cards.open(card)
        self._session.hub.card_sessions[card.id] = self._session
        open_cards.add(card.id)
        self._session.say(unit)
        self.changed()
        try:
            return await question.wait()
        finally:
            self.withdraw(card.id)
            open_cards.discard(card.id)
            self._session.hub.registry.settle(self._session)

    def answer(self, answer: PromptAnswer) -> PromptDone | None:
        """Take the app's answer; returns what to tell it when the card was closed before (D21)."""
        match self._cards.answer(answer, trio.current_time()):
            case Applied() as applied:
                self.apply(applied)
            case AwaitingText(card):
                self._show_end(self._open[card.id].unit, PromptDone(card.id, "other"))
            case repeated:
                return repeated.done
        return None

    def capture(self, text: str) -> Applied | None:
        """What `text` means as the answer that a card waits for, if one does (D22)."""
        if not self._open:
            return None
        return self._cards.capture(text, trio.current_time())

    def apply(self, applied: Applied) -> None:
        """End a card with what was chosen."""
        question = self._forget(applied.card)
        self._session.hub.metrics.card_answered(applied.card.kind, applied.option)
        self._show_end(question.unit, PromptDone(applied.card.id, applied.option))
        question.answer(Answer(applied.option, applied.text))

    def withdraw(self, card_id: str) -> None:
        """End a card whose turn ended, if it is still open (D34)."""
        card = self._cards.withdraw(card_id)
        if card is not None:
            self._session.hub.metrics.cards[card.kind, "withdrawn"] += 1
            self._expire(card)

    def close_expired(self, now: float) -> None:
        """End the cards whose time is over; harmless when there are none."""
        for card in self._cards.close_expired(now):
            log.info("card expired", session=self._session.name, id=card.id, kind=card.kind)
            self._session.hub.metrics.cards[card.kind, "expired"] += 1
            self._expire(card)

    def _expire(self, card: Card) -> None:
        question = self._forget(card)
        self._show_end(question.unit, PromptDone(card.id, expired=True))
        option = "" if card.kind is CardKind.CLARIFY else card.safe_option
        question.answer(Answer(option, expired=True))

    def _forget(self, card: Card) -> Question:
        del self._session.hub.card_sessions[card.id]
        question = self._open.pop(card.id)
        self.changed()
        return question

    def _show_end(self, unit: CardUnit, done: PromptDone) -> None:
        """Tell the app that a card closed: once, and only one that it may have seen."""
        self._session.mailbox.remove(unit)
        if unit.shown and not unit.closed:
            self._session.say(CardEndUnit(trio.current_time(), done))
        unit.closed = True

    def changed(self) -> None:
        """Keep one task, and one only, at the next card's deadline (D34)."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._session.connection is not None:
            self._session.connection.timer.touch(self.next_deadline)
        elif self._cards.next_deadline < math.inf:
            self._watch = trio.CancelScope()
            self._session.hub.turns.start_soon(self._watch_while_away, self._watch)

    async def _watch_while_away(self, scope: trio.CancelScope) -> None:
        with scope:
            await Timer(lambda: self._cards.next_deadline, self.close_expired).run()
