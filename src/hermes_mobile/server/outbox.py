"""The bounded way to the writer of one connection (D33): frames in order, counted in frames and bytes.

A streamed unit that still waits here is not queued twice: the writer encodes its newest state when its
turn comes, so a slow link is never behind by more than one edit (D29).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from hermes_mobile.protocol.codec import encode
from hermes_mobile.protocol.presence import AVATARS, DONE, WORKING
from hermes_mobile.server.metrics import frame_name
from hermes_mobile.server.scanner import Opcode, server_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes_mobile.protocol.frames import Avatar, ServerFrame, Typing
    from hermes_mobile.server.units import Unit


class Entry(NamedTuple):
    """A unit, or a whole WebSocket frame, and what it is charged with until it was written.

    `name` is what it counts as in the metrics; a ping counts as nothing.
    """

    content: Unit | bytes
    frames: int
    size: int
    name: str = ""
    answer: bool = False


def entry_of(frame: ServerFrame, *, answer: bool = False) -> Entry:
    framed = server_frame(Opcode.TEXT, encode(frame))
    return Entry(framed, 1, len(framed), frame_name(frame), answer)


STATES: Final[dict[Avatar | Typing, Entry]] = {
    **{avatar: entry_of(avatar) for (avatar,) in AVATARS.values()},
    **{typing: entry_of(typing) for typing in (*WORKING, *DONE)},
}
"""States say few things, and often: four of the five frames of an ordinary turn."""


class Outbox:
    """`max_frames`, `max_bytes`: when to make those wait who can; `reserve`: entries beyond it.

    The reserve is for what a new connection is owed at once (D13) and for states, which nobody can
    make wait. `on_overflow` is called for an answer that finds no room, and when even the reserve is
    used up: the peer sends and does not read.
    """

    def __init__(
        self, max_frames: int, max_bytes: int, reserve: int, on_overflow: Callable[[], None]
    ) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._on_overflow = on_overflow
        self._max_entries = max_frames + reserve
        # What is queued together is one batch, open until the writer takes it: one wake-up for all.
        self._batch: list[Entry] = []
        self._announced = False  # the writer's task was told of the batch
        self.gathering = False
        """Whoever queues now writes it or announces it, once nothing more comes."""
        self._closed = False
        self._send: trio.MemorySendChannel[list[Entry]]
        self._receive: trio.MemoryReceiveChannel[list[Entry]]
        self._send, self._receive = trio.open_memory_channel(1)
        self.frames = 0
        self.bytes = 0
        self._answers = 0
        self._answer_bytes = 0
        self.room = trio.lowlevel.ParkingLot()
        """Where those wait who can; unparked whenever something was written."""

    def has_room(self, frames: int, size: int) -> bool:
        """Whether that much fits; an empty outbox takes anything."""
        return not self.frames or (
            self.frames + frames <= self._max_frames and self.bytes + size <= self._max_bytes
        )

    def put_unit(self, unit: Unit) -> None:
        """Queue a unit, unless it waits here already."""
        if not unit.queued:
            unit.queued = True
            self._put(Entry(unit, unit.frame_count, unit.size, unit.frame_name))

    def put(self, frame: ServerFrame) -> None:
        """Queue a frame that comes with what is said: the notice of a failure, for instance."""
        self._put(entry_of(frame))

    def put_states(self, frames: tuple[Avatar | Typing, ...]) -> None:
        for frame in frames:
            self._put(STATES[frame])

    def put_answer(self, frame: ServerFrame) -> None:
        """Queue the answer to a frame of the peer, if other answers leave room for it.

        Only answers count: an app that speaks while a long reply is on its way to it does no wrong.
        """
        entry = entry_of(frame, answer=True)
        size = self._answer_bytes + entry.size
        if self._answers and (self._answers >= self._max_frames or size > self._max_bytes):
            self._on_overflow()
        else:
            self._put(entry)

    def put_ping(self, number: int) -> None:
        framed = server_frame(Opcode.PING, b"%d" % number)
        self._put(Entry(framed, 1, len(framed)))

    def _put(self, entry: Entry) -> None:
        if self._closed:
            return  # the connection is ending; units stay in the mailbox
        if len(self._batch) >= self._max_entries:
            self._on_overflow()
            return
        self._batch.append(entry)
        if not (self._announced or self.gathering):
            self.announce()
        self.frames += entry.frames
        self.bytes += entry.size
        if entry.answer:
            self._answers += 1
            self._answer_bytes += entry.size

    @property
    def gathered(self) -> bool:
        """Whether something is queued that the writer's task was not told of."""
        return bool(self._batch) and not self._announced

    def announce(self) -> None:
        """Wake the writer's task: something is queued, or it was left something else to do."""
        self._announced = True
        self._send.send_nowait(self._batch)

    async def take(self) -> list[Entry] | None:
        """Wait until something is announced; returns all that is queued, or None once closed."""
        try:
            await self._receive.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            return None
        self._announced = False
        return self.take_now()

    def take_now(self) -> list[Entry]:
        """All that is queued."""
        batch, self._batch = self._batch, []
        return batch

    def release(self, entries: Sequence[Entry]) -> None:
        """Give back the room of entries that were written."""
        for entry in entries:
            self.frames -= entry.frames
            self.bytes -= entry.size
            if entry.answer:
                self._answers -= 1
                self._answer_bytes -= entry.size
        if self.room:
            self.room.unpark_all()

    def close(self, *, flush: bool = True) -> None:
        """Take nothing more; the writer writes what is queued, or with `flush=False` just stops."""
        if self.gathered and not self._closed:
            self.announce()
        self._closed = True
        self._send.close()
        if not flush:
            self._receive.close()
        self.room.unpark_all()
