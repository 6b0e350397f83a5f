"""A server and its peers for tests: real sockets pairs, real WebSocket on both ends, virtual time.

`open_house` runs connections on one end of a socket pair each; `Peer` is the app on the other end,
on wsproto, so that it can also be late, silent or rude where a well-behaved client library is not.
"""

from __future__ import annotations

import base64
import json
import socket
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
import trio.testing
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from frames import FrameReader
from hermes_mobile.agents import Agent
from hermes_mobile.agents.demo import DemoAgent
from hermes_mobile.server.app import run_agent, wind_down
from hermes_mobile.server.connection import Connection, serve_connection
from hermes_mobile.server.devices import Devices
from hermes_mobile.server.hub import Hub
from hermes_mobile.server.received import open_received
from hermes_mobile.server.settings import Settings
from hermes_mobile.server.stream import SocketStream

TOKEN = "secret-token"
NEVER = 10_000.0
"""Seconds after which a test that waits has failed: virtual, so they cost nothing."""


def chunk(id: str, data: bytes, part: int = 0, parts: int = 1, **fields: Any) -> dict[str, Any]:
    """A `media` frame of the app."""
    encoded = base64.b64encode(data).decode()
    fields = {"kind": "document", "part": part, "parts": parts, **fields}
    return {"t": "media", "id": id, "data": encoded, **fields}


def audio(id: str, data: str, **fields: Any) -> dict[str, Any]:
    """An `audio` frame; `data` in base64."""
    return {"t": "audio", "id": id, "format": "ogg", "data": data, **fields}


def delivery(id: str, target: str | None = "mobile:phone", **fields: Any) -> dict[str, Any]:
    """A `deliver` frame; with a text unless `fields` says otherwise."""
    return {"t": "deliver", "id": id, "target": target, "text": f"text of {id}", **fields}


def attachment(data: bytes, **fields: Any) -> dict[str, Any]:
    """The `media` of a `deliver` frame."""
    return {"kind": "document", "data": base64.b64encode(data).decode(), **fields}


def client_frame(
    opcode: int,
    payload: bytes = b"",
    *,
    final: bool = True,
    reserved: int = 0,
    masked: bool = True,
    mask: bytes = b"\x01\x02\x03\x04",
    length: int | None = None,
    length_bytes: int | None = None,
) -> bytes:
    """A frame as a client sends it, or should not: `length` may lie, `length_bytes` may waste."""
    if length is None:
        length = len(payload)
    if length_bytes is None:
        length_bytes = 0 if length < 126 else 2 if length < 1 << 16 else 8
    short = {0: length, 2: 126, 8: 127}[length_bytes]
    head = bytes((final << 7 | reserved << 4 | opcode, masked << 7 | short))
    head += length.to_bytes(length_bytes) if length_bytes else b""
    if not masked:
        return head + payload
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


def texts(frames: list[dict[str, Any]]) -> list[str]:
    """What the `message` frames among `frames` say."""
    return [frame["text"] for frame in frames if frame["t"] == "message"]


class Peer(FrameReader):
    """An app on one end of a socket; frames are dictionaries."""

    def __init__(self, sock: socket.socket) -> None:
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self.websocket = WSConnection(ConnectionType.CLIENT)
        self.answers_pings = True
        self.pings: list[tuple[float, bytes]] = []
        """When the server pinged, and with what."""
        self.closed: tuple[int, str] | None = None
        """The server's close code and reason; 1006 when there was no Close frame."""
        self.http_status: int | None = None
        self.ready: dict[str, Any] = {}
        self._events: list[Any] = []
        self._text = ""

    async def upgrade(self, path: str = "/ws", headers: list[tuple[bytes, bytes]] | None = None):
        await self.send_event(Request(host="test", target=path, extra_headers=headers or []))
        event = await self.next_event()
        if isinstance(event, RejectConnection):
            self.http_status = event.status_code
        return event

    async def send(self, frame: Any) -> None:
        """Send a dictionary, or raw text or bytes, as one message."""
        if isinstance(frame, bytes):
            await self.send_event(BytesMessage(frame))
        else:
            await self.send_event(
                TextMessage(frame if isinstance(frame, str) else json.dumps(frame))
            )

    async def send_event(self, event: Any) -> None:
        await self.stream.send_all(self.websocket.send(event))

    async def receive(self) -> dict[str, Any] | None:
        """The next frame; None when the connection is over."""
        with trio.fail_after(NEVER):
            while (event := await self.next_event()) is not None:
                match event:
                    case TextMessage():
                        self._text += event.data
                        if event.message_finished:
                            text, self._text = self._text, ""
                            return json.loads(text)
                    case Ping():
                        self.pings.append((trio.current_time(), bytes(event.payload)))
                        if self.answers_pings and self.websocket.state is ConnectionState.OPEN:
                            await self.send_event(event.response())
                    case Pong():
                        pass
                    case CloseConnection():
                        self.closed = (event.code, event.reason or "")
                        with suppress(Exception):
                            await self.send_event(event.response())
                        return None
                    case _:
                        raise AssertionError(event)
        if self.closed is None:
            self.closed = (1006, "")
        return None

    async def next_event(self):
        while not self._events:
            try:
                data = await self.stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self.websocket.receive_data(data)
            self._events.extend(self.websocket.events())
        return self._events.pop(0)

    async def receive_for(self, seconds: float) -> list[dict[str, Any]]:
        """All that comes within `seconds`."""
        frames = []
        with trio.move_on_after(seconds):
            while (frame := await self.receive()) is not None:
                frames.append(frame)
        return frames

    async def refusal(self, frame: Any) -> tuple[str, bool, str | None]:
        """Send `frame`; the code of the error that answers it, whether it is fatal, and its id."""
        await self.send(frame)
        error = await self.expect("error")
        return error["code"], error["fatal"], error.get("id")

    async def drain(self) -> list[dict[str, Any]]:
        """What comes before the pong of a ping sent now: the connection is alive."""
        await self.send({"t": "ping", "ts": "drain"})
        return (await self.receive_until("pong", ts="drain"))[:-1]

    async def wait_closed(self) -> tuple[int, str]:
        while await self.receive() is not None:
            pass
        assert self.closed is not None
        return self.closed

    async def say(self, id: str, text: str) -> None:
        await self.send({"t": "text", "id": id, "text": text})

    async def send_file(
        self, id: str, data: bytes, kind: str = "document", chunk: int = 3 << 20, **fields: Any
    ) -> None:
        parts = max(1, -(-len(data) // chunk))
        for part in range(parts):
            piece = base64.b64encode(data[part * chunk : (part + 1) * chunk]).decode()
            await self.send(
                {
                    "t": "media",
                    "id": id,
                    "kind": kind,
                    "data": piece,
                    "part": part,
                    "parts": parts,
                    **fields,
                }
            )

    async def vanish(self) -> None:
        """End without a Close frame."""
        await self.stream.aclose()


class House:
    """A running server without listeners: connections begin where a test asks for them."""

    def __init__(self, hub: Hub, nursery: trio.Nursery) -> None:
        self.hub = hub
        self.nursery = nursery
        self.peers: list[Peer] = []
        self.send_buffer: int | None = None
        """Bytes that the kernel holds for each later connection: few make the server wait soon."""

    def plug(self, address: str = "127.0.0.1") -> Peer:
        """A new connection that has said nothing yet."""
        ours, theirs = socket.socketpair()
        if self.send_buffer is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer)
        stream = SocketStream(ours, self.hub.settings.write_timeout)
        self.nursery.start_soon(serve_connection, self.hub, stream, address)
        self.peers.append(Peer(theirs))
        return self.peers[-1]

    async def open(
        self, address: str = "127.0.0.1", headers: list[tuple[bytes, bytes]] | None = None
    ) -> Peer:
        """A WebSocket that has not said hello."""
        peer = self.plug(address)
        event = await peer.upgrade(headers=headers)
        assert isinstance(event, AcceptConnection), event
        return peer

    async def connect(
        self,
        device: str | None = "phone",
        *,
        token: str = TOKEN,
        address: str = "127.0.0.1",
        headers: list[tuple[bytes, bytes]] | None = None,
        **hello: Any,
    ) -> Peer:
        """A device that said hello and is ready; or was refused, then `peer.closed` is set."""
        peer = await self.open(address, headers)
        if device is not None:
            hello["device"] = {"id": device, "name": device.title()}
        await peer.send({"t": "hello", "token": token, **hello})
        first = await peer.receive()
        assert first is not None, peer.closed
        peer.ready = first
        if first["t"] == "error":
            await peer.wait_closed()
        return peer

    async def say(self, *words: str, device: str = "phone") -> None:
        """Let the agent say `words` to a device, outside any turn."""
        for word in words:
            await self.hub.conversation(device).reply(word)

    async def lose(self, peer: Peer) -> None:
        """End a connection without a Close frame; returns when the server has noticed."""
        await peer.vanish()
        await trio.testing.wait_all_tasks_blocked()

    def connection(self, device: str = "phone") -> Connection:
        """The server's side of the connection of `device`."""
        [connection] = [c for c in self.hub.connections if c.record.device == device]
        return connection

    async def stop(self) -> None:
        await wind_down(self.hub)


@asynccontextmanager
async def open_house(
    agent: Agent | None = None, *, devices: Devices | None = None, **settings: Any
):
    """A server with `agent` (the demo agent) and `settings`; all of it ends with the block."""
    settings.setdefault("token", TOKEN)
    async with trio.open_nursery() as turns:
        decided = Settings(**settings)
        received = await open_received(decided)
        hub = Hub(decided, agent or DemoAgent(), turns, received, devices)
        turns.start_soon(hub.run)
        turns.start_soon(run_agent, hub)
        async with trio.open_nursery() as connections:
            house = House(hub, connections)
            try:
                yield house
            finally:
                for peer in house.peers:
                    peer.stream.socket.close()
                connections.cancel_scope.cancel()
        turns.cancel_scope.cancel()


@asynccontextmanager
async def two_devices(**settings: Any):
    """A house with a device that will be rude, and a witness, who must not notice."""
    async with open_house(**settings) as house:
        witness = await house.connect("witness")
        rude = await house.connect("rude")
        yield house, rude, witness
        await witness.say("w", "still there?")
        assert (await witness.expect("message"))["text"] == "still there?"
        assert witness.closed is None


def ends(logs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Device and reason of the connections that ended."""
    return [(e["device"], e["end"]) for e in logs if e["event"] == "connection"]


def faults(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in logs if entry["log_level"] in {"warning", "error", "critical"}]
