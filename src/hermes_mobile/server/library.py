"""trio-websocket, for what the reader does not read itself: fragments, binary messages, pings.

Most connections never need it, so it is opened with the first frame that does. It is shown an upgrade
that took place: a request of ours, and its answer goes nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import trio
from trio_websocket import wrap_server_stream

from hermes_mobile.server.stream import RECEIVE_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio_websocket import WebSocketConnection

REQUEST: Final = (
    b"GET / HTTP/1.1\r\nHost: device\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
"""What the library reads first."""
NO_LIMIT: Final = 2**63
"""For the library's own limit, in characters: the scanner counts bytes (D3)."""


class Library(trio.abc.Stream):
    """The library, and the stream that it reads from and writes to.

    `send` writes its frames in turn with others; `on_leave` is called when it reads nothing more.
    """

    _websocket: WebSocketConnection
    """Once it was opened."""

    def __init__(
        self,
        send: Callable[[bytes | bytearray | memoryview], Awaitable[None]],
        on_leave: Callable[[], None],
    ) -> None:
        self._send = send
        self._on_leave = on_leave
        self._greeting = REQUEST
        self._greeted = False
        self._left = False
        self._to_library: trio.MemorySendChannel[bytes]
        self._from_peer: trio.MemoryReceiveChannel[bytes]
        self._to_library, self._from_peer = trio.open_memory_channel(0)

    async def open(self, nursery: trio.Nursery) -> Self:
        """Open it; its task runs in `nursery`."""
        proposal = await wrap_server_stream(
            nursery, self, max_message_size=NO_LIMIT, receive_buffer_size=RECEIVE_BYTES
        )
        self._websocket = await proposal.accept()
        self._greeted = True
        return self

    async def read(self, data: bytes) -> None:
        """Let it read what the peer sent. *Errors*: BrokenResourceError when it has left."""
        await self._to_library.send(data)

    async def get_message(self) -> str | bytes:
        """Wait for the message that ends with what it read. *Errors*: trio_websocket.ConnectionClosed."""
        message: str | bytes = await self._websocket.get_message()
        return message

    def forget(self) -> None:
        """Let go what it has read, and of the circle of references through this stream."""
        del self._websocket

    # The stream

    async def receive_some(self, max_bytes: int | None = None) -> bytes:  # noqa: ARG002 - the port
        if self._left:
            raise trio.ClosedResourceError
        if self._greeting:
            greeting, self._greeting = self._greeting, b""
            return greeting
        return await self._from_peer.receive()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if not self._greeted:
            await trio.lowlevel.checkpoint()  # its answer to our request
            return
        if self._left:
            raise trio.ClosedResourceError
        try:
            await self._send(data)
        except trio.BrokenResourceError:
            self._leave()  # it ends without a word
            raise

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._leave()
        await trio.lowlevel.checkpoint()

    def _leave(self) -> None:
        self._left = True
        self._from_peer.close()
        self._on_leave()
