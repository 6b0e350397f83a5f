"""What the app said and the agent has not done yet: messages that wait, and turns that run (D20)."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import structlog
import trio

from hermes_mobile.agents import Mode
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.protocol.frames import Error
from hermes_mobile.server.fault import where
from hermes_mobile.server.gathering import gathering
from hermes_mobile.server.turn import Turn
from hermes_mobile.server.units import MessageUnit

if TYPE_CHECKING:
    from hermes_mobile.agents import Input
    from hermes_mobile.server.session import Session
    from hermes_mobile.server.writer import Writer

log = structlog.get_logger()


class Waiting(NamedTuple):
    """A message that waits for the agent."""

    input: Input
    size: int


class Inbox:
    """The messages of `session` for the agent; turns run in the hub's nursery, not a connection's."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hub = session.hub
        self.turns: set[Turn] = set()
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._working = False  # a task runs turns, or rests between them
        self._newest: trio.Event | None = None  # whether the last of the turns apart has begun
        self._rest = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """How many wait for the agent."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether the agent works on something of it."""
        return bool(self.turns or self._waiting)

    def check(self, message: Input, size: int, now: float) -> None:
        """Whether a message would be taken now. *Errors*: as those of `accept`."""
        hub, settings = self._hub, self._hub.settings
        if hub.stopping:
            raise ProtocolError(
                ErrorCode.INTERNAL_ERROR, "the server is stopping: resend later", id=message.id
            )
        waiting = len(self.turns if self._goes_apart else self._waiting)
        if waiting and (
            waiting >= settings.queue_messages or self._waiting_bytes + size > settings.queue_bytes
        ):
            raise ProtocolError(
                ErrorCode.INTERNAL_ERROR,
                f"at most {settings.queue_messages} messages, {settings.queue_bytes} bytes, "
                "wait for the agent: resend later",
                id=message.id,
            )
        if per_minute := settings.message_rate:
            wait = hub.rate.wait(self._session.device_id, now, per_minute)
            if wait:
                raise ProtocolError(
                    ErrorCode.INTERNAL_ERROR,
                    f"at most {per_minute} messages a minute: resend in {math.ceil(wait)} s",
                    id=message.id,
                )

    def accept(self, message: Input, size: int, now: float) -> None:
        """Take a message for the agent.

        *Errors*: ProtocolError `internal_error` when too many wait (D20), or came within a minute.
        """
        self.check(message, size, now)
        hub = self._hub
        if hub.settings.message_rate:
            hub.rate.take(self._session.device_id, now, hub.settings.message_rate)
        self._session.record(message.id, now)
        self._waiting_bytes += size
        if self._goes_apart:
            turn = Turn(self._session, message, trio.CancelScope())
            turn.before, turn.begun = self._newest, trio.Event()
            self._newest = turn.begun
            self.turns.add(turn)
            hub.turns.start_soon(self._work_apart, turn, size)
            return
        self._waiting.append(Waiting(message, size))
        if not self._working:
            self._working = True
            hub.turns.start_soon(self._work)
        else:
            self._rest.unpark()

    @property
    def _goes_apart(self) -> bool:
        """Whether the next message is handed over at once. It overtakes none that waits."""
        return self._hub.agent.mode is Mode.CONCURRENT and not self._waiting

    def end_rest(self) -> None:
        """Let the task go that rests between turns: its device is quiet, or gone."""
        self._rest.unpark()

    async def _work(self) -> None:
        try:
            await gathering(self._run_turns(), self._writer)
        finally:
            self._working = False
            self._hub.registry.settle(self._session)

    async def _work_apart(self, turn: Turn, size: int) -> None:
        try:
            with turn.scope:
                await gathering(self._run(turn), self._writer)
        finally:
            self._waiting_bytes -= size
            self._hub.registry.settle(self._session)

    def _writer(self) -> Writer | None:
        connection = self._session.connection
        return None if connection is None else connection.writer

    async def _run_turns(self) -> None:
        """Run one turn after the other. They share a cancel scope until it is used: it costs 5 us."""
        while True:
            with trio.CancelScope() as scope:
                while not scope.cancel_called:
                    if not await self._wait_for_message():
                        return
                    waiting = self._waiting.popleft()
                    self._waiting_bytes -= waiting.size
                    turn = Turn(self._session, waiting.input, scope)
                    self.turns.add(turn)
                    await self._run(turn)

    async def _wait_for_message(self) -> bool:
        """Rest while the device talks; False when nothing waits for the agent any more."""
        if not self._waiting and self._session.connection is not None:
            await self._rest.park()
        return bool(self._waiting) and not self._hub.stopping

    async def _run(self, turn: Turn) -> None:
        """Let the agent work on one message; whatever it does stays within the turn."""
        session = self._session
        started = trio.current_time()
        outcome = "stopped"
        session.show(session.presence.turn_started(started))
        try:
            if not session.has_room(1, 0):
                await session.room(1, 0)
            if turn.before is not None:
                await turn.before.wait()
            turn.let_next_begin()
            await self._hub.agent.handle(turn)
            outcome = "done"
        except* (Exception, SystemExit) as errors:  # noqa: BLE001 - an agent may raise anything (D35)
            outcome = "failed"
            log.error("turn failed", session=session.name, id=turn.input.id, **where(errors))
        finally:
            self._end(turn, outcome, started)

    def _end(self, turn: Turn, outcome: str, started: float) -> None:
        """Clear up after a turn, on every path."""
        now = trio.current_time()
        if turn.cut and outcome == "stopped":
            outcome = "cut"
        turn.withdraw_cards()
        turn.let_next_begin()
        self.turns.discard(turn)
        if outcome == "failed" or turn.cut:
            self.refuse(turn.input.id, "the agent could not finish: resend it")
        self._session.show(self._session.presence.turn_ended(now))
        self._hub.turn_ended()
        self._hub.metrics.turn_ended(outcome, now - started)
        if self._hub.settings.log_level == "debug":  # to ask the log itself costs ten times that
            log.debug(
                "turn",
                session=self._session.name,
                id=turn.input.id,
                outcome=outcome,
                seconds=round(now - started, 3),
            )

    def refuse(self, message_id: str, reason: str) -> None:
        """Tell the app that a message it got accepted came to nothing; it may be sent again (D19)."""
        self._hub.dedup.forget(self._session.device_id, message_id)
        if self._session.connection is not None:
            self._session.connection.outbox.put(
                Error(ErrorCode.INTERNAL_ERROR, reason, id=message_id)
            )

    def stop(self) -> None:
        """Handle `/stop`: cancel what runs, drop what waits, and say so (D27)."""
        turns, waiting = len(self.turns), len(self._waiting)
        self.abandon()
        stopped = f"Stopped: {turns} running, {waiting} waiting."
        text = stopped if turns or waiting else "Nothing to stop."
        self._session.say(MessageUnit(self._hub.make_id(), trio.current_time(), text))
        # It did not wait for room, and who says `/stop` for ever may confirm nothing.
        self._session.give_up(self._session.mailbox.drop_beyond_bounds())

    def abandon(self) -> None:
        """Cancel what runs, and drop what waits."""
        for turn in self.turns:
            turn.scope.cancel()  # first: to the agent, a card that is withdrawn looks expired
            turn.withdraw_cards()
        self._waiting_bytes -= sum(each.size for each in self._waiting)
        self._waiting.clear()

    def cut_short(self) -> None:
        """End what runs and what waits, because the server stops (D35)."""
        for turn in self.turns:
            turn.cut = True
            turn.scope.cancel()
        for waiting in self._waiting:
            self.refuse(waiting.input.id, "the server is stopping: resend later")
        self._waiting.clear()
