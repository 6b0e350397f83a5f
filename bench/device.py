"""A device of the load generator: one WebSocket that says hello and reads frames."""

from __future__ import annotations

import asyncio
import socket
import time
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
from attrs import frozen
from picows import WSError, WSInvalidStatusError, WSListener, WSMsgType, ws_connect

from hermes_mobile.protocol.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from picows import WSFrame, WSTransport
    from picows.url import WSParsedURL

    from bench.plan import Identity
    from bench.worker import Worker

Frame: TypeAlias = dict[str, Any]

TEXT: Final = WSMsgType.TEXT
CLOSE: Final = WSMsgType.CLOSE
DATA: Final = frozenset({WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION})
PATIENCE: Final = 60.0
"""Seconds after which a frame that was waited for counts as an error."""
ABNORMAL: Final = 1006
"""The close code of a connection that ended without one."""
IP_BIND_ADDRESS_NO_PORT: Final = 24


class DeviceError(Exception):
    """Something went wrong with a device; `code` is what it counts as."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@frozen
class Arrival:
    """A frame, and the moment of `time.monotonic()` at which it was here."""

    frame: Frame
    at: float


class Device(WSListener):
    """`ready` is the frame of that name, once it came. Frames after it wait until they are expected.

    Pings are answered by picows.
    """

    transport: WSTransport

    def __init__(self, worker: Worker, number: int, identity: Identity) -> None:
        self.worker = worker
        self.number = number
        self.identity = identity
        self.ready: Frame | None = None
        self.close_code: int | None = None
        self.closed_at = 0.0
        self._run = f"{time.time_ns():x}-{number}"
        self._ids = count(1)
        self._refused = ""
        self._leaving = False
        self._opened = asyncio.Event()
        self._ended = asyncio.Event()
        self._frames: asyncio.Queue[Arrival | None] = asyncio.Queue()
        self._fragments = bytearray()

    async def open(self) -> None:
        """Connect, say hello, and wait for `ready`. *Errors*: DeviceError."""
        await self.connect()
        self.send({"t": "hello", "token": self.identity.token, "device": {"id": self.identity.id}})
        try:
            await asyncio.wait_for(self._opened.wait(), PATIENCE)
        except TimeoutError:
            raise DeviceError("no ready") from None
        if self.ready is None:
            raise DeviceError(self._refused or f"closed {self.close_code}")

    async def connect(self) -> None:
        """Get as far as a WebSocket. *Errors*: DeviceError."""
        target = self.worker.target
        source = target.source(self.number)
        try:
            self.transport, _ = await ws_connect(
                lambda: self,
                target.url,
                max_frame_size=MAX_FRAME_BYTES,
                websocket_handshake_timeout=PATIENCE,
                socket_factory=None if source is None else _from_address(source),
            )
        except WSInvalidStatusError as refusal:
            status = "" if refusal.response is None else refusal.response.status.value
            raise DeviceError(f"http {status}") from None
        except (OSError, TimeoutError, WSError) as error:
            raise DeviceError(type(error).__name__) from None

    def send(self, frame: Frame) -> None:
        self.transport.send(TEXT, orjson.dumps(frame))

    def make_id(self) -> str:
        """An id unlike any other, of this run or another."""
        return f"{self._run}-{next(self._ids)}"

    def ask(self, text: str) -> None:
        """Say a text to the agent."""
        self.send({"t": "text", "id": self.make_id(), "text": text})

    async def expect(self, t: str, **fields: Any) -> Arrival:
        """The next frame of type `t` with these fields; others before it are skipped.

        *Errors*: DeviceError, when the server sends an error, ends the connection, or says nothing.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while (arrival := await self._frames.get()) is not None:
                    frame = arrival.frame
                    if frame.get("t") == "error":
                        raise DeviceError(str(frame.get("code")))
                    if frame.get("t") == t and fields.items() <= frame.items():
                        return arrival
        except TimeoutError:
            raise DeviceError(f"no {t}") from None
        self._frames.put_nowait(None)  # whoever asks next is told, too
        raise DeviceError(f"closed {self.close_code}")

    async def close(self) -> None:
        """Leave in words; a server that does not answer is left without."""
        self._leaving = True
        if self.close_code is None:
            self.transport.send_close()
            try:
                await asyncio.wait_for(self._ended.wait(), 5)
            except TimeoutError:
                self.transport.disconnect(graceful=False)

    async def wait_ended(self) -> None:
        """*Errors*: DeviceError when the connection does not end."""
        try:
            await asyncio.wait_for(self._ended.wait(), PATIENCE)
        except TimeoutError:
            raise DeviceError("no close") from None

    # Called by picows

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
        elif frame.msg_type in DATA:
            self.take(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        handshake = transport.close_handshake
        # picows's own types say that there always is one.
        received = getattr(handshake, "recv", None)
        self.close_code = ABNORMAL if received is None else int(received.code)
        self.closed_at = time.monotonic()
        if self.ready is not None and not self._leaving:
            self.ended_unasked()
        self._frames.put_nowait(None)
        self._opened.set()
        self._ended.set()

    def pause_writing(self) -> None:
        """Nothing: what is sent may wait in memory."""

    def resume_writing(self) -> None:
        """Nothing, as above."""

    # For kinds of devices to do in their own way

    def take(self, frame: WSFrame) -> None:
        """Put fragments together, parse, and hand on."""
        if not frame.fin or self._fragments:
            self._fragments += frame.get_payload_as_memoryview()
            if frame.fin:
                whole = bytes(self._fragments)
                self._fragments.clear()
                self.hear(orjson.loads(whole))
        else:
            self.hear(self.parse(frame.get_payload_as_memoryview()))

    def parse(self, payload: memoryview) -> Frame:
        """The frame in a payload, which does not outlive the call."""
        frame: Frame = orjson.loads(payload)
        return frame

    def hear(self, frame: Frame) -> None:
        """Act on a frame."""
        if self.ready is not None:
            self._frames.put_nowait(Arrival(frame, time.monotonic()))
        elif frame.get("t") == "ready":
            self.ready = frame
            self._opened.set()
        elif frame.get("t") == "error":
            self._refused = str(frame.get("code"))

    def ended_unasked(self) -> None:
        """The server, or the network, ended a connection that was ready."""
        self.worker.error(f"closed {self.close_code}")


def _from_address(source: str) -> Callable[[WSParsedURL], socket.socket]:
    """Make sockets that connect from `source`, whatever port is free for that connection."""

    def make_socket(_: WSParsedURL) -> socket.socket:
        family = socket.AF_INET6 if ":" in source else socket.AF_INET
        made = socket.socket(family)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        made.bind((source, 0))
        return made

    return make_socket
