"""Peers that speak something else, too much, too little, or nonsense: answered, dropped, outlived."""

from __future__ import annotations

import json
import ssl
from contextlib import closing, suppress

import pytest
import trio

from street import (
    BINARY,
    CLOSE,
    PING,
    TEXT,
    TOKEN,
    UPGRADE,
    ServerProcess,
    header,
    masked,
)

pytestmark = pytest.mark.slow
MIB = 1 << 20
UPGRADE_TIMEOUT = 5
"""Seconds: real ones, so enough for a machine that is busy with other things."""
PORT_SPEAKS = b"hermes-mobile: this port speaks WebSocket, at /ws\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One process for all of these tests: each one finds it as the ones before have left it."""
    settings = {"MOBILE_UPGRADE_TIMEOUT": UPGRADE_TIMEOUT}
    with closing(ServerProcess(tmp_path_factory.mktemp("server"), **settings)) as running:
        yield running


@pytest.fixture(autouse=True)
async def witness(server):
    """A device that was there before, and goes on being served; no task of the server fails."""
    async with server.connect("witness") as caller:
        yield
        await caller.say("m1", "Still there?")
        assert (await caller.expect("message"))["text"] == "Still there?"
    assert not [line for line in server.log if line["level"] == "error"]


# Something else than WebSocket


def tls_hello() -> bytes:
    context, outgoing = ssl.create_default_context(), ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n", 426),
        (b"GET /ws?token=t HTTP/1.1\r\nHost: localhost\r\n\r\n", 426),
        (b"POST /ws HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + bytes(MIB), 426),
        (b"GET / HTTP/1.0\r\n\r\n", 404),
        (b"GET /ws/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /admin HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (UPGRADE.replace(b"/ws", b"/other"), 404),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 400),
        (tls_hello(), 400),
        (bytes(1000), 400),
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /ws HTTP/1.1\r\nCookie: " + bytes(MIB), 431),
    ],
    ids=lambda value: value[:20].hex(" ", 1) if isinstance(value, bytes) else value,
)
async def test_what_is_no_websocket_is_told_so(server, request_bytes, status):
    """D1: one HTTP answer that says what this port is, unharmed by what the peer still sends."""
    async with server.call() as caller:
        await caller.send(request_bytes)
        answer = await caller.receive_rest()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.endswith(b"\r\n\r\n" + PORT_SPEAKS)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (UPGRADE.replace(b"Sec-WebSocket-Key", b"X-Key"), 400),
        (UPGRADE.replace(b"Version: 13", b"Version: 7"), 426),
        (UPGRADE.replace(b"Connection: Upgrade", b"Connection: close"), 400),
        (UPGRADE.replace(b"GET", b"POST"), 400),
        (UPGRADE.replace(b"localhost", b"a\0b"), 400),
    ],
    ids=["no key", "old version", "no connection", "post", "nul"],
)
async def test_a_broken_upgrade_is_refused_at_once(server, request_bytes, status):
    """D1, D4: what the library refuses ends with its answer, without waiting for the timeout."""
    async with server.call() as caller:
        started = trio.current_time()
        await caller.send(request_bytes)
        assert (await caller.receive_rest()).startswith(b"HTTP/1.1 %d " % status)
        assert trio.current_time() - started < 1


@pytest.mark.parametrize("received", [b"", UPGRADE[:40], UPGRADE[:-1], b"SSH-2.0-OpenSSH_9.2\r\n"])
async def test_half_an_upgrade_is_dropped(server, received):
    """D4: what is no request after 1 s never becomes one, however often another byte comes."""
    started = trio.current_time()
    async with server.call() as caller, trio.open_nursery() as nursery:
        await caller.send(received)

        @nursery.start_soon
        async def trickle() -> None:
            with suppress(BrokenPipeError, ConnectionResetError):
                while True:
                    await trio.sleep(0.2)
                    await caller.send(b"x")

        with suppress(ConnectionResetError):  # a byte came between the last receive and the end
            assert await caller.receive_rest() == b""
        nursery.cancel_scope.cancel()
    assert trio.current_time() - started >= 1


# Too much


async def last_words(caller, data: bytes) -> tuple[str, int, str]:
    """Send all of `data` before anything is read: the error's code, the close code and reason."""
    await caller.send(data)
    error = await caller.receive()
    assert error is not None, caller.closed
    assert error["fatal"] is True
    return error["code"], *(await caller.receive_end())


TOO_BIG = ("too_big", 1008, "too_big")


async def test_a_frame_of_17_mib_is_refused(server):
    """D3: all of it is on its way, and the error and the Close frame arrive nevertheless."""
    async with server.connect() as caller:
        assert await last_words(caller, masked(TEXT, bytes(17 * MIB))) == TOO_BIG


async def test_a_frame_is_refused_before_it_is_there(server):
    """D3: its length is enough."""
    async with server.connect() as caller:
        assert await last_words(caller, header(TEXT, 17 * MIB)) == TOO_BIG


async def test_a_frame_of_16_mib_is_read(server):
    """D3: the limit itself is allowed; this much text is then refused for what it is."""
    frame = {"t": "text", "id": "m1", "text": ""}
    frame["text"] = "x" * (16 * MIB - len(json.dumps(frame)))
    async with server.connect() as caller:
        await caller.send_frame(frame)
        error = await caller.receive()
        assert (error["code"], error["fatal"], error["id"]) == ("too_big", False, "m1")


@pytest.mark.parametrize("size", [16 * 1024, MIB])
async def test_fragments_without_end_are_refused(server, size):
    """D3: the limit counts a message, whatever its fragments."""
    fragments = masked(TEXT & 0x0F, b'"') + masked(0, bytes(size)) * (17 * MIB // size)
    async with server.connect() as caller:
        assert await last_words(caller, fragments) == TOO_BIG


async def test_empty_fragments_without_end_are_refused(server):
    """D3, D6: their headers count; before hello 64 KiB and a receive buffer is all they get."""
    async with server.call() as caller:
        await caller.upgrade()
        fragments = masked(TEXT & 0x0F) + masked(0) * (129 * 1024 // 6)
        assert await last_words(caller, fragments) == TOO_BIG


# Nonsense, and what crashes a server that is built on the library alone


@pytest.mark.parametrize(
    "behind",
    [
        masked(PING, b"1"),
        masked(PING, b"1") * 1000,
        masked(CLOSE, (1000).to_bytes(2)) + masked(PING),
        masked(TEXT, bytes(17 * MIB)),
        bytes(MIB),
    ],
    ids=["ping", "pings", "close", "oversize", "garbage"],
)
@pytest.mark.parametrize("hello_first", [True, False])
async def test_an_oversize_message_with_something_behind_it(server, hello_first, behind):
    """D3: a ping, or a second one, behind a message too big: either crashes the library's server."""
    async with server.call() as caller:
        await caller.upgrade()
        size = 65 * 1024
        if hello_first:
            await caller.hello(TOKEN, "phone")
            await caller.expect("ready")
            size = 17 * MIB
        assert await last_words(caller, masked(TEXT, bytes(size)) + behind) == TOO_BIG


@pytest.mark.parametrize("behind", [masked(PING), masked(PING) * 10_000, masked(TEXT, bytes(MIB))])
async def test_pings_while_the_server_closes(server, behind):
    """D7: pings while the server closes, which would crash the library's; the refusal arrives."""
    hello = masked(TEXT, b'{"t":"hello","token":"wrong"}')
    async with server.call() as caller:
        await caller.upgrade()
        assert await last_words(caller, hello + behind) == ("auth_failed", 1008, "auth_failed")


@pytest.mark.parametrize("behind", [masked(PING), masked(CLOSE), masked(TEXT, b"{}"), bytes(MIB)])
async def test_bytes_behind_the_close_frame_of_the_peer(server, behind):
    """RFC 6455, 5.5.1: what follows a Close frame is not read; the Close is answered."""
    async with server.connect() as caller:
        await caller.send(masked(CLOSE, (1000).to_bytes(2)) + behind)
        assert await caller.receive_end() == (1000, "")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes((TEXT, 2)) + b"{}", 1002),
        (masked(TEXT | 0x40, b"{}"), 1002),
        (masked(0x83, b"{}"), 1002),
        (masked(0x80, b"{}"), 1002),
        (masked(TEXT & 0x0F, b"{") + masked(TEXT, b"{}"), 1002),
        (masked(PING & 0x0F), 1002),
        (header(PING, 126) + bytes(126), 1002),
        (masked(TEXT, b"\xff{}"), 1007),
    ],
    ids=[
        *("unmasked", "reserved bit", "reserved opcode", "lone continuation", "text in a text"),
        *("ping in fragments", "long ping", "not utf-8"),
    ],
)
@pytest.mark.parametrize("behind", [b"", masked(TEXT, bytes(MIB))], ids=["alone", "and more"])
async def test_broken_framing_is_named(server, data, code, behind):
    """D2: what breaks RFC 6455 ends the connection, with the code that says how."""
    async with server.connect() as caller:
        await caller.send(data + behind)
        closed = await caller.receive_end()
        assert closed is not None
        assert closed[0] == code


@pytest.mark.parametrize("payload", [b"\x03", b"\x03\xed", b"\x03\xe8\xff"])
async def test_a_broken_close_frame_is_an_end(server, payload):
    """RFC 6455, 7.1.7: half a code, a forbidden code, a reason that is not UTF-8: it is over."""
    async with server.connect() as caller:
        await caller.send(masked(CLOSE, payload))
        assert await caller.receive() is None


async def test_bytes_that_are_no_text_may_be_a_frame(server):
    """D2: a binary message is read like a text; what is no JSON costs an error, no more."""
    async with server.connect() as caller:
        await caller.send(masked(BINARY, b"\xff\xfe"))
        error = await caller.expect("error")
        assert (error["code"], error["fatal"]) == ("bad_frame", False)
        await caller.send(masked(BINARY, b'{"t":"ping","ts":7}'))
        assert await caller.expect("pong") == {"t": "pong", "ts": 7}
