"""Lines out of a stream of bytes, each of bounded length."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio


class LineTooLongError(Exception):
    """A line goes beyond the limit; nothing more can be read."""


class Lines:
    """The lines of `stream`, of at most `limit` bytes each, without their ends."""

    def __init__(self, stream: trio.abc.ReceiveStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self._buffer = bytearray()
        self._begin = 0  # of the next line
        self._searched = 0

    async def receive(self) -> bytes | None:
        """The next line; None at the end, where a line without its end does not count.

        *Errors*: LineTooLongError, and those of the stream.
        """
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            del self._buffer[: self._begin]
            self._begin = 0
            self._searched = len(self._buffer)
            if self._searched > self._limit:
                raise LineTooLongError
            received = await self._stream.receive_some()
            if not received:
                return None
            self._buffer += received
        line = bytes(self._buffer[self._begin : end])
        self._begin = self._searched = end + 1
        if len(line) > self._limit:
            raise LineTooLongError
        return line
