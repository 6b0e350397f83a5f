"""The HTTP side on real sockets: it answers, keeps its bounds, and ends when it is told to."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
import trio
import trio.testing
from attrs import evolve

from certificates import NAME, client_context, server_context
from hermes_mobile.http import listener
from hermes_mobile.http.listener import HttpSide, open_http
from hermes_mobile.server import app
from hermes_mobile.server.hub import Address
from hermes_mobile.server.listeners import ListenError
from hermes_mobile.server.settings import Settings
from house import faults, open_house

SETTINGS = Settings(token="t", http_port=0)
REQUEST = b"GET %s HTTP/1.1\r\nHost: test\r\n\r\n"
ONE_REQUEST = b"GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def open_side(settings: Settings = SETTINGS):
    """A house with its HTTP side running; yields both."""
    async with open_house() as house, open_http(settings) as side:
        assert side is not None
        house.hub.address = Address("127.0.0.1", 8787, "/ws")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side.run, house.hub)
            yield house, side
            nursery.cancel_scope.cancel()


async def connect(side: HttpSide) -> trio.SocketStream:
    url = httpx.URL(side.url)
    return await trio.open_tcp_stream(url.host, url.port)


async def read_all(stream: trio.SocketStream) -> bytes:
    """What comes until the other side ends, in whatever way."""
    received = b""
    try:
        async for data in stream:
            received += data
    except trio.BrokenResourceError:
        pass
    return received


async def ask(side: HttpSide, address: str) -> bytes:
    """The whole answer to one request."""
    async with await connect(side) as stream:
        await stream.send_all(ONE_REQUEST % address.encode())
        return await read_all(stream)


async def works(side: HttpSide) -> bool:
    return (await ask(side, "/healthz")).startswith(b"HTTP/1.1 200 ")


@pytest.fixture
def clock(autojump_clock):
    """Virtual time that gives the kernel time to move bytes."""
    autojump_clock.autojump_threshold = 0.01
    return autojump_clock


async def test_it_answers_on_a_port_of_its_own():
    """Port 0 is any free one, and the address says which; nobody is told what answers."""
    async with open_side() as (_, side):
        head, _, body = (await ask(side, "/healthz")).lower().partition(b"\r\n\r\n")
    assert head.startswith(b"http/1.1 200 ")
    assert b"\r\nx-content-type-options: nosniff\r\n" in head
    assert b"\r\nserver:" not in head
    assert body == b"ok\n"


async def test_off_means_none():
    """Nothing listens, and there is nothing to run."""
    async with open_http(Settings(token="t", http_port=None)) as side:
        assert side is None


async def test_a_port_that_is_taken():
    """The operator learns it at the start, before anything is announced."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = Settings(token="t", http_port=other.getsockname()[1])
        with pytest.raises(ListenError, match=r"MOBILE_HTTP_PORT: port .* is taken"):
            await open_http(settings).__aenter__()


async def test_a_passed_socket_takes_the_place_of_the_port(tmp_path):
    """Also when there is to be none, and on a Unix socket, which no browser finds by an address."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "http.sock"))
        sock.listen()
        settings = Settings(token="t", http_port=None)
        async with open_house() as house, open_http(settings, {"http": [sock]}) as side:
            assert side is not None
            assert side.url == ""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(side.run, house.hub)
                async with await trio.open_unix_socket(sock.getsockname()) as stream:
                    await stream.send_all(ONE_REQUEST % b"/healthz")
                    assert b" 200 " in await read_all(stream)
                assert house.hub.avatar_page == ""
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("host", "start"),
    [
        ("127.0.0.1", "http://127.0.0.1:"),
        ("0.0.0.0", "http://127.0.0.1:"),  # noqa: S104 - to see what is shown for it
        ("::1", "http://[::1]:"),
        ("::", "http://[::1]:"),
    ],
)
async def test_the_address_is_one_that_a_browser_here_can_open(host, start):
    """All addresses are shown as the loopback one; IPv6 has its brackets."""
    async with open_http(Settings(token="t", http_host=host, http_port=0)) as side:
        assert side is not None
        assert side.url.startswith(start)
        assert side.url.endswith("/")


async def test_apps_on_this_host_are_told_of_the_avatar_page():
    """The contract's default of `ready.avatar_url`: for loopback peers that no proxy passed on."""
    async with open_side() as (house, side):
        await trio.testing.wait_all_tasks_blocked()
        here = await house.connect("here")
        there = await house.connect("there", address="192.0.2.1")
        passed_on = await house.connect("passed-on", headers=[(b"X-Real-IP", b"192.0.2.1")])
        assert here.ready["avatar_url"] == f"{side.url}avatar/"
        assert there.ready["avatar_url"] == passed_on.ready["avatar_url"] == ""
        assert (await ask(side, "/avatar/")).startswith(b"HTTP/1.1 200 ")


async def test_without_it_there_is_no_avatar_page():
    """The address is told while the page is there, and no longer."""
    async with open_side() as (house, _):
        await trio.testing.wait_all_tasks_blocked()
        assert house.hub.avatar_page
    assert not house.hub.avatar_page


async def test_an_avatar_page_of_the_operator_wins():
    """MOBILE_AVATAR_URL is told to everyone."""
    url = "https://agent.example/avatar/"
    async with open_house(avatar_url=url) as house:
        house.hub.avatar_page = "http://127.0.0.1:8788/avatar/"
        for address in ("127.0.0.1", "192.0.2.1"):
            peer = await house.connect(address, address=address)
            assert peer.ready["avatar_url"] == url


async def test_there_is_no_websocket_here():
    """Device traffic has its own port: an upgrade is refused."""
    upgrade = (
        b"GET /ws HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with open_side() as (_, side), await connect(side) as stream:
        await stream.send_all(upgrade)
        assert (await read_all(stream)).startswith(b"HTTP/1.1 403 ")
        assert await works(side)


@pytest.mark.parametrize(
    "bytes_",
    [b"\x16\x03\x01\x02\x00", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 70_000],
)
async def test_nonsense_ends_its_own_connection_only(bytes_):
    """TLS, garbage, a missing Host, an endless header: the next one is served."""
    async with open_side() as (_, side), await connect(side) as stream:
        await stream.send_all(bytes_)
        await stream.send_eof()
        answer = await read_all(stream)
        assert not answer or answer.startswith(b"HTTP/1.1 4")
        assert await works(side)


async def test_a_fault_ends_its_own_connection_only(monkeypatch, logs):
    """D39: it is logged by type and place, and the next connection is served."""

    class Faulty:
        def __init__(self, *_):
            self.works = True

        def __await__(self):
            raise RuntimeError("what a person said")
            yield

    async with open_side() as (_, side):
        with monkeypatch.context() as patch:
            patch.setattr(listener, "TCPServer", Faulty)
            async with await connect(side) as stream:
                assert await read_all(stream) == b""
        assert await works(side)
    (entry,) = [entry for entry in logs if entry["event"] == "http connection fault"]
    assert entry["error"] == "RuntimeError"
    assert "said" not in str(logs)


async def test_one_connection_too_many(clock, monkeypatch):
    """Beyond the limit one is closed at once; when there is room again, it is used."""
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 1)
    async with open_side() as (_, side):
        async with await connect(side) as first:
            await first.send_all(REQUEST % b"/healthz")
            assert await first.receive_some()
            started = trio.current_time()
            async with await connect(side) as second:
                assert await read_all(second) == b""
            assert trio.current_time() == started
        await trio.sleep(listener.IDLE_SECONDS + 0.1)
        assert await works(side)


async def test_a_connection_without_a_request_is_closed(clock):
    """It ends after its 2 seconds, before the first request as after one."""
    async with open_side() as (_, side):
        for requests in (b"", REQUEST % b"/healthz"):
            async with await connect(side) as stream:
                started = trio.current_time()
                await stream.send_all(requests)
                await read_all(stream)
                assert trio.current_time() == started + 2


async def test_no_connection_lasts_for_ever(clock):
    """After 60 s it is closed, however busy."""

    async def ask_for_ever(stream: trio.SocketStream) -> None:
        while True:
            await stream.send_all(REQUEST % b"/healthz")
            await trio.sleep(1.9)

    async with open_side() as (_, side), await connect(side) as stream:
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_for_ever, stream)
            assert (await read_all(stream)).count(b"ok") == 32
            nursery.cancel_scope.cancel()
        assert trio.current_time() == started + 60


async def stuff(stream: trio.SocketStream) -> None:
    """Ask for more than all buffers hold, and read nothing."""
    stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
    # The kernel may buffer 4 MiB, and a page has some 10 KiB.
    await stream.send_all(REQUEST % b"/metrics" * 1000)
    await trio.testing.wait_all_tasks_blocked(0.005)


async def test_a_peer_that_never_reads_is_dropped(clock):
    """It has its 60 s and no more; then its place is free."""
    async with open_side() as (_, side), await connect(side) as stream:
        await stuff(stream)
        await trio.sleep(59.9)
        assert side._open == 1
        await trio.sleep(0.2)
        assert side._open == 0


async def test_a_peer_that_never_reads_does_not_hold_up_the_end(clock):
    """D35: Hypercorn shields its writes; the socket is closed under them all the same."""
    async with AsyncExitStack() as stack:
        _, side = await stack.enter_async_context(open_side())
        stream = await connect(side)
        await stuff(stream)
        ending = trio.current_time()
        await stack.aclose()
        assert trio.current_time() == ending
        await stream.aclose()


async def test_with_a_certificate_it_speaks_tls(logs):
    """And tells the console of `wss`; who speaks plain HTTP gets no answer, and disturbs nobody."""
    secure = evolve(SETTINGS, tls=server_context())
    async with open_side(secure) as (house, side):
        house.hub.apply(secure)
        house.hub.address = Address("127.0.0.1", 8787, "/ws", secure=True)
        assert side.url.startswith("https://127.0.0.1:")
        assert not (await ask(side, "/healthz")).startswith(b"HTTP")
        stream = trio.SSLStream(
            await connect(side), client_context(), server_hostname=NAME, https_compatible=True
        )
        async with stream:
            await stream.send_all(ONE_REQUEST % b"/config.json")
            answer = await read_all(stream)
        assert b'"ws_url":"wss://test:8787/ws"' in answer
        assert b"connect-src 'self' wss://test:8787;" in answer
    assert faults(logs) == []


async def test_what_stands_beside_the_server_falls_alone(autojump_clock, logs):
    """D39: a companion's fault is logged by type and place, and the devices go on."""

    async def fall(_):
        raise RuntimeError("what a person said")

    async with open_house() as house:
        await app.run_companion(fall, house.hub)
        peer = await house.connect()
        await peer.say("m1", "Hello")
        await peer.expect("message")
    (entry,) = [entry for entry in logs if entry["event"] == "companion failed"]
    assert entry["error"] == "RuntimeError"
    assert "said" not in str(logs)
