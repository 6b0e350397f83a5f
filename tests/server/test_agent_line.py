"""The agent link's connections: how messages are framed, who is let in, and how they end."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, TextMessage

from hermes_mobile.server import agent_line
from hermes_mobile.server.agent_line import STRANGERS, AgentSide
from hermes_mobile.server.stream import SocketStream
from house import House, Peer
from link import Dialler, dial, linked_house

TOKEN = "the-token-of-the-agent"
HELLO = {"t": "hello", "v": 1}


@contextmanager
def caller(house: House, address: str = "127.0.0.1") -> Iterator[Peer]:
    """A WebSocket client that has said nothing yet."""
    ours, theirs = socket.socketpair()
    stream = SocketStream(ours, house.hub.settings.write_timeout)
    house.nursery.start_soon(AgentSide().serve, house.hub, stream, address)
    peer = Peer(theirs)
    try:
        yield peer
    finally:
        peer.stream.socket.close()


def ends(logs: list[dict[str, Any]]) -> list[str]:
    return [entry["end"] for entry in logs if entry["event"] == "agent link"]


async def test_websocket(autojump_clock: MockClock) -> None:
    """A connection that begins with an upgrade speaks WebSocket, a message in each text message."""
    async with linked_house(agent_token=TOKEN) as house:
        phone = await house.connect()
        with caller(house) as agent:
            assert isinstance(await agent.upgrade("/any"), AcceptConnection)
            await agent.send({**HELLO, "token": TOKEN})
            assert (await agent.receive())["t"] == "ready"
            await agent.expect("device")
            await phone.say("m1", "Grüße")
            turn = await agent.expect("turn")
            assert turn["input"]["text"] == "Grüße"
            await agent.send({"t": "reply", "id": "1", "turn": turn["turn"], "text": "¡Hola!"})
            await agent.expect("done", id="1")
            assert (await phone.expect("message"))["text"] == "¡Hola!"


async def test_websocket_pieces(autojump_clock: MockClock) -> None:
    """A message may come in fragments."""
    async with linked_house(agent_token=TOKEN) as house:
        with caller(house) as agent:
            await agent.upgrade()
            text = json.dumps({**HELLO, "token": TOKEN})
            await agent.send_event(TextMessage(text[:9], message_finished=False))
            await agent.send_event(TextMessage(text[9:]))
            assert (await agent.receive())["t"] == "ready"


@pytest.mark.parametrize(
    ("hello", "code", "close"),
    [
        ({**HELLO, "token": "wrong"}, "auth_failed", 1008),
        (HELLO, "auth_failed", 1008),
        ({"t": "hello", "v": 2}, "bad_message", 1008),
        ("{oops", "bad_message", 1008),
    ],
)
async def test_websocket_refusals(
    autojump_clock: MockClock, hello: dict[str, Any] | str, code: str, close: int
) -> None:
    """Who is refused is told why in words, and by the close code."""
    async with linked_house(agent_token=TOKEN) as house:
        with caller(house) as agent:
            await agent.upgrade()
            await agent.send(hello)
            assert (await agent.receive())["code"] == code
            assert await agent.wait_closed() == (close, code)


async def test_websocket_goodbyes(autojump_clock: MockClock) -> None:
    """The one that is replaced is closed with 4001, the last one with 1001 when the server stops."""
    async with linked_house(agent_token=TOKEN, shutdown_grace=0) as house:
        with caller(house) as old, caller(house) as new:
            for agent in (old, new):
                await agent.upgrade()
                await agent.send({**HELLO, "token": TOKEN})
                assert (await agent.receive())["t"] == "ready"
            assert (await old.receive())["code"] == "replaced"
            assert await old.wait_closed() == (4001, "replaced")
            await house.stop()
            assert (await new.receive())["code"] == "shutdown"
            assert await new.wait_closed() == (1001, "shutdown")


async def test_websocket_of_a_web_page(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """An upgrade with an Origin comes from a page that someone looks at: 403, whatever it knows."""
    async with linked_house(agent_token=TOKEN) as house:
        with caller(house) as page:
            answer = await page.upgrade(headers=[(b"Origin", b"https://example.com")])
            assert isinstance(answer, RejectConnection)
            assert page.http_status == 403
        await trio.testing.wait_all_tasks_blocked()
    assert ends(logs) == ["no hello"]


async def test_websocket_that_leaves(autojump_clock: MockClock, logs: list[dict[str, Any]]) -> None:
    """An agent may leave in words, or without a Close frame."""
    async with linked_house(agent_token=TOKEN) as house:
        for polite in (True, False):
            with caller(house) as agent:
                await agent.upgrade()
                await agent.send({**HELLO, "token": TOKEN})
                await agent.receive()
                assert house.hub.agent.ready
                if polite:
                    await agent.send_event(CloseConnection(1000))
                    await agent.wait_closed()
            await trio.testing.wait_all_tasks_blocked()
            assert not house.hub.agent.ready
    assert ends(logs) == ["left", "left"]


async def test_lines(autojump_clock: MockClock) -> None:
    """White space around a line does not count, nor do empty lines; lines may come in pieces."""
    async with linked_house() as house:
        agent = Dialler(house)
        for piece in (b'{"t": "hello",', b' "v": 1} \r\n\n  \n{"t":"reply",', b'"id":"1"'):
            await agent.send(piece)
            await trio.testing.wait_all_tasks_blocked()
        assert (await agent.receive())["t"] == "ready"
        await agent.send(b',"device":"phone","text":"a"}\n{"t":"working","id":"2"}\n')
        assert (await agent.receive())["t"] == "error"
        assert (await agent.receive())["t"] == "done"


@pytest.mark.parametrize("first", [True, False])
async def test_a_line_that_is_too_long(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """A message beyond the limit ends the link, without its end being waited for; up to it is fine."""
    monkeypatch.setattr(agent_line, "MAX_FRAME_BYTES", 100)
    async with linked_house() as house:
        agent = Dialler(house) if first else await dial(house)
        if not first:
            await agent.send(json.dumps({"t": "x"}).encode().ljust(100) + b"\n")
        await agent.send(b"{".ljust(101))
        goodbye = (await agent.rest())[-1]
        assert goodbye["code"] == "bad_message"
        assert goodbye["message"].startswith("message: at most")


async def test_a_websocket_message_that_is_too_long(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a WebSocket the library says so: close 1009."""
    monkeypatch.setattr(agent_line, "MAX_FRAME_BYTES", 100)
    async with linked_house(agent_token=TOKEN) as house:
        with caller(house) as agent:
            await agent.upgrade()
            await agent.send({**HELLO, "token": TOKEN, "name": "a" * 100})
            assert (await agent.wait_closed())[0] == 1009


@pytest.mark.parametrize("first", [b"", b"{", b'{"t":"hello"', b"GET / HTTP/1.1\r\n"])
async def test_no_hello(
    autojump_clock: MockClock, logs: list[dict[str, Any]], first: bytes
) -> None:
    """Who says no hello within its time is sent away, in words where it speaks lines."""
    async with linked_house(hello_timeout=15) as house:
        agent = Dialler(house)
        await agent.send(first)
        started = trio.current_time()
        rest = await agent.rest()
        assert trio.current_time() - started == pytest.approx(15)
        assert [message["code"] for message in rest] == ["timeout"] * first.startswith(b"{")
        await agent.crash()
    assert ends(logs) == ["timeout" if first.startswith(b"{") else "no hello"]


@pytest.mark.parametrize("first", [b"\x16\x03\x01", b"POST / HTTP/1.1\r\n\r\n", b"\n"])
async def test_neither_lines_nor_websocket(autojump_clock: MockClock, first: bytes) -> None:
    """What begins with neither a brace nor an upgrade is closed at once, and so is what ends first."""
    async with linked_house() as house:
        agent = Dialler(house)
        await agent.send(first)
        assert await agent.rest() == []
        assert trio.current_time() < 1
        await Dialler(house).crash()


async def test_too_many_strangers(autojump_clock: MockClock) -> None:
    """Who comes while too many have not said hello is closed at once; a hello makes room."""
    async with linked_house() as house:
        side = AgentSide()
        strangers = [Dialler(house, side=side) for _ in range(STRANGERS)]
        await trio.testing.wait_all_tasks_blocked()
        assert await Dialler(house, side=side).rest() == []
        await strangers[0].send(HELLO)
        assert (await strangers[0].receive())["t"] == "ready"
        late = Dialler(house, side=side)
        await late.send(HELLO)
        assert (await late.receive())["t"] == "ready"


async def test_tokens(autojump_clock: MockClock) -> None:
    """By TCP the token is needed; on a Unix socket it is where there is one."""
    async with linked_house() as house:
        assert (await dial(house)).ready["t"] == "ready"
        stranger = Dialler(house, "127.0.0.1")
        await stranger.send(HELLO)
        assert [message["code"] for message in await stranger.rest()] == ["auth_failed"]
    async with linked_house(agent_token=TOKEN) as house:
        stranger = Dialler(house)
        await stranger.send(HELLO)
        assert [message["code"] for message in await stranger.rest()] == ["auth_failed"]
        assert (await dial(house, token=TOKEN)).ready["t"] == "ready"


async def test_what_is_logged(autojump_clock: MockClock, logs: list[dict[str, Any]]) -> None:
    """D39: the log has an agent's name and how its link ended, and nothing that was said or asked."""
    async with linked_house(agent_token=TOKEN) as house:
        agent = await dial(house, token=TOKEN, name="hermes", version="0.19.0")
        await agent.ask("reply", "1", device="phone", text="very private")
        await agent.crash()
    connected, ended = [entry for entry in logs if entry["event"].startswith("agent")]
    assert (connected["name"], connected["version"]) == ("hermes", "0.19.0")
    assert (ended["end"], ended["address"]) == ("left", "unix")
    assert "private" not in json.dumps(logs)
    assert TOKEN not in json.dumps(logs)
