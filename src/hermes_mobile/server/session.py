"""What the server knows of one device; it outlives connections.

Everything here is synchronous but waiting: for room, for an answer, for the agent. So a session is
never seen half changed, whatever is cancelled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from hermes_mobile.agents import DeviceState
from hermes_mobile.protocol.frames import Device, User
from hermes_mobile.protocol.presence import Presence
from hermes_mobile.server.inbox import Inbox
from hermes_mobile.server.mailbox import Mailbox
from hermes_mobile.server.questions import Questions
from hermes_mobile.server.units import NoticeUnit, StreamUnit, Unit

if TYPE_CHECKING:
    from hermes_mobile.protocol.frames import Avatar, Typing
    from hermes_mobile.server.connection import Connection
    from hermes_mobile.server.devices import Credential
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.settings import Settings


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
        """The id was made up by the server."""
        self.connection: Connection | None = None
        self.away_since = trio.current_time()
        self.mailbox = Mailbox(settings.keep_units, settings.keep_bytes, settings.keep_seconds)
        self.dropped = 0
        """Units that could not be kept and that the device was not told of yet."""
        self.presence = Presence(settings.typing_idle)
        self.inbox = Inbox(self)
        self.questions = Questions(self)

    def apply(self, settings: Settings) -> None:
        """Keep to other bounds and durations from now on."""
        self.presence.idle_after = settings.typing_idle
        self.mailbox.bound(settings.keep_units, settings.keep_bytes, settings.keep_seconds)
        if self.connection is None:
            self.give_up(self.mailbox.drop_beyond_bounds())
            self.hub.registry.settle(self)

    @property
    def device_state(self) -> DeviceState:
        """The device as agents are told of it."""
        connected = self.connection is not None
        device = self.connection.admission.device if self.connection else Device()
        return DeviceState(self.device_id, connected, device.name, device.platform, self.user)

    # Saying things

    def say(self, unit: Unit) -> None:
        """Owe the device `unit`, and send it if it is there."""
        self.mailbox.add(unit)
        self._send(unit)

    def say_newer(self, unit: StreamUnit, text: str, *, final: bool) -> None:
        """Replace what a streamed unit says."""
        begins = self.mailbox.update(unit, text, final=final)
        self._send(unit, begins=begins)

    def _send(self, unit: Unit, *, begins: bool = True) -> None:
        if self.connection is not None:
            self.connection.outbox.put_unit(unit)
        elif self._keeps_nothing:
            self.mailbox.drop_all()
            self.hub.registry.settle(self)
        else:
            self.give_up(self.mailbox.drop_beyond_bounds())
            self.hub.registry.settle(self)
            if begins:
                self.hub.wake.kept(self.device_id, unit.frame_name)

    def show(self, frames: tuple[Avatar | Typing, ...]) -> None:
        """Send passing states; they are not kept."""
        if self.connection is not None:
            self.connection.outbox.put_states(frames)
            self.connection.timer.touch(self.presence.deadline)

    def meet_deadlines(self, now: float) -> None:
        """Close the cards that expired, and let the avatar fall back (D30, D34).

        No task waits for the next message of a device that has become quiet.
        """
        self.questions.close_expired(now)
        if now >= self.presence.deadline:
            self.show(self.presence.expire(now))
            self.inbox.end_rest()

    def has_room(self, frames: int, size: int, growing: Unit | None = None) -> bool:
        """Whether a device that is here takes that much now."""
        return (
            self.connection is not None
            and self.connection.outbox.has_room(frames, size)
            and (growing in self.mailbox or self.mailbox.has_room(size))
        )

    async def room(self, frames: int, size: int, growing: Unit | None = None) -> None:
        """Wait until that much may be said: at once, unless the link is slow (D33).

        A unit that is `growing` has its place in the mailbox.
        """
        # Whoever was cancelled while it was not waiting says nothing more (D27).
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.connection is None:
            await trio.lowlevel.checkpoint()
        while self.connection is not None and not self.has_room(frames, size, growing):
            await self.connection.outbox.room.park()

    def confirmed(self, ping: int) -> None:
        """The device answered `ping`: what was written before it has arrived (D32)."""
        for unit in self.mailbox.confirm(ping):
            self.hub.metrics.units_confirmed += 1
            if unit.on_confirmed is not None:
                unit.on_confirmed()

    def give_up(self, units: int) -> None:
        """Take note of units that could not be kept: the device is told how many (D32)."""
        self.dropped += units
        self.hub.metrics.units_dropped += units

    def _notice(self, now: float) -> NoticeUnit:
        """What tells the device of dropped units, until it has confirmed that."""
        count = self.dropped

        def told() -> None:
            self.dropped -= count

        notice = NoticeUnit(now, count)
        notice.on_confirmed = told
        return notice

    def record(self, message_id: str, now: float) -> None:
        """Take note that a message was accepted: a repeat of it will be dropped (D19)."""
        self.hub.dedup.record(self.device_id, message_id, now)

    # Connections come and go

    def attach(self, connection: Connection, now: float) -> None:
        """Make `connection` the device's, and queue what it is owed, in the order of D13."""
        self._take_back()
        self.connection = connection
        self._note_seen(connection)
        outbox = connection.outbox
        self.give_up(self.mailbox.drop_expired(now))
        for unit in self.mailbox:
            if unit.outstanding:
                outbox.put_unit(unit)
        for card in self.questions.shown_before(now):
            outbox.put(card)
        if self.dropped:
            self.say(self._notice(now))
        self.show(self.presence.current(now))
        self.questions.changed()
        self.hub.device_changed(self.device_state)

    def detach(self, connection: Connection) -> None:
        """Take note that `connection` ended, unless another one took over before."""
        if self.connection is not connection:
            return
        state = self.device_state
        self._take_back()
        self.connection = None
        self.inbox.end_rest()
        self._note_seen(connection)
        self.away_since = trio.current_time()
        for unit in list(self.mailbox):
            if unit.awaited and not unit.written:
                self.mailbox.remove(unit)
        if self._keeps_nothing:
            self.mailbox.drop_all()
        self.give_up(self.mailbox.drop_beyond_bounds())
        for unit in self.mailbox:
            if unit.outstanding:
                self.hub.wake.kept(self.device_id, unit.frame_name)
        self.hub.registry.settle(self)
        self.questions.changed()
        self.hub.device_changed(evolve(state, connected=False))

    def _note_seen(self, connection: Connection) -> None:
        if not connection.admission.generated:
            self.hub.devices.seen(connection.admission.device)

    def abandon(self) -> None:
        """End all work for a device that was revoked, and owe it nothing more."""
        self.owner = None
        self.inbox.abandon()
        self.hub.metrics.units_dropped += self.mailbox.drop_all()
        self.dropped = 0
        self.hub.registry.settle(self)

    def _take_back(self) -> None:
        """Owe anew what a connection that goes has not confirmed."""
        for unit in list(self.mailbox):
            unit.leave_connection()
            if isinstance(unit, NoticeUnit):
                self.mailbox.remove(unit)  # the next connection gets one of its own

    @property
    def _keeps_nothing(self) -> bool:
        """Whether nobody can come back to what would be kept."""
        return self.generated or self.hub.devices.is_revoked(self.device_id)

    @property
    def in_use(self) -> bool:
        """Whether an agent works on something of the session."""
        return self.inbox.busy or len(self.questions) > 0

    def worth_keeping(self, now: float) -> bool:
        """Whether forgetting the session, whose device is away, would lose anything."""
        return bool(
            len(self.mailbox)
            or self.dropped
            or self.in_use
            or (self.questions.remembered and now < self._memory_ends)
        )

    @property
    def expiry(self) -> float:
        """When something of a device that is away is to be let go: the oldest unit, the memory."""
        oldest = self.mailbox.next_expiry()
        if oldest is None:
            return self._memory_ends if self.questions.remembered else math.inf
        return oldest

    @property
    def _memory_ends(self) -> float:
        return self.away_since + self.hub.settings.keep_seconds
