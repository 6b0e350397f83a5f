"""The plugin's end of the agent link, against a server that a test plays."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from hermes_mobile.hermes import link as module
from hermes_mobile.hermes.link import Address, Link, LinkLostError, RefusedError

PATIENCE = 10.0


class Server:
    """One connection after the other, each played by a test."""

    def __init__(self, path):
        self.path = path
        self.connections = asyncio.Queue()
        self.writers = []

    @asynccontextmanager
    async def open(self):
        async def accept(reader, writer):
            self.writers.append(writer)
            self.connections.put_nowait((reader, writer))

        server = await asyncio.start_unix_server(accept, self.path)
        async with server:
            yield
        for writer in self.writers:
            writer.close()
        closed = [writer.wait_closed() for writer in self.writers]
        await asyncio.gather(*closed, return_exceptions=True)

    async def accept(self, **ready):
        """The next connection, after its hello and our ready."""
        peer = Peer(*await self.connections.get())
        peer.hello = await peer.receive()
        peer.send("ready", v=1, **({"link": "one", "resumed": False} | ready))
        return peer


class Peer:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def receive(self):
        line = await self.reader.readline()
        return json.loads(line) if line else None

    def send(self, t, **fields):
        self.writer.write(json.dumps({"t": t, **fields}).encode() + b"\n")

    def done(self, request, **fields):
        self.send("done", id=request["id"], **fields)


class House:
    """A link that runs, and what it was told."""

    def __init__(self, server, address):
        self.server = server
        self.readies, self.messages = [], []
        hello = {"token": address.token, "name": "test"}
        self.link = Link(address, hello, self.readies.append, self.messages.append)


def in_house(test):
    """Run a test that is a coroutine of asyncio, with a house; pytest here knows only Trio's."""

    def run(tmp_path, monkeypatch):
        async def play():
            monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
            server = Server(tmp_path / "agent.sock")
            house = House(server, Address(socket=str(server.path), token="secret"))
            async with asyncio.timeout(PATIENCE), server.open():
                house.running = asyncio.create_task(house.link.run())
                try:
                    await test(house)
                finally:
                    house.running.cancel()
                    await asyncio.gather(house.running, return_exceptions=True)

        asyncio.run(play())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_house
async def test_hello_and_ready(house):
    """The token goes first; ready is passed on, and so is what comes unasked, but no answer."""
    peer = await house.server.accept(turns=[])
    assert peer.hello == {
        "t": "hello", "v": 1, "token": "secret", "name": "test", "resume": None,
    }  # fmt: skip
    peer.send("turn", turn="t1")
    request = asyncio.create_task(house.link.request("phone", "reply", device="phone", text="Hi"))
    said = await peer.receive()
    assert (said["t"], said["device"], said["text"]) == ("reply", "phone", "Hi")
    peer.done(said, message="m1")
    assert (await request)["message"] == "m1"
    assert [message["t"] for message in house.messages] == ["turn"]
    assert [ready["link"] for ready in house.readies] == ["one"]


@in_house
async def test_requests_of_a_device_keep_their_order(house):
    """The second request goes out when the first is answered; another device does not wait."""
    peer = await house.server.accept()
    ask = house.link.request
    tasks = [
        asyncio.create_task(ask("phone", "reply", device="phone", text="1")),
        asyncio.create_task(ask("phone", "reply", device="phone", text="2")),
        asyncio.create_task(ask("tablet", "reply", device="tablet", text="3")),
    ]
    first, third = await peer.receive(), await peer.receive()
    assert (first["text"], third["text"]) == ("1", "3")
    peer.done(first)
    second = await peer.receive()
    assert second["text"] == "2"
    peer.done(second)
    peer.done(third)
    await asyncio.gather(*tasks)


@in_house
async def test_a_refusal_is_an_error_with_its_code(house):
    """What the server refuses is told to who asked."""
    peer = await house.server.accept()
    request = asyncio.create_task(house.link.request("phone", "reply", turn="t1", text="Hi"))
    said = await peer.receive()
    peer.send("error", id=said["id"], code="turn_over", message="turn: it is over")
    with pytest.raises(RefusedError) as refused:
        await request
    assert refused.value.code == "turn_over"


@in_house
async def test_a_lost_link_is_dialled_again(house):
    """A request that was under way fails, a later one waits for the next link; hello names the last."""
    peer = await house.server.accept(link="one")
    under_way = asyncio.create_task(house.link.request("a", "reply", device="a", text="1"))
    await peer.receive()
    peer.writer.close()
    with pytest.raises(LinkLostError):
        await under_way
    later = asyncio.create_task(house.link.request("a", "reply", device="a", text="2"))
    peer = await house.server.accept(link="two")
    assert peer.hello["resume"] == "one"
    said = await peer.receive()
    assert said["text"] == "2"
    peer.done(said)
    await later


@pytest.mark.parametrize("how", ["nonsense", "number", "no type", "no code"])
def test_nonsense_ends_the_link(how, tmp_path, monkeypatch):
    """What is no message ends the link, and another one follows."""

    async def play(house):
        peer = await house.server.accept()
        lines = {"nonsense": b"{]", "number": b"5", "no type": b"{}"}
        peer.writer.write(lines.get(how, b'{"t":"error","id":"1"}') + b"\n")
        assert await peer.receive() is None
        await house.server.accept()

    in_house(play)(tmp_path, monkeypatch)


@in_house
async def test_a_card_outlives_its_link(house):
    """An ask that the next link knows gets its answer there; one that it does not know is lost."""
    peer = await house.server.accept(link="one")
    kept = asyncio.create_task(house.link.ask("k", device="a", kind="clarify", text="?"))
    lost = asyncio.create_task(house.link.ask("l", device="a", kind="clarify", text="?"))
    await peer.receive()
    await peer.receive()
    peer.writer.close()
    peer = await house.server.accept(link="two", resumed=True, asks=["k"])
    with pytest.raises(LinkLostError):
        await lost
    peer.send("done", id="k", option="c0", text="yes")
    assert (await kept)["text"] == "yes"


@in_house
async def test_cards_are_lost_where_nothing_is_resumed(house):
    """A server that began anew knows no card."""
    peer = await house.server.accept()
    card = asyncio.create_task(house.link.ask("k", device="a", kind="clarify", text="?"))
    await peer.receive()
    peer.writer.close()
    await house.server.accept(resumed=False, asks=["k"])
    with pytest.raises(LinkLostError):
        await card


@in_house
async def test_a_card_is_withdrawn(house):
    """A withdrawal names the card, and waits for nothing."""
    peer = await house.server.accept()
    card = asyncio.create_task(house.link.ask("k", device="a", kind="clarify", text="?"))
    await peer.receive()
    house.link.withdraw("k")
    withdrawal = await peer.receive()
    assert (withdrawal["t"], withdrawal["ask"]) == ("withdraw", "k")
    peer.send("error", id="k", code="withdrawn", message="ask: it was withdrawn")
    peer.done(withdrawal)
    with pytest.raises(RefusedError, match="withdrawn"):
        await card


@pytest.mark.parametrize("code", ["replaced", "auth_failed", "bad_message"])
def test_a_last_goodbye_ends_it(code, tmp_path, monkeypatch):
    """After these words nobody dials again."""

    async def play(house):
        peer = await house.server.accept()
        peer.send("goodbye", code=code, message="why")
        assert (await house.running)["code"] == code
        assert house.server.connections.empty()

    in_house(play)(tmp_path, monkeypatch)


@in_house
async def test_a_refused_hello_ends_it(house):
    """A goodbye instead of ready counts as well."""
    peer = Peer(*await house.server.connections.get())
    await peer.receive()
    peer.send("goodbye", code="auth_failed", message="token: wrong")
    assert (await house.running)["code"] == "auth_failed"


@in_house
async def test_a_server_that_stops_is_dialled_again(house):
    """`shutdown` is no last goodbye."""
    peer = await house.server.accept()
    peer.send("goodbye", code="shutdown", message="the server stops")
    await house.server.accept()


def test_without_a_server_a_request_waits_and_gives_up(tmp_path, monkeypatch):
    """Nobody listens: what has to be answered fails in the end, and what has not is dropped."""

    async def play():
        monkeypatch.setattr(module, "RETURN_TIMEOUT", 0.05)
        house = House(None, Address(socket=str(tmp_path / "nobody")))
        running = asyncio.create_task(house.link.run())
        house.link.tell("end", turn="t1")
        with pytest.raises(LinkLostError, match="not there"):
            await house.link.request("phone", "reply", device="phone", text="Hi")
        running.cancel()

    asyncio.run(play())


def test_a_port_does_as_well():
    """Where no file can be shared: TCP on the loopback address, with the token."""

    async def play():
        heard = asyncio.Event()

        async def accept(reader, writer):
            hello = json.loads(await reader.readline())
            assert hello["token"] == "secret"
            writer.close()
            heard.set()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        link = Link(Address(port=port, token="secret"), {"token": "secret"}, print, print)
        async with asyncio.timeout(PATIENCE), server:
            running = asyncio.create_task(link.run())
            await heard.wait()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({"MOBILE_AGENT_SOCKET": "/run/a"}, Address(socket="/run/a")),
        (
            {"MOBILE_AGENT_PORT": "8789", "MOBILE_AGENT_TOKEN": "secret"},
            Address(port=8789, token="secret"),
        ),
    ],
)
def test_the_environment_says_where(environ, address):
    """A socket, or a port with a token."""
    assert Address.of(environ) == address


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "MOBILE_AGENT_SOCKET or MOBILE_AGENT_PORT"),
        ({"MOBILE_AGENT_PORT": "70000"}, "1 to 65535"),
        ({"MOBILE_AGENT_PORT": "http"}, "1 to 65535"),
        ({"MOBILE_AGENT_PORT": "8789"}, "MOBILE_AGENT_TOKEN"),
    ],
)
def test_a_wrong_environment_is_told(environ, said):
    """One line names the variable."""
    with pytest.raises(ValueError, match=said):
        Address.of(environ)
