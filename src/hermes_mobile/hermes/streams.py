"""Replies that grow: Hermes sends a message and edits it; the link shows the states of a stream."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .link import LinkLostError, RefusedError

if TYPE_CHECKING:
    from .link import Link, Message


@dataclass(eq=False)
class Stream:
    """`where` it was begun is where it goes on."""

    device: str
    where: dict[str, str]
    text: str


class Streams:
    """The open ones, by the name that is Hermes' id of the message."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._open: dict[str, Stream] = {}
        self._ended: dict[str, tuple[str, str]] = {}
        """The name and text of each device's last one: Hermes ends most of them twice."""

    async def begin(self, device: str, where: dict[str, str], text: str) -> Message:
        """Show the first state of a new stream. Errors: RefusedError, LinkLostError."""
        name = f"s{self._link.make_id()}"
        self._open[name] = Stream(device, where, text)
        return await self._show(name, text, final=False)

    async def edit(self, device: str, name: str, text: str, *, final: bool) -> Message:
        """Show what a stream says now. Errors as in `begin`; also for what is no open stream."""
        if self._ended.get(device) == (name, text):
            return {"message": name}
        if name not in self._open:
            raise RefusedError("refused", "this message has ended")
        return await self._show(name, text, final=final)

    async def finish(self, device: str) -> None:
        """End the streams of a device that Hermes left open."""
        for name in [name for name, stream in self._open.items() if stream.device == device]:
            with suppress(RefusedError, LinkLostError):
                await self._show(name, self._open[name].text, final=True)

    async def _show(self, name: str, text: str, *, final: bool) -> Message:
        stream = self._open[name]
        stream.text = text
        if final:
            del self._open[name]
            self._ended[stream.device] = (name, text)
        fields = {"stream": name, "text": text, "final": final, **stream.where}
        try:
            await self._link.request(stream.device, "stream", **fields)
        except (RefusedError, LinkLostError):
            self._open.pop(name, None)
            raise
        return {"message": name}
