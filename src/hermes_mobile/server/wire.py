"""The seam under trio-websocket: a stream of ours that it reads from and answers control frames through.

The library does the upgrade, the unmasking, the joining of fragments, UTF-8, and answers pings and the
peer's Close. Ours are: what may be read at all (`scanner`), whole server frames written beside the
library's under one lock, so that many go out in one write, and the end of the connection.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.protocol.codec import encode
from hermes_mobile.server.scanner import Opcode, server_frame

if TYPE_CHECKING:
    from hermes_mobile.server.ending import Ending
    from hermes_mobile.server.scanner import FrameScanner
    from hermes_mobile.server.stream import SocketStream
    from hermes_mobile.server.upgrade import UpgradeRequest

CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the peer has for its side of the closing handshake."""


class Wire(trio.abc.Stream):
    """`request` was read already; the library gets its head first, then what came behind it."""

    def __init__(
        self,
        stream: SocketStream,
        scanner: FrameScanner,
        request: UpgradeRequest,
    ) -> None:
        self._stream = stream
        self._scanner = scanner
        self._head = request.head
        self._rest = request.rest
        self._lock = trio.Lock()
        self._upgraded = trio.Event()
        self._left = False
        self._torn = False  # a frame was begun and not finished: nothing can follow it
        self.listening = False
        """Whether the library waits for bytes; if not, the peer's silence is not its own."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Give the library its next bytes; the end of the stream after a violation."""
        if self._left:
            raise trio.ClosedResourceError
        if self._head:
            head, self._head = self._head, b""
            return head
        if not self._upgraded.is_set():
            await self._upgraded.wait()  # else the library takes frames for a part of the request
        if self._scanner.violation is not None:
            return b""
        if self._rest:
            await trio.lowlevel.checkpoint()
            data, self._rest = self._rest, b""
        else:
            self.listening = True
            data = await self._stream.receive_some(max_bytes)
            self.listening = False
        allowed = self._scanner.feed(data)
        if allowed < len(data):
            data, self._rest = data[:allowed], data[allowed:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole frames: the library's, or the writer's gathered ones.

        *Cancellation*: may leave half a frame behind; `close` then says nothing more.
        """
        try:
            self._lock.acquire_nowait()  # free nearly always; `acquire` would cost a checkpoint
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            if self._left or self._torn:
                raise trio.ClosedResourceError
            self._torn = True
            await self._stream.send_all(data)
            self._torn = False
            self._upgraded.set()
        finally:
            self._lock.release()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Let the library leave; the socket stays open for `close`."""
        self._left = True
        await trio.lowlevel.checkpoint()

    async def close(self, ending: Ending) -> None:
        """Say the last words and the Close frame, hear the peer's, and close the socket.

        Call it when no other task uses the wire any more. *Limits*: CLOSE_TIMEOUT seconds.
        """
        answered = self._left and self._scanner.close_seen  # the peer's Close, by the library
        if ending.code is not None and not self._torn and not answered:
            last = b""
            if ending.error is not None:
                last = server_frame(Opcode.TEXT, encode(ending.error))
            last += server_frame(Opcode.CLOSE, ending.code.to_bytes(2) + ending.why.encode())
            with (
                trio.move_on_after(CLOSE_TIMEOUT),
                suppress(trio.BrokenResourceError, trio.ClosedResourceError),
            ):
                await self._stream.send_all(last)
                await self._stream.discard(until=self._peer_closed)
        await self._stream.aclose()

    def _peer_closed(self, data: bytes) -> bool:
        data, self._rest = self._rest + data, b""
        while data and not self._scanner.ended:
            data = data[self._scanner.feed(data) :]
        return self._scanner.close_seen
