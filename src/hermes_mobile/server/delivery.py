"""Service deliveries: what cron, or `hermes-mobile send`, says to a device (D25, D26)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.agents import OutgoingFile
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError, bad_frame
from hermes_mobile.protocol.frames import Accepted, Deliver, Delivered, Error, Ping, Pong
from hermes_mobile.protocol.limits import MIB
from hermes_mobile.protocol.uploads import guess_mime
from hermes_mobile.server.units import FileUnit, MessageUnit, text_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes_mobile.protocol.frames import ServerFrame
    from hermes_mobile.server.access import Admission
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.units import Unit

DELIVERIES_OPEN: Final = 256
"""Deliveries of one connection without an outcome."""
PINGS_OPEN: Final = 256
"""Pings that wait among them, beyond that: who asks how they fare is told."""
DELIVERY_BYTES_OPEN: Final = 16 * MIB
"""What they may hold together; one alone may always be there."""


class Deliveries:
    """The deliveries of one connection: one after the other, in a task that begins with the first.

    Pings queue among them, for their pongs tell that every earlier delivery has its outcome (D25).

    A courier that sends faster than devices take is made to wait. A device is not: the pong that a
    delivery waits for may be its own, behind what it sent, so it is refused what is too much.
    """

    def __init__(
        self,
        hub: Hub,
        nursery: trio.Nursery,
        answer: Callable[[ServerFrame], None],
        admission: Admission,
    ) -> None:
        self._hub = hub
        self._nursery = nursery
        self._answer = answer
        self._receipts = admission.receipts
        self._may_wait = admission.courier
        # Most connections that may deliver never do: what it takes is made for the first one.
        self._queue: trio.MemorySendChannel[Deliver | Ping] | None = None
        self._finished = trio.Event()
        self._room = trio.lowlevel.ParkingLot()
        self._open = 0
        self._bytes = 0

    @property
    def under_way(self) -> bool:
        """Whether one has no outcome yet."""
        return self._open > 0

    async def put(self, frame: Deliver | Ping) -> None:
        """Take `frame` up when those before it are done.

        *Errors*: ProtocolError `internal_error` for a device of which too many wait.
        """
        size = frame_size(frame)
        most = DELIVERIES_OPEN + (PINGS_OPEN if isinstance(frame, Ping) else 0)
        while self._open and (self._open >= most or self._bytes + size > DELIVERY_BYTES_OPEN):
            if not self._may_wait:
                raise ProtocolError(
                    ErrorCode.INTERNAL_ERROR,
                    f"at most {DELIVERIES_OPEN} deliveries, {DELIVERY_BYTES_OPEN} bytes, wait for "
                    "their devices: resend later",
                    id=frame.id if isinstance(frame, Deliver) else None,
                )
            await self._room.park()
        if self._queue is None:
            self._queue, frames = trio.open_memory_channel[Deliver | Ping](
                DELIVERIES_OPEN + PINGS_OPEN
            )
            self._nursery.start_soon(self._run, frames)
        self._open += 1
        self._bytes += size
        self._queue.send_nowait(frame)
        if self._open > 1:
            await trio.lowlevel.checkpoint()  # a burst lets those before it go out

    async def finish(self) -> None:
        """Finish what was taken: a sender need not wait for silence to mean success."""
        if self._queue is not None:
            self._queue.close()
            await self._finished.wait()

    async def _run(self, frames: trio.MemoryReceiveChannel[Deliver | Ping]) -> None:
        async for frame in frames:
            try:
                match frame:
                    case Ping(ts):
                        self._answer(Pong(ts))
                    case Deliver():
                        await deliver(self._hub, frame, partial(self._delivered, frame.id))
                        if self._receipts:
                            self._answer(Accepted(frame.id))
            except ProtocolError as error:
                self._answer(Error(error.code, error.message, id=error.id))
            finally:
                self._open -= 1
                self._bytes -= frame_size(frame)
                self._room.unpark_all()
            del frame  # it may be large, and the next one long in coming
        self._finished.set()

    def _delivered(self, frame_id: str, device_id: str) -> None:
        if self._receipts:
            self._answer(Delivered(frame_id, device_id))


def frame_size(frame: Deliver | Ping) -> int:
    """Bytes that a frame costs while it waits."""
    if isinstance(frame, Ping):
        return 0
    return text_size(frame.text) + (0 if frame.media is None else len(frame.media.data))


async def deliver(hub: Hub, frame: Deliver, on_delivered: Callable[[str], None]) -> None:
    """Say what `frame` holds to its target, and wait until it is written, or kept.

    `on_delivered` is called with the device's id once the device confirmed all of it (D38).

    *Errors*: ProtocolError `bad_frame` without any target; `device_offline` when the device is away,
    or leaves before all is written. What was not written is then forgotten: it is the sender's to
    send again.
    """
    device_id = frame.target or hub.settings.home_device
    if not device_id:
        raise bad_frame("target: missing, and no home device is set", id=frame.id)
    units = list(_units(hub, frame))
    units[-1].on_confirmed = partial(on_delivered, device_id)
    for unit in units:
        if (session := hub.registry.get(device_id)) is not None:
            await session.room(unit.frame_count, unit.size)
        # A session may have been forgotten, or begun, while there was no room.
        session = hub.registry.get(device_id)
        if frame.keep and not hub.devices.is_revoked(device_id):
            hub.registry.open(device_id).say(unit)
        elif session is None or session.connection is None:
            raise ProtocolError(
                ErrorCode.DEVICE_OFFLINE, f"target: mobile:{device_id} is not online", id=frame.id
            )
        else:
            session.say(unit)
            if not await unit.wait_settled():
                raise ProtocolError(
                    ErrorCode.DEVICE_OFFLINE, f"target: mobile:{device_id} left", id=frame.id
                )


def _units(hub: Hub, frame: Deliver) -> Iterator[Unit]:
    now = trio.current_time()
    if frame.text:
        yield MessageUnit(frame.id, now, frame.text)
    if frame.media is not None:
        media = frame.media
        file = OutgoingFile(media.kind, media.data, media.filename)
        mime = media.mime or guess_mime(media.filename)
        yield FileUnit(frame.id, now, file, mime, hub.settings.media_chunk_bytes)
