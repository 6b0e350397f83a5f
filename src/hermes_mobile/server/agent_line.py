"""The agent link's connections: whole messages over JSON lines or WebSocket (docs/agent-link.md)."""

from __future__ import annotations

import socket
from contextlib import suppress
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

import structlog
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from hermes_mobile.agents.lines import Lines, LineTooLongError
from hermes_mobile.agents.link import LinkAgent
from hermes_mobile.agents.link.codec import RefusedError, decode, encode
from hermes_mobile.agents.link.line import OverlongError
from hermes_mobile.agents.link.messages import Farewell, Goodbye, Hello
from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES
from hermes_mobile.server.fault import where
from hermes_mobile.server.stream import RECEIVE_BYTES

if TYPE_CHECKING:
    from hermes_mobile.agents.link.line import Line
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.stream import SocketStream

log = structlog.get_logger()

STRANGERS: Final = 8
"""Connections that have not said hello."""
CLOSE_SECONDS: Final = 2.0
"""How long the agent has to read the last message, and to close."""
CLOSE_CODES: Final = {
    Farewell.SHUTDOWN: CloseCode.GOING_AWAY,
    Farewell.REPLACED: CloseCode.REPLACED,
    Farewell.INTERNAL: CloseCode.INTERNAL_ERROR,
}
"""Of the WebSocket; for every other farewell, `REFUSED`."""


class JsonLines:
    """Each message is one line."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = Lines(stream, MAX_FRAME_BYTES)
        self._torn = False  # a message was begun and not finished: nothing can follow it

    async def receive(self) -> bytes | None:
        try:
            while (line := await self._lines.receive()) is not None:
                if line and not line.isspace():
                    await trio.lowlevel.checkpoint()
                    return line
        except LineTooLongError:
            raise OverlongError from None
        return None

    async def send(self, message: bytes) -> None:
        self._torn = True
        await self._stream.send_all(message + b"\n")
        self._torn = False

    async def close(self, goodbye: Goodbye | None) -> None:
        """Say the last message, and let the agent read it."""
        if self._torn:
            return
        with suppress(trio.BrokenResourceError):
            if goodbye is not None:
                await self.send(encode(goodbye))
            await self._stream.discard()


class WebSocketLine:
    """Each message is one text message."""

    def __init__(self, websocket: WebSocketConnection) -> None:
        self._websocket = websocket
        self._torn = False  # as for lines

    async def receive(self) -> bytes | str | None:
        try:
            message: bytes | str = await self._websocket.get_message()
        except ConnectionClosed as closed:
            if closed.reason is not None and closed.reason.code == TOO_BIG:
                raise OverlongError from None
            return None
        return message

    async def send(self, message: bytes) -> None:
        self._torn = True
        try:
            await self._websocket.send_message(message.decode())
        except ConnectionClosed:
            raise trio.BrokenResourceError from None
        self._torn = False

    async def close(self, goodbye: Goodbye | None) -> None:
        """Say the last message, and close in words."""
        if self._torn:
            return
        if goodbye is None:
            await self._websocket.aclose()
            return
        with suppress(trio.BrokenResourceError):
            await self.send(encode(goodbye))
        code = CLOSE_CODES.get(goodbye.code, CloseCode.REFUSED)
        await self._websocket.aclose(code, goodbye.code)


TOO_BIG: Final = 1009
"""What the WebSocket library closes with when a message is beyond its limit."""


class AgentSide:
    """The server's side of the agent link: who dials in is served, and one of them is the agent."""

    def __init__(self) -> None:
        self._strangers = 0

    async def serve(self, hub: Hub, stream: SocketStream, address: str) -> None:
        """Serve one connection until either side ends it.

        `address` is an IP address, or `unix`: whoever may open the file, and needs a token only if
        there is one. Who finds too many before it that have not said hello is closed at once.
        """
        started = trio.current_time()
        end = "cut"
        try:
            async with stream, trio.open_nursery() as library:
                if self._strangers < STRANGERS:
                    connection = AgentConnection(hub, stream, address)
                    self._strangers += 1
                    try:
                        hello = await connection.open(library)
                    finally:
                        self._strangers -= 1
                    end = await connection.serve(hello)
                library.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - the boundary: no fault leaves its connection
            end = "fault"
            log.error("agent link fault", **where(error))
        finally:
            seconds = round(trio.current_time() - started, 3)
            log.info("agent link", address=address, end=end, seconds=seconds)


class AgentConnection:
    """One connection to the agent's socket."""

    def __init__(self, hub: Hub, stream: SocketStream, address: str) -> None:
        assert isinstance(hub.agent, LinkAgent)  # noqa: S101 - only then anyone listens
        self._hub = hub
        self._agent = hub.agent
        self._stream = stream
        self._address = address

        self._line: JsonLines | WebSocketLine | None = None

    async def open(self, library: trio.Nursery) -> Hello | Goodbye | None:
        """Get from a socket to a hello, or to why there is none.

        `library` is for the task of the WebSocket library.
        """
        hello_timeout = self._hub.settings.hello_timeout
        with trio.move_on_after(hello_timeout):
            self._line = await self._open_line(library)
            return None if self._line is None else await self._receive_hello(self._line)
        return Goodbye(Farewell.TIMEOUT, f"hello: it must come within {hello_timeout:g} s")

    async def serve(self, hello: Hello | Goodbye | None) -> str:
        """Serve the agent that said `hello`, if it did, and close; returns why."""
        line = self._line
        if line is None:
            return "no hello"
        goodbye = await self._serve_agent(line, hello) if isinstance(hello, Hello) else hello
        with trio.move_on_after(CLOSE_SECONDS):
            await line.close(goodbye)
        return "left" if goodbye is None else goodbye.code

    async def _open_line(self, library: trio.Nursery) -> JsonLines | WebSocketLine | None:
        """Tell by the first byte how messages are framed; None when there is none."""
        match await self._first_byte():
            case b"{":
                return JsonLines(self._stream)
            case b"G":
                request = await wrap_server_stream(
                    library,
                    self._stream,
                    max_message_size=MAX_FRAME_BYTES,
                    receive_buffer_size=RECEIVE_BYTES,
                )
                if any(name.lower() == b"origin" for name, _ in request.headers):
                    await request.reject(403)
                    return None
                return WebSocketLine(await request.accept())
            case _:
                return None

    async def _first_byte(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._stream.socket)
            with suppress(BlockingIOError):
                return self._stream.socket.recv(1, socket.MSG_PEEK)

    async def _receive_hello(self, line: Line) -> Hello | Goodbye | None:
        """The agent's hello, or why it is sent away."""
        try:
            data = await line.receive()
            message = None if data is None else decode(data)
        except trio.BrokenResourceError:
            return None
        except OverlongError:
            return Goodbye(Farewell.BAD_MESSAGE, f"message: at most {MAX_FRAME_BYTES} bytes")
        except RefusedError as error:
            return Goodbye(Farewell.BAD_MESSAGE, error.message)
        if message is None:
            return None
        if not isinstance(message, Hello):
            return Goodbye(Farewell.BAD_MESSAGE, "t: the first message must be hello")
        if not self._admits(message.token):
            return Goodbye(Farewell.AUTH_FAILED, "token: missing or wrong")
        return message

    def _admits(self, token: str) -> bool:
        ours = self._hub.settings.agent_token
        if ours is None:
            return self._address == "unix"
        return compare_digest(token.encode("utf-8", "surrogatepass"), ours.encode())

    async def _serve_agent(self, line: Line, hello: Hello) -> Goodbye | None:
        log.info("agent connected", name=hello.name, version=hello.version)
        goodbye = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_with_server)
                goodbye = await self._agent.serve(line, hello, self._hub)
                nursery.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - the boundary: no fault leaves its link
            log.error("agent link fault", **where(error))
            return Goodbye(Farewell.INTERNAL, "the server failed")
        return goodbye

    async def _end_with_server(self) -> None:
        await self._hub.closing.wait()
        self._agent.end(Farewell.SHUTDOWN, "the server stops")
