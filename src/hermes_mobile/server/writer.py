"""The one task that writes what is said on a connection: it gathers what is queued into few writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.server.scanner import Opcode, server_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hermes_mobile.server.metrics import Metrics
    from hermes_mobile.server.outbox import Entry, Outbox
    from hermes_mobile.server.units import Unit
    from hermes_mobile.server.wire import Wire

GATHER_BYTES: Final = 64 * 1024
"""Frames are gathered into one write up to this. One write per frame costs three times the CPU."""


class Writer:
    """Writes from `outbox` to `wire`; `on_written` is told the units whose last frame is out."""

    def __init__(
        self,
        outbox: Outbox,
        wire: Wire,
        metrics: Metrics,
        on_written: Callable[[list[Unit]], None],
    ) -> None:
        self._outbox = outbox
        self._wire = wire
        self._metrics = metrics
        self._on_written = on_written
        self._gathered: list[bytes] = []
        self._done: list[Entry] = []
        self._waiting = False  # the task has nothing to do
        self._unfinished = False  # what was written without the task, the task has to finish
        self._fault: Exception | None = None  # met without the task: the task's to raise
        self._stopped = False
        self._finished = trio.Event()
        self.frames_out = 0

    async def run(self) -> None:
        """Write until the outbox is closed and, unless stopped, empty.

        *Errors*: BrokenResourceError when the peer is gone, or took nothing for the write timeout.
        """
        try:
            while True:
                self._waiting = True
                entries = await self._outbox.take()
                self._waiting = False
                if self._fault is not None:
                    raise self._fault
                if self._unfinished:
                    await self._wire.finish_send()
                    self._unfinished = False
                    self._settle()
                if entries is None or self._stopped:
                    return
                await self._write(entries)
                del entries  # a file among them may be large, and the next thing long in coming
        finally:
            self._waiting = False
            self._finished.set()

    def gather(self) -> None:
        """Leave what is queued from now on to `write_gathered`."""
        self._outbox.gathering = True

    def write_gathered(self) -> None:
        """Write what was gathered, as far as that goes without waiting; the task does the rest.

        It raises nothing: whoever gathers has no part in what is wrong with the connection.
        """
        outbox = self._outbox
        outbox.gathering = False
        if not outbox.gathered:
            return
        at_once = self._waiting and outbox.bytes <= GATHER_BYTES and self._wire.free
        if at_once and not self._stopped:
            try:
                if self._write_now(outbox.take_now()):
                    return
            except Exception as error:  # noqa: BLE001 - the connection's boundary judges it
                self._fault = error
        outbox.announce()

    def _write_now(self, entries: list[Entry]) -> bool:
        """Write `entries` without waiting; False when the task has to finish that."""
        for entry in entries:
            self._gathered += self._frames(entry)
        self._done += entries
        if not self._wire.send_now(b"".join(self._gathered)):
            self._unfinished = True
            return False
        self._settle()
        return True

    def stop(self) -> None:
        """Begin nothing more; the write under way goes on, so that a Close frame can follow it."""
        self._stopped = True

    async def wait_finished(self) -> None:
        await self._finished.wait()

    async def _write(self, entries: list[Entry]) -> None:
        size = 0
        for entry in entries:
            for frame in self._frames(entry):
                self._gathered.append(frame)
                size += len(frame)
                if size >= GATHER_BYTES:
                    await self._flush()
                    size = 0
                    if self._stopped:
                        return
            self._done.append(entry)
        await self._flush()

    async def _flush(self) -> None:
        if self._gathered:
            await self._wire.send_all(b"".join(self._gathered))
        self._settle()

    def _settle(self) -> None:
        """Account for what was written."""
        self.frames_out += len(self._gathered)
        self._gathered.clear()
        if not self._done:
            return
        done, self._done = self._done, []
        self._outbox.release(done)
        # Asking for bytes is quick; asking whether it is a Unit, an abstract class, is not.
        units = [entry.content for entry in done if not isinstance(entry.content, bytes)]
        if units:
            self._on_written(units)

    def _frames(self, entry: Entry) -> Iterable[bytes]:
        """The frames of an entry, each counted as it is made."""
        content = entry.content
        if not isinstance(content, bytes):
            content.take_up()
            return self._encoded(entry.name, content)
        if entry.name:
            self._metrics.sent(entry.name, len(content))
        return (content,)

    def _encoded(self, name: str, unit: Unit) -> Iterator[bytes]:
        for json in unit.frames(trio.current_time()):
            frame = server_frame(Opcode.TEXT, json)
            self._metrics.sent(name, len(frame))
            yield frame
