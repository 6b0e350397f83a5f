"""What the server knows of one device; it outlives connections.

Everything here is synchronous but waiting: for room, for an answer, for the agent. So a session is
never seen half changed, whatever is cancelled.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import structlog
import trio
from attrs import field, frozen

from hermes_mobile.agents import Answer, Mode
from hermes_mobile.protocol.cards import Applied, AwaitingText, Cards
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.protocol.frames import CardKind, Error, PromptDone, User
from hermes_mobile.protocol.presence import Presence
from hermes_mobile.server.mailbox import Mailbox
from hermes_mobile.server.timer import Timer
from hermes_mobile.server.turn import Turn
from hermes_mobile.server.units import (
    CardEndUnit,
    CardUnit,
    MessageUnit,
    NoticeUnit,
    StreamUnit,
    Unit,
)

if TYPE_CHECKING:
    from hermes_mobile.agents import Input
    from hermes_mobile.protocol.cards import Card
    from hermes_mobile.protocol.frames import Avatar, PromptAnswer, Typing
    from hermes_mobile.server.access import Credential
    from hermes_mobile.server.connection import Connection
    from hermes_mobile.server.hub import Hub

log = structlog.get_logger()


@frozen
class Waiting:
    """A message that waits for the agent."""

    input: Input = field(repr=False)
    size: int


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


class Session:
    """`device_id` and all that is said to it, waits for it, or is asked of it."""

    def __init__(self, hub: Hub, device_id: str) -> None:
        settings = hub.settings
        self.hub = hub
        self.device_id = device_id
        self.name = f"mobile:{device_id}"
        self.user = User()
        self.owner: Credential | None = None
        self.generated = False
        """The id was made up by the server: nobody can come back to it, so nothing is kept."""
        self.connection: Connection | None = None
        self.away_since = trio.current_time()
        self.mailbox = Mailbox(settings.keep_units, settings.keep_bytes, settings.keep_seconds)
        self.dropped = 0
        """Units that could not be kept and that the device was not told of yet."""
        self.presence = Presence(settings.typing_idle)
        self.cards = Cards()
        self.turns: set[Turn] = set()
        self._questions: dict[str, Question] = {}
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._working = False
        self._card_watch: trio.CancelScope | None = None

    # Saying things

    def say(self, unit: Unit) -> None:
        """Owe the device `unit`, and send it if it is there."""
        self.mailbox.add(unit)
        self._send(unit)

    def say_newer(self, unit: StreamUnit, text: str, *, final: bool) -> None:
        """Replace what a streamed unit says."""
        self.mailbox.update(unit, text, final=final)
        self._send(unit)

    def _send(self, unit: Unit) -> None:
        if self.connection is not None:
            self.connection.outbox.put_unit(unit)
        elif self.generated:
            self.mailbox.drop_all()
        else:
            self.give_up(self.mailbox.drop_beyond_bounds())
            self.hub.registry.settle(self)

    def show(self, frames: tuple[Avatar | Typing, ...]) -> None:
        """Send passing states; they are not kept."""
        if self.connection is not None:
            for frame in frames:
                self.connection.outbox.put(frame)
            self.connection.idle_timer.touch()

    async def room(self, frames: int, size: int, growing: Unit | None = None) -> None:
        """Wait until that much may be said: at once, unless the link is slow (D33).

        A unit that is `growing` has its place in the mailbox.
        """
        # Whoever was cancelled while it was not waiting says nothing more (D27).
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.connection is None:
            await trio.lowlevel.checkpoint()
        while (connection := self.connection) is not None and not (
            connection.outbox.has_room(frames, size)
            and (growing in self.mailbox or self.mailbox.has_room(size))
        ):
            await connection.outbox.room.park()

    def confirmed(self, ping: int) -> None:
        """The device answered `ping`: what was written before it has arrived (D32)."""
        for unit in self.mailbox.confirm(ping):
            self.hub.metrics.units_confirmed += 1
            if isinstance(unit, NoticeUnit):
                self.dropped -= unit.count
            if unit.on_confirmed is not None:
                unit.on_confirmed()

    def give_up(self, units: int) -> None:
        """Take note of units that could not be kept: the device is told how many (D32)."""
        self.dropped += units
        self.hub.metrics.units_dropped += units

    # Connections come and go

    def attach(self, connection: Connection, now: float) -> None:
        """Make `connection` the device's, and queue what it is owed, in the order of D13."""
        self._take_back()
        self.connection = connection
        outbox = connection.outbox
        self.give_up(self.mailbox.drop_expired(now))
        for unit in self.mailbox:
            if unit.outstanding:
                outbox.put_unit(unit)
        for card in self.cards.open_cards:
            shown = self._questions[card.id].unit
            if shown not in self.mailbox and not self.cards.awaiting_text(card.id):
                outbox.put(card.frame(now))
        if self.dropped:
            self.say(NoticeUnit(now, self.dropped))
        self.show(self.presence.current(now))
        self._cards_changed()

    def detach(self, connection: Connection) -> None:
        """Take note that `connection` ended, unless another one took over before."""
        if self.connection is not connection:
            return
        self._take_back()
        self.connection = None
        self.away_since = trio.current_time()
        for unit in list(self.mailbox):
            if unit.awaited and not unit.written:
                self.mailbox.remove(unit)
        if self.generated:
            self.mailbox.drop_all()
        self.give_up(self.mailbox.drop_beyond_bounds())
        self.hub.registry.settle(self)
        self._cards_changed()

    def _take_back(self) -> None:
        """Owe anew what a connection that goes has not confirmed."""
        for unit in list(self.mailbox):
            unit.leave_connection()
            if isinstance(unit, NoticeUnit):
                self.mailbox.remove(unit)  # the next connection gets one of its own

    @property
    def in_use(self) -> bool:
        """Whether an agent works on something of the session."""
        return bool(self.turns or self._working or self._questions)

    def worth_keeping(self, now: float) -> bool:
        """Whether forgetting the session, whose device is away, would lose anything."""
        return bool(
            len(self.mailbox)
            or self.dropped
            or self.in_use
            or (self.cards.remembered and now < self._memory_ends)
        )

    @property
    def expiry(self) -> float:
        """When something of a device that is away is to be let go: the oldest unit, the memory."""
        oldest = self.mailbox.next_expiry()
        if oldest is None:
            return self._memory_ends if self.cards.remembered else math.inf
        return oldest

    @property
    def _memory_ends(self) -> float:
        return self.away_since + self.hub.settings.keep_seconds

    # Messages for the agent

    @property
    def waiting_messages(self) -> int:
        return len(self._waiting)

    def accept(self, message: Input, size: int) -> None:
        """Take a message for the agent. Errors: `internal_error` when too many wait (D20)."""
        hub, settings = self.hub, self.hub.settings
        if hub.stopping:
            raise ProtocolError(
                ErrorCode.INTERNAL_ERROR, "the server is stopping: resend later", id=message.id
            )
        waiting = len(self._waiting)
        if hub.agent.mode is Mode.CONCURRENT:
            waiting = len(self.turns)
        if waiting and (
            waiting >= settings.queue_messages or self._waiting_bytes + size > settings.queue_bytes
        ):
            raise ProtocolError(
                ErrorCode.INTERNAL_ERROR,
                f"at most {settings.queue_messages} messages, {settings.queue_bytes} bytes, "
                "wait for the agent: resend later",
                id=message.id,
            )
        hub.dedup.record(self.device_id, message.id, trio.current_time())
        self._waiting_bytes += size
        if hub.agent.mode is Mode.CONCURRENT:
            turn = Turn(self, message)
            self.turns.add(turn)
            hub.turns.start_soon(self._run_apart, turn, size)
            return
        self._waiting.append(Waiting(message, size))
        if not self._working:
            self._working = True
            hub.turns.start_soon(self._work)

    async def _work(self) -> None:
        """Run one turn after the other while messages wait."""
        try:
            while self._waiting and not self.hub.stopping:
                waiting = self._waiting.popleft()
                self._waiting_bytes -= waiting.size
                turn = Turn(self, waiting.input)
                self.turns.add(turn)
                await self._run(turn)
        finally:
            self._working = False
            self.hub.registry.settle(self)

    async def _run_apart(self, turn: Turn, size: int) -> None:
        try:
            await self._run(turn)
        finally:
            self._waiting_bytes -= size
            self.hub.registry.settle(self)

    async def _run(self, turn: Turn) -> None:
        """Let the agent work on one message; whatever it does stays within the turn."""
        started = trio.current_time()
        outcome = "done"
        self.show(self.presence.turn_started(started))
        try:
            with turn.scope:
                await self.room(1, 0)
                await self.hub.agent.handle(turn)
            if turn.scope.cancelled_caught:
                outcome = "cut" if turn.cut else "stopped"
        except Exception as error:  # noqa: BLE001 - an agent may raise anything (D35)
            outcome = "failed"
            log.error("turn failed", session=self.name, id=turn.input.id, **where(error))
        finally:
            turn.withdraw_cards()
            self.turns.discard(turn)
            if outcome == "failed" or turn.cut:
                self.refuse(turn.input.id, "the agent could not finish: resend it")
            self.show(self.presence.turn_ended(trio.current_time()))
            self.hub.turn_ended()
        seconds = trio.current_time() - started
        self.hub.metrics.turn_ended(outcome, seconds)
        log.debug(
            "turn",
            session=self.name,
            id=turn.input.id,
            outcome=outcome,
            seconds=round(seconds, 3),
        )

    def refuse(self, message_id: str, reason: str) -> None:
        """Tell the app that a message it got accepted came to nothing; it may be sent again (D19)."""
        self.hub.dedup.forget(self.device_id, message_id)
        if self.connection is not None:
            self.connection.outbox.put(Error(ErrorCode.INTERNAL_ERROR, reason, id=message_id))

    def stop(self) -> None:
        """Handle `/stop`: cancel what runs, drop what waits, and say so (D27)."""
        turns, waiting = len(self.turns), len(self._waiting)
        for turn in self.turns:
            turn.scope.cancel()  # first: to the agent, a card that is withdrawn looks expired
            turn.withdraw_cards()
        self._waiting.clear()
        if self.hub.agent.mode is Mode.SERIAL:
            self._waiting_bytes = 0
        stopped = f"Stopped: {turns} running, {waiting} waiting."
        text = stopped if turns or waiting else "Nothing to stop."
        self.say(MessageUnit(self.hub.make_id(), trio.current_time(), text))

    def cut_short(self) -> None:
        """End what runs and what waits, because the server stops (D35)."""
        for turn in self.turns:
            turn.cut = True
            turn.scope.cancel()
        for waiting in self._waiting:
            self.refuse(waiting.input.id, "the server is stopping: resend later")
        self._waiting.clear()

    # Cards

    async def ask(self, card: Card, open_cards: set[str]) -> Answer:
        """Show `card`, listed in `open_cards` while it is open, and wait for its end.

        *Cancellation*: withdraws the card.
        """
        unit = CardUnit(trio.current_time(), card)
        question = self._questions[card.id] = Question(unit)
        self.cards.open(card)
        self.hub.card_sessions[card.id] = self
        open_cards.add(card.id)
        self.say(unit)
        self._cards_changed()
        try:
            return await question.wait()
        finally:
            self.withdraw(card.id)
            open_cards.discard(card.id)
            self.hub.registry.settle(self)

    def answer(self, answer: PromptAnswer) -> PromptDone | None:
        """Take the app's answer; returns what to tell it when the card was closed before (D21)."""
        match self.cards.answer(answer, trio.current_time()):
            case Applied() as applied:
                self.apply(applied)
            case AwaitingText(card):
                self._show_end(self._questions[card.id].unit, PromptDone(card.id, "other"))
            case repeated:
                return repeated.done
        return None

    def apply(self, applied: Applied) -> None:
        """End a card with what was chosen."""
        question = self._forget(applied.card)
        self.hub.metrics.card_answered(applied.card.kind, applied.option)
        self._show_end(question.unit, PromptDone(applied.card.id, applied.option))
        question.answer(Answer(applied.option, applied.text))

    def withdraw(self, card_id: str) -> None:
        """End a card whose turn ended, if it is still open (D34)."""
        card = self.cards.withdraw(card_id)
        if card is not None:
            self.hub.metrics.cards[card.kind, "withdrawn"] += 1
            self._expire(card)

    def close_expired(self, now: float) -> None:
        """End the cards whose time is over; harmless when there are none."""
        for card in self.cards.close_expired(now):
            log.info("card expired", session=self.name, id=card.id, kind=card.kind)
            self.hub.metrics.cards[card.kind, "expired"] += 1
            self._expire(card)

    def _expire(self, card: Card) -> None:
        question = self._forget(card)
        self._show_end(question.unit, PromptDone(card.id, expired=True))
        option = "" if card.kind is CardKind.CLARIFY else card.safe_option
        question.answer(Answer(option, expired=True))

    def _forget(self, card: Card) -> Question:
        del self.hub.card_sessions[card.id]
        question = self._questions.pop(card.id)
        self._cards_changed()
        return question

    def _show_end(self, unit: CardUnit, done: PromptDone) -> None:
        """Tell the app that a card closed: once, and only one that it may have seen."""
        self.mailbox.remove(unit)
        if unit.shown and not unit.closed:
            self.say(CardEndUnit(trio.current_time(), done))
        unit.closed = True

    def _cards_changed(self) -> None:
        """Keep one task, and one only, at the next card's deadline (D34)."""
        if self._card_watch is not None:
            self._card_watch.cancel()
            self._card_watch = None
        if self.connection is not None:
            self.connection.card_timer.touch()
        elif self.cards.next_deadline < math.inf:
            self._card_watch = trio.CancelScope()
            self.hub.turns.start_soon(self._watch_cards, self._card_watch)

    async def _watch_cards(self, scope: trio.CancelScope) -> None:
        with scope:
            await Timer(lambda: self.cards.next_deadline, self.close_expired).run()


def where(error: BaseException) -> dict[str, str]:
    """What may be logged of an exception: its type and place, never its text (D39)."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = ""
    if traceback is not None:
        code = traceback.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}"
    return {"error": type(error).__name__, "at": place}
