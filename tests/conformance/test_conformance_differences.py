"""Servers that are wrong on purpose: what is wrong is told, once, and nothing else is."""

from __future__ import annotations

import errno
import json
import socket
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import trio
from attrs import define, field, frozen
from trio.testing import MockClock
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Message,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)

from hermes_mobile.conformance.run import Outcome, RefusedError, catalogue, run
from hermes_mobile.conformance.target import Target
from hermes_mobile.conformance.websocket import NoServerError
from hermes_mobile.protocol import frames
from hermes_mobile.protocol.codec import decode, decode_hello, encode
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError

TOKEN = "the-token-of-the-liar"
SMILES = "\N{SLIGHTLY SMILING FACE}" * 60


@define
class Peer:
    """A server of the protocol for one app, without an agent.

    `lies` has, by type, what becomes of the frames that it sends wrong: other ones, or no JSON.
    """

    stream: trio.SocketStream
    lies: dict[str, Any]
    websocket: WSConnection = field(factory=lambda: WSConnection(ConnectionType.SERVER))
    received: Any = None
    greeted: bool = False

    async def run(self):
        async with self.stream:
            while self.websocket.state is not ConnectionState.CLOSED:
                try:
                    data = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    return
                self.websocket.receive_data(data or None)
                for event in self.websocket.events():
                    await self.take(event)

    async def take(self, event):
        match event:
            case Request():
                await self.send(self.lies.get("upgrade", AcceptConnection()))
            case TextMessage() | BytesMessage():
                self.received = event.data if not self.received else self.received + event.data
                if event.message_finished:
                    message, self.received = self.received, None
                    await self.answer(message)
            case Ping():
                await self.send(event.response())
            case CloseConnection() if self.websocket.state is ConnectionState.REMOTE_CLOSING:
                await self.send(event.response())

    async def send(self, event):
        with suppress(trio.BrokenResourceError):
            await self.stream.send_all(self.websocket.send(event))

    async def answer(self, message):
        try:
            frame = self.decide(message)
        except ProtocolError as refusal:
            frame = frames.Error(refusal.code, refusal.message, refusal.fatal, refusal.id)
        if frame is None:
            return
        told = json.loads(encode(frame))
        told = self.lies.get(told["t"], honest)(told)
        await self.send(Message(told if isinstance(told, bytes) else json.dumps(told)))
        if isinstance(frame, frames.Error) and frame.fatal:
            await self.send(CloseConnection(1008, frame.code))

    def decide(self, message):
        if not self.greeted:
            hello = decode_hello(message)
            if hello.token != TOKEN:
                raise ProtocolError(ErrorCode.AUTH_FAILED, "token: unknown", fatal=True)
            self.greeted = True
            device = frames.Device(hello.device.id or "dev-1", hello.device.name)
            return frames.Ready(f"mobile:{device.id}", device, receipts=hello.receipts)
        match decode(message):
            case frames.Hello():
                raise ProtocolError(ErrorCode.BAD_FRAME, "t: hello was said")
            case frames.Ping(ts=ts):
                return frames.Pong(ts)
            case frames.PromptAnswer(prompt_id=prompt_id):
                return frames.PromptDone(prompt_id, expired=True)
            case frames.Deliver(id=id):
                raise ProtocolError(ErrorCode.FORBIDDEN, "deliver: not here", id=id)
            case frames.MediaChunk(kind=kind, id=id) if kind not in list(frames.MediaIn):
                raise ProtocolError(ErrorCode.UNSUPPORTED_FRAME, "kind: unknown", id=id)
        return None


@frozen
class Dial:
    """How the peer is reached; each connection has one of its own."""

    nursery: trio.Nursery
    lies: dict[str, Any]
    host: str = "test"
    path: str = "/ws"

    async def __call__(self):
        ours, theirs = (
            trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair()
        )
        self.nursery.start_soon(Peer(ours, self.lies).run)
        return theirs


@pytest.fixture
def clock():
    return MockClock(autojump_threshold=0)


def chosen(*beginnings):
    return [scenario for scenario in catalogue() if str(scenario).startswith(beginnings)]


@pytest.fixture
def play(nursery):
    """Play the scenarios whose names begin like this against a peer with the given lies."""

    async def against(*beginnings, token=TOKEN, **lies):
        target = Target(dial=Dial(nursery, lies), token=token)
        return await run(target, chosen(*beginnings), jobs=4, told=lambda _: None)

    return against


def differing(verdicts):
    """What differs: what was expected, and what came."""
    return {
        str(verdict.scenario): (verdict.expected, verdict.got)
        for verdict in verdicts
        if verdict.outcome is Outcome.DIFFERS
    }


def honest(frame):
    return frame


def without(frame, *names):
    return {name: value for name, value in frame.items() if name not in names}


async def test_a_peer_that_makes_no_mistake(clock, play):
    """It agrees; what its agent does not do is skipped, and said so."""
    verdicts = await play("hello/", "frames/", "cards/", "shapes/")
    assert differing(verdicts) == {}
    cards = [verdict for verdict in verdicts if verdict.scenario.group == "cards"]
    assert {(verdict.outcome, verdict.reason) for verdict in cards} == {
        (Outcome.SKIPPED, "the agent does not do this")
    }


async def test_three_mistakes_are_three_differences(clock, play):
    """A name that is not cut (D12), a null that is not echoed (D24), errors without a message."""

    def shout(ready):
        device = ready["device"]
        cut = len(device["name"]) == 120
        return ready | {"device": device | {"name": device["name"] + "!" * cut}}

    lies = {
        "ready": shout,
        "pong": lambda pong: without(pong, "ts") if pong.get("ts") is None else pong,
        "error": lambda error: without(error, "message"),
    }
    found = differing(await play("hello/", "frames/", "shapes/", **lies))
    assert found == {
        "hello/ids and names are cut to 120 characters": (
            f'device.name in ready: "{SMILES}... (120 characters)"',
            f'"{SMILES}... (121 characters)"',
        ),
        "frames/ping with null": ('{"t": "pong", "ts": null}', '{"t": "pong"}'),
        "shapes/error": ("in error, a field message", found["shapes/error"][1]),
    }


@pytest.mark.parametrize(
    ("lie", "shape", "consequence"),
    [
        (
            lambda ready: without(ready, "session"),
            ("in ready, a field session", "a field session"),
            "hello/a token is enough",
        ),
        (
            lambda ready: ready | {"device": "phone"},
            ("in ready, device: an object", "frames of the right shape"),
            "hello/a token is enough",
        ),
    ],
)
async def test_a_frame_that_nobody_can_work_with(clock, play, lie, shape, consequence):
    """A wrong field is told by the shapes, and each scenario that stumbles over it differs."""
    found = differing(await play("hello/", "shapes/", ready=lie))
    assert found["shapes/ready"][0] == shape[0]
    assert found[consequence][0] == shape[1]


@pytest.mark.parametrize("lie", [b"\xff", b'{"t":"pong"}', "pong", [1], {"ts": 1}, {"t": 1}])
async def test_what_is_no_frame(clock, play, lie):
    """D2: only text messages that are JSON objects with a type are frames, and no pong came."""

    def answer(pong):
        return lie if pong.get("ts") == 12.5 else pong

    found = differing(await play("frames/ping", "shapes/", pong=answer))
    assert found.keys() == {"frames/ping with a fraction", "shapes/anything"}
    assert found["frames/ping with a fraction"][1] == "nothing within 10 s"


@pytest.mark.parametrize(
    ("lies", "problem"),
    [
        ({"upgrade": RejectConnection(status_code=404)}, "it answers HTTP 404, no WebSocket"),
        ({"ready": lambda ready: {"t": "pong"}}, 'hello is answered with {"t": "pong"}'),
        (
            {"ready": lambda ready: ready | {"t": "welcome"}},
            "hello is answered with nothing within 10 s",
        ),
    ],
)
async def test_no_server_of_the_protocol(clock, play, lies, problem):
    """Somebody is there, and does not speak the protocol: nothing is played."""
    with pytest.raises(NoServerError) as caught:
        await play("hello/", **lies)
    assert str(caught.value) == problem


async def test_a_server_that_goes_away(clock, nursery):
    """A connection that is refused in the middle of a run is a difference like any other."""
    dial, dialled = Dial(nursery, {}), count()

    class Leaving(Dial):
        async def __call__(self):
            if next(dialled) == 2:  # the witness and another one have been there
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            return await dial()

    target = Target(dial=Leaving(nursery, {}), token=TOKEN)
    verdicts = await run(target, chosen("hello/a"), jobs=1, told=lambda _: None)
    assert differing(verdicts) == {"hello/all fields": ("a connection", "Connection refused")}


async def test_a_token_that_is_refused(clock, play):
    """Without a token nothing can be played, and the server is not to blame."""
    with pytest.raises(RefusedError) as caught:
        await play("hello/", token="another-one")
    assert str(caught.value) == "the server refuses the token: auth_failed"
