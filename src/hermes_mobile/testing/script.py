"""A server that says what a test tells it to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, TypeVar

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from hermes_mobile.client.background import open_background
from hermes_mobile.protocol.codec import decode, decode_hello, encode
from hermes_mobile.protocol.frames import Hello, Ready
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES
from hermes_mobile.testing.network import FailingStream, Network

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from hermes_mobile.protocol.frames import ClientFrame, ServerFrame

Frame = TypeVar("Frame")


class ScriptedConnection:
    """The server's end of one connection, after `hello`. Frames are those of `protocol.frames`."""

    def __init__(self, websocket: WebSocketConnection, hello: Hello, stream: FailingStream) -> None:
        self._websocket = websocket
        self.hello = hello
        self.stream = stream
        """The app's end, for a test that breaks it."""

    async def welcome(self, *, receipts: bool = True) -> None:
        """Say `ready`."""
        device = self.hello.device
        await self.send(Ready(f"mobile:{device.id}", device, receipts=receipts))

    async def send(self, *frames: ServerFrame | str) -> None:
        """Send frames; a string goes as it is."""
        for frame in frames:
            text = frame if isinstance(frame, str) else encode(frame).decode()
            await self._websocket.send_message(text)

    async def receive(self) -> ClientFrame:
        """The next frame of the app.

        *Errors*: EOFError when it has closed; ProtocolError for what no server would take.
        """
        try:
            return decode(await self._websocket.get_message())
        except ConnectionClosed:
            raise EOFError from None

    async def expect(self, kind: type[Frame]) -> Frame:
        """The next frame of the app. *Errors*: AssertionError when it is not of this kind."""
        match await self.receive():
            case kind() as frame:
                return frame
            case other:
                raise AssertionError(f"{kind.__name__} was expected, not {other}")

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection in words."""
        await self._websocket.aclose(code, reason)

    async def wait_closed(self) -> int:
        """Read until the app has closed; returns its close code, 1006 where it gave none."""
        while True:
            try:
                await self._websocket.get_message()
            except ConnectionClosed as closed:
                return 1006 if closed.reason is None else closed.reason.code


class Script(Network):
    """The connections that clients make, one after the other; made by `open_script`."""

    token = "any"  # noqa: S105 - whatever it is, a test judges it

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__()
        self._nursery = nursery
        self._arrived, self._arrivals = trio.open_memory_channel[trio.SocketStream](inf)
        self._served: list[trio.SocketStream] = []

    def _connected(self, sock: socket.socket) -> None:
        self._served.append(trio.SocketStream(trio.socket.from_stdlib_socket(sock)))
        self._arrived.send_nowait(self._served[-1])

    def close(self) -> None:
        """Close every connection without a word."""
        for stream in self._served:
            stream.socket.close()

    async def arrival(self) -> trio.SocketStream:
        """The next connection as a stream, for a server that does not even speak WebSocket."""
        return await self._arrivals.receive()

    async def accept(self) -> ScriptedConnection:
        """The next connection, which has said `hello`."""
        arrival = await self.arrival()
        proposal = await wrap_server_stream(
            self._nursery, arrival, max_message_size=MAX_FRAME_BYTES
        )
        websocket = await proposal.accept()
        hello = decode_hello(await websocket.get_message())
        return ScriptedConnection(websocket, hello, self.streams[-1])

    async def welcome(self, *, receipts: bool = True) -> ScriptedConnection:
        """The next connection, which has been told that it is ready."""
        connection = await self.accept()
        await connection.welcome(receipts=receipts)
        return connection


@asynccontextmanager
async def open_script() -> AsyncIterator[Script]:
    """A server for `Script.open_client` that does what the test does, as long as the block."""
    async with open_background() as nursery:
        script = Script(nursery)
        try:
            yield script
        finally:
            script.close()
