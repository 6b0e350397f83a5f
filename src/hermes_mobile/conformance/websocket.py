"""One WebSocket to the server under test, that can be as odd as a scenario wants."""

from __future__ import annotations

import secrets
from contextlib import suppress
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from attrs import define, field
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import RemoteProtocolError

from hermes_mobile.conformance.difference import Closed

if TYPE_CHECKING:
    from trio.abc import Stream

Received: TypeAlias = str | bytes
"""A text message, or a binary one."""

CLOSE_SECONDS = 1.0
"""For the server's answer to a Close frame."""
ABNORMAL = 1006
"""What wsproto makes of an end without a Close frame."""


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class NoServerError(Exception):
    """There is nobody, or somebody who speaks no WebSocket."""


def websocket_frame(
    opcode: int,
    payload: bytes = b"",
    *,
    final: bool = True,
    masked: bool = True,
    length: int | None = None,
) -> bytes:
    """A frame as RFC 6455 wants it, or not; `length` announces another than the payload's own."""
    size = len(payload) if length is None else length
    if size < 126:  # noqa: PLR2004 - RFC 6455, 5.2
        short, extended = size, b""
    elif size < 1 << 16:
        short, extended = 126, size.to_bytes(2)
    else:
        short, extended = 127, size.to_bytes(8)
    head = bytes((final << 7 | opcode, masked << 7 | short)) + extended
    if not masked:
        return head + payload
    key = secrets.token_bytes(4)
    pad = key * (len(payload) // 4) + key[: len(payload) % 4]
    mixed = int.from_bytes(payload) ^ int.from_bytes(pad)
    return head + key + mixed.to_bytes(len(payload))


@define(eq=False)
class WebSocket:
    """A client's end. Messages are kept until they are taken; pings of the server are answered."""

    _stream: Stream
    answers_pings: bool = True
    was_pinged: trio.Event = field(factory=trio.Event)
    """A ping of the server was answered."""
    pongs: list[bytes] = field(factory=list)
    """What the server answered pings with."""
    closed: Closed | None = None
    """How the server ended it."""
    _pieces: list[Message[Any]] = field(factory=list)
    """Of the message that is arriving."""
    _ended: trio.Event = field(factory=trio.Event)
    _one_writer: trio.Lock = field(factory=trio.Lock)
    _arriving: trio.MemorySendChannel[Received] = field(init=False)
    _arrived: trio.MemoryReceiveChannel[Received] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._arriving, self._arrived = trio.open_memory_channel[Received](inf)

    async def run(
        self,
        host: str,
        path: str,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Upgrade, then read until the server ends it; started once it is a WebSocket.

        *Errors*: NoServerError before that.
        """
        parser = WSConnection(ConnectionType.CLIENT)
        upgraded = False
        async with self._stream, self._arriving:
            await self.send_raw(parser.send(Request(host=host, target=path)))
            while self.closed is None:
                for event in await self._receive_events(parser):
                    if isinstance(event, RejectConnection):
                        raise NoServerError(f"it answers HTTP {event.status_code}, no WebSocket")
                    if isinstance(event, AcceptConnection):
                        upgraded = True
                        task_status.started()
                    else:
                        await self._take(event)
        self._ended.set()
        if not upgraded:
            raise NoServerError(f"{self.closed}, and no WebSocket")

    async def _receive_events(self, parser: WSConnection) -> list[Event]:
        data = b""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            data = bytes(await self._stream.receive_some())
        try:
            parser.receive_data(data or None)
            return list(parser.events())
        except RemoteProtocolError as error:
            self.closed = Closed(None, f"it breaks RFC 6455: {error}")
            return []

    async def _take(self, event: Event) -> None:
        match event:
            case TextMessage() | BytesMessage():
                self._pieces.append(event)
                if event.message_finished:
                    self._arriving.send_nowait(joined(self._pieces))
                    self._pieces.clear()
            case Ping(payload=payload) if self.answers_pings:
                await self.send_raw(websocket_frame(Opcode.PONG, bytes(payload)))
                self.was_pinged.set()
            case Pong(payload=payload):
                self.pongs.append(bytes(payload))
            case CloseConnection(code=code, reason=reason):
                self.closed = Closed(None if code == ABNORMAL else code, reason or "")
                if self.closed.code is not None:
                    await self.send_raw(websocket_frame(Opcode.CLOSE, code.to_bytes(2)))
            case _:
                pass

    @property
    def is_quiet(self) -> bool:
        """It is open, and everything that came was taken."""
        return self.closed is None and not self._arrived.statistics().current_buffer_used

    async def take_message(self) -> Received | Closed:
        """Whatever comes next."""
        try:
            return await self._arrived.receive()
        except trio.EndOfChannel:
            return self.closed or Closed(None)

    async def send_raw(self, data: bytes) -> None:
        """Send bytes of TCP. A server that takes no more is noticed when it is waited for."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._one_writer:
                await self._stream.send_all(data)

    async def leave(self, code: int | None = 1000) -> None:
        """End it, by default with a Close and its answer; with None, as a network does."""
        if code is not None:
            with trio.move_on_after(CLOSE_SECONDS):
                await self.send_raw(websocket_frame(Opcode.CLOSE, code.to_bytes(2)))
                await self._ended.wait()
        await trio.aclose_forcefully(self._stream)


def joined(pieces: list[Message[Any]]) -> Received:
    empty: Received = "" if isinstance(pieces[0], TextMessage) else b""
    whole: Received = empty.join(piece.data for piece in pieces)
    return whole
