"""The one task that writes what is said on a connection: it gathers what is queued into few writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.server.scanner import Opcode, server_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
        self._stopped = False
        self._finished = trio.Event()
        self.frames_out = 0

    async def run(self) -> None:
        """Write until the outbox is closed and, unless stopped, empty.

        Errors: BrokenResourceError when the peer is gone, or took nothing for the write timeout.
        """
        try:
            while (entries := await self._outbox.take()) and not self._stopped:
                await self._write(entries)
        finally:
            self._finished.set()

    def stop(self) -> None:
        """Begin nothing more; the write under way goes on, so that a Close frame can follow it."""
        self._stopped = True

    async def wait_finished(self) -> None:
        await self._finished.wait()

    async def _write(self, entries: list[Entry]) -> None:
        size = 0
        for entry in entries:
            for frame in _frames(entry):
                self._gathered.append(frame)
                if entry.name:
                    self._metrics.sent(entry.name, len(frame))
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
            self.frames_out += len(self._gathered)
            self._gathered.clear()
        if not self._done:
            return
        units = []
        for entry in self._done:
            self._outbox.release(entry)
            # Asking for bytes is quick; asking whether it is a Unit, an abstract class, is not.
            if not isinstance(entry.content, bytes):
                units.append(entry.content)
        self._done.clear()
        if units:
            self._on_written(units)


def _frames(entry: Entry) -> Iterable[bytes]:
    content = entry.content
    if isinstance(content, bytes):
        return (content,)
    content.take_up()
    return (server_frame(Opcode.TEXT, f) for f in content.frames(trio.current_time()))
