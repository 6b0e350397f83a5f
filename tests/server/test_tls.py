"""TLS of the server's own: what a stream that encrypts promises, and a connection on one."""

from __future__ import annotations

import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from certificates import NAME, client_context, server_context
from hermes_mobile.server.stream import RECEIVE_BYTES, SEND_BUFFER_BYTES, StalledPeerError
from hermes_mobile.server.tls import TlsStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

WRITE_TIMEOUT = 30.0
MIB = 1 << 20


class Client:
    """The other end, which never blocks."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=NAME)
        self.end = ""
        """How the server ended TLS."""

    def shake_hands(self) -> bool:
        """A step of it; returns whether it was the last."""
        self._pull()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.push(self._outgoing.read())
        return True

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        self.push(self.encrypted(data))

    def push(self, data: bytes) -> None:
        assert self.socket.send(data) == len(data)

    def read(self) -> bytes:
        """All that is there, and `end` if there will be no more."""
        received = b""
        try:
            while self._pull():
                with suppress(ssl.SSLWantReadError):
                    while data := self._tls.read(RECEIVE_BYTES):
                        received += data
                    self.end = "said"
        except ssl.SSLZeroReturnError:  # after an end of our own
            self.end = "said"
        except ssl.SSLEOFError:
            self.end = "cut off"
        return received

    def say_end(self) -> None:
        with suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.push(self._outgoing.read())

    def _pull(self) -> bool:
        """Returns whether there was anything to take from the kernel, its end included."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return False
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return not self.end


@asynccontextmanager
async def not_shaken(
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[TlsStream, Client]]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)
    with ours, theirs:
        stream = TlsStream(ours, WRITE_TIMEOUT, server_context())
        yield stream, Client(theirs, context or client_context())


@asynccontextmanager
async def tls_pair(
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[TlsStream, Client]]:
    """A stream and its client, who have shaken hands; nothing is on its way."""
    async with not_shaken(context) as (stream, client):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read() -> None:
                assert await stream.receive_some() == b"x"

            while not client.shake_hands():
                await wait_all_tasks_blocked()
            client.send(b"x")
        client.read()
        yield stream, client


BOTH_VERSIONS = pytest.mark.parametrize(
    "context",
    [client_context(ssl.TLSVersion.TLSv1_2), client_context(ssl.TLSVersion.TLSv1_3)],
    ids=["1.2", "1.3"],
)


# Writing


@BOTH_VERSIONS
async def test_a_write_that_fits_goes_out_without_a_checkpoint(context: ssl.SSLContext) -> None:
    """As without TLS, and what the kernel got is what is counted."""
    async with tls_pair(context) as (stream, client):
        before = stream.bytes_out
        with assert_no_checkpoints():
            await stream.send_all(b"at once")
        assert client.read() == b"at once"
        assert stream.bytes_out > before + 7


async def test_a_write_at_once_leaves_what_has_no_room() -> None:
    """What `send_now` returns is encrypted already, and goes on by `send_rest`."""
    data = bytes(range(256)) * 4096
    async with tls_pair() as (stream, client):
        rest = stream.send_now(data)
        assert rest
        received = bytearray(client.read())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_rest, rest)
            while len(received) < len(data):
                await wait_all_tasks_blocked()
                received += client.read()
        assert received == data
        assert stream.send_now(b"more") == b""
        assert client.read() == b"more"


@BOTH_VERSIONS
async def test_a_large_write_goes_out_in_parts_and_in_order(context: ssl.SSLContext) -> None:
    """A write beyond the kernel's room goes on whenever the peer takes some."""
    data = bytes(range(256)) * (4 * MIB // 256)
    received = bytearray()
    async with tls_pair(context) as (stream, client):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, data)
            while len(received) < len(data):
                await wait_all_tasks_blocked()
                received += client.read()
        assert received == data


async def test_a_peer_that_takes_nothing_stalls_the_write_at_30_s(
    autojump_clock: MockClock,
) -> None:
    """D33: exactly the write timeout after the last progress."""
    async with tls_pair() as (stream, _):
        with pytest.raises(StalledPeerError):
            await stream.send_all(bytes(4 * MIB))
        assert trio.current_time() == WRITE_TIMEOUT


async def test_nobody_is_spoken_to_before_the_handshake() -> None:
    """A refusal would be nobody's to read; nothing at all goes out in clear."""
    async with not_shaken() as (stream, client):
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"HTTP/1.1 503 ...")
        stream.close()
        assert client.socket.recv(100) == b""


# Reading


@BOTH_VERSIONS
async def test_reading_gives_what_was_sent(context: ssl.SSLContext) -> None:
    """In any pieces: several records in one receive, one record in several, less than was asked for."""
    async with tls_pair(context) as (stream, client):
        client.send(b"one ")
        client.send(b"two")
        assert await stream.receive_some() == b"one two"
        client.send(b"abcdef")
        assert await stream.receive_some(4) == b"abcd"
        assert await stream.receive_some(4) == b"ef"
        record = client.encrypted(b"in two")
        client.push(record[:10])
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read() -> None:
                assert await stream.receive_some() == b"in two"

            await wait_all_tasks_blocked()
            client.push(record[10:])


async def test_one_receive_is_bounded() -> None:
    """D3: no more than the receive buffer is read ahead of what is acted on."""
    async with tls_pair() as (stream, client):
        for _ in range(9):
            client.send(bytes(10_000))
        before = stream.bytes_in
        assert 0 < len(await stream.receive_some()) <= RECEIVE_BYTES
        assert stream.bytes_in - before <= RECEIVE_BYTES


async def test_the_end_of_the_peer_needs_no_end_of_its_socket() -> None:
    """Who has ended TLS, and waits for our side to do the same, is not waited for."""
    async with tls_pair() as (stream, client):
        client.say_end()
        assert await stream.receive_some() == b""
        assert await stream.receive_some() == b""
        await stream.discard()
        client.read()
        assert client.end == "said"


@pytest.mark.parametrize("said", [True, False])
async def test_the_end_of_the_peer_is_an_empty_read(said: bool) -> None:
    """With TLS's own end or without it, after what was sent before; and again, for who asks again."""
    async with tls_pair() as (stream, client):
        client.send(b"last")
        if said:
            client.say_end()
        client.socket.close()
        assert await stream.receive_some() == b"last"
        assert await stream.receive_some() == b""
        assert await stream.receive_some() == b""


async def test_a_peer_that_leaves_in_the_handshake_has_ended() -> None:
    """An empty read, as from a peer that says nothing at all."""
    async with not_shaken() as (stream, client):
        client.shake_hands()
        client.socket.shutdown(socket.SHUT_WR)
        assert await stream.receive_some() == b""


@pytest.mark.parametrize(
    "greeting", [b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x17\x03\x03\x00\x02\xff\xff"]
)
async def test_what_is_no_tls_breaks_at_once(greeting: bytes) -> None:
    """Plain HTTP on the port of TLS, for instance."""
    async with not_shaken() as (stream, client):
        client.push(greeting)
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()


async def test_a_forged_record_breaks_the_read() -> None:
    """And nothing that comes after it is believed."""
    async with tls_pair() as (stream, client):
        record = bytearray(client.encrypted(b"genuine"))
        record[-1] ^= 1
        client.push(bytes(record))
        for _ in range(2):
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
            client.push(client.encrypted(b"more"))


async def test_a_version_below_1_2_is_refused() -> None:
    """The client is told so, by TLS's own alert."""
    hello = bytes.fromhex("160301002f0100002b0301" + "00" * 32 + "000004002f003501000000")
    async with not_shaken() as (stream, client):
        client.push(hello)
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        assert client.socket.recv(100)[:1] == b"\x15"


# Ending


@BOTH_VERSIONS
async def test_half_closing_leaves_the_peer_its_say(context: ssl.SSLContext) -> None:
    """What it had sent before and what it sends after our end is read; it sees an end, not a cut."""
    async with tls_pair(context) as (stream, client):
        await stream.send_all(b"last words")
        record = client.encrypted(b"before ")
        client.push(record + (another := client.encrypted(b"between"))[:9])
        await stream.receive_some(1)
        await stream.send_eof()
        assert client.read() == b"last words"
        assert client.end == "said"
        client.push(another[9:])
        client.send(b" after")
        received = b"b"
        while not received.endswith(b"after"):
            received += await stream.receive_some()
        assert received == b"before between after"
        client.say_end()
        assert await stream.receive_some() == b""


@BOTH_VERSIONS
async def test_discarding_ends_with_what_is_waited_for(context: ssl.SSLContext) -> None:
    """`until` sees every piece, in clear, what came before our end among it."""
    async with tls_pair(context) as (stream, client):
        client.send(b"early")
        await stream.receive_some(1)
        client.send(b"stop")
        seen = []
        await stream.discard(until=lambda data: seen.append(data) or data.endswith(b"stop"))
        assert b"".join(seen) == b"arlystop"


async def test_closing_says_the_end() -> None:
    """Whoever reads on sees that nothing was cut off."""
    async with tls_pair() as (stream, client):
        await stream.send_all(b"last words")
        stream.close()
        assert client.read() == b"last words"
        assert client.end == "said"


async def test_nothing_follows_half_a_record() -> None:
    """After a write that was given up the peer sees a cut, not garbage, and no false end."""
    async with tls_pair() as (stream, client):
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.send_all(bytes(4 * MIB))
        await stream.send_eof()
        stream.close()
        client.read()
        assert client.end == "cut off"


async def test_the_end_comes_after_all_that_was_said() -> None:
    """Also to a peer that is slow to take it."""
    async with tls_pair() as (stream, client):
        said = 0
        while not (rest := stream.send_now(bytes(1000))):
            said += 1000
        received = bytearray()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def end() -> None:
                await stream.send_rest(rest)
                await stream.send_eof()

            while not client.end:
                await wait_all_tasks_blocked()
                received += client.read()
        assert (client.end, len(received)) == ("said", said + 1000)


async def test_a_closed_stream_says_so() -> None:
    """Every use after `close` is a ClosedResourceError; closing again is nothing."""
    async with tls_pair() as (stream, _):
        stream.close()
        stream.close()
        for use in (stream.receive_some, lambda: stream.send_all(b"x")):
            with pytest.raises(trio.ClosedResourceError):
                await use()
