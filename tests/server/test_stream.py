"""The server's own socket stream: what it writes at once, how long it waits, and how it ends."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from hermes_mobile.server.stream import (
    RECEIVE_BYTES,
    SEND_BUFFER_BYTES,
    SocketStream,
    StalledPeerError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trio.testing import MockClock

WRITE_TIMEOUT = 30.0
MIB = 1 << 20


@contextmanager
def stream_pair() -> Iterator[tuple[SocketStream, socket.socket]]:
    """A stream, and the plain socket of its peer, whose methods never block."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)
    theirs.setblocking(False)
    with ours, theirs:
        yield SocketStream(ours, WRITE_TIMEOUT), theirs


@contextmanager
def tcp_stream_pair() -> Iterator[tuple[SocketStream, socket.socket]]:
    """The same on TCP, where the peer's kernel takes bytes by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    theirs.setblocking(False)
    with ours, theirs:
        yield SocketStream(ours, WRITE_TIMEOUT), theirs


def drain(sock: socket.socket, most: int = 1 << 30) -> bytes:
    """Take what waits in the socket, up to `most` bytes."""
    taken = bytearray()
    try:
        while len(taken) < most and (data := sock.recv(min(65536, most - len(taken)))):
            taken += data
    except BlockingIOError:
        pass
    return bytes(taken)


# Writing


async def test_a_write_that_fits_goes_out_without_a_checkpoint() -> None:
    """What the kernel has room for costs no wake-up."""
    with stream_pair() as (stream, peer):
        with assert_no_checkpoints():
            await stream.send_all(b"at once")
        assert peer.recv(100) == b"at once"
        assert stream.bytes_out == 7


async def test_a_large_write_goes_out_in_parts_and_in_order(autojump_clock: MockClock) -> None:
    """A write beyond the kernel's room goes on whenever the peer takes some."""
    data = bytes(range(256)) * (4 * MIB // 256)
    received = bytearray()
    with stream_pair() as (stream, peer):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, data)
            while len(received) < len(data):
                await wait_all_tasks_blocked()
                received += drain(peer)
        assert received == data
        assert stream.bytes_out == len(data)
        assert trio.current_time() == 0


async def test_a_write_waits_for_room_from_its_first_byte() -> None:
    """What finds the kernel full goes out, unharmed, once the peer has taken some."""
    with stream_pair() as (stream, peer):
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.send_all(bytes(4 * MIB))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"end")
            await wait_all_tasks_blocked()
            drain(peer)
        assert drain(peer) == b"end"


async def test_a_peer_that_takes_nothing_stalls_the_write_at_30_s(
    autojump_clock: MockClock,
) -> None:
    """D33: exactly the write timeout after the last progress, and what it took before stays sent."""
    with stream_pair() as (stream, _):
        with pytest.raises(StalledPeerError):
            await stream.send_all(bytes(4 * MIB))
        assert trio.current_time() == WRITE_TIMEOUT
        assert 0 < stream.bytes_out < 4 * MIB


async def test_progress_extends_the_write(autojump_clock: MockClock) -> None:
    """D33: a peer that takes a little every 29 s is slow, not dead, and one that then stops is cut."""
    with stream_pair() as (stream, peer):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def write() -> None:
                with pytest.raises(StalledPeerError):
                    await stream.send_all(bytes(4 * MIB))

            for _ in range(10):
                await trio.sleep(29)
                await wait_all_tasks_blocked()
                assert drain(peer)
        assert trio.current_time() == 10 * 29 + WRITE_TIMEOUT


async def test_progress_too_small_to_write_more_counts(autojump_clock: MockClock) -> None:
    """D5, D33: what the peer took is life even while the kernel has no room yet for new bytes."""
    with stream_pair() as (stream, peer):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def write() -> None:
                with pytest.raises(StalledPeerError):
                    await stream.send_all(bytes(4 * MIB))

            await wait_all_tasks_blocked()
            sent = stream.bytes_out
            for _ in range(2):
                await trio.sleep(25)
                assert len(drain(peer, 50_000)) == 50_000
        assert stream.bytes_out == sent
        # Looked at every 7.5 s, it was seen to live at 52.5 for the last time.
        assert trio.current_time() == 52.5 + WRITE_TIMEOUT


async def test_a_peer_that_is_gone_breaks_the_write() -> None:
    """A write to a closed peer is a BrokenResourceError, at once or while it waits."""
    with stream_pair() as (stream, peer):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def write() -> None:
                with pytest.raises(trio.BrokenResourceError):
                    await stream.send_all(bytes(4 * MIB))

            await wait_all_tasks_blocked()
            peer.close()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"more")


async def test_waiting_for_room_ends_when_there_is_some() -> None:
    """`wait_send_all_might_not_block` follows the kernel."""
    with stream_pair() as (stream, peer):
        await stream.wait_send_all_might_not_block()
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.send_all(bytes(4 * MIB))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.wait_send_all_might_not_block)
            await wait_all_tasks_blocked()
            assert nursery.child_tasks
            drain(peer)


# Reading


async def test_reading_counts_bytes_and_keeps_to_the_receive_buffer() -> None:
    """One receive is at most 64 KiB, or less when less is asked for."""
    with stream_pair() as (stream, peer):
        peer.send(bytes(RECEIVE_BYTES + 1000))
        assert len(await stream.receive_some(10)) == 10
        assert len(await stream.receive_some()) <= RECEIVE_BYTES
        while stream.bytes_in < RECEIVE_BYTES + 1000:
            await stream.receive_some()
        assert stream.bytes_in == RECEIVE_BYTES + 1000


async def test_the_end_of_the_peer_is_an_empty_read() -> None:
    """A peer that closes leaves what it sent before, then the end."""
    with stream_pair() as (stream, peer):
        peer.send(b"last")
        peer.close()
        assert await stream.receive_some() == b"last"
        assert await stream.receive_some() == b""


async def test_a_reset_breaks_the_read() -> None:
    """A peer that resets is a BrokenResourceError, for the reader and for whoever half-closes."""
    with tcp_stream_pair() as (stream, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_eof()


async def test_a_wake_up_for_nothing_is_waited_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readable without bytes, as the kernel may say, is no end and no error."""
    with stream_pair() as (stream, peer):
        real, calls = trio.lowlevel.wait_readable, []

        async def hasty(sock: socket.socket) -> None:
            calls.append(sock)
            if len(calls) > 1:
                await real(sock)

        monkeypatch.setattr(trio.lowlevel, "wait_readable", hasty)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read() -> None:
                assert await stream.receive_some() == b"x"

            await wait_all_tasks_blocked()
            peer.send(b"x")
        assert len(calls) == 2


# Closing


async def test_closing_wakes_whoever_waits() -> None:
    """A reader and a writer of a stream that is closed under them end at once."""
    with stream_pair() as (stream, _):
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await stream.receive_some()

            @nursery.start_soon
            async def write() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await stream.send_all(bytes(4 * MIB))

            await wait_all_tasks_blocked()
            await stream.aclose()


async def test_a_closed_stream_says_so() -> None:
    """Every use after `close` is a ClosedResourceError; closing again is nothing."""
    with stream_pair() as (stream, _):
        stream.close()
        stream.close()
        for use in (
            stream.receive_some,
            lambda: stream.send_all(b"x"),
            stream.wait_send_all_might_not_block,
        ):
            with pytest.raises(trio.ClosedResourceError):
                await use()
        assert stream.waiting_bytes() == 0


# Discarding: the peer reads our last words before the socket goes


async def test_discarding_half_closes_and_reads_until_the_peer_ends() -> None:
    """The peer sees the end at once and may go on talking: nothing of it is lost or kept."""
    with stream_pair() as (stream, peer):
        await stream.send_all(b"last words")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.discard)
            await wait_all_tasks_blocked()
            assert drain(peer) == b"last words"
            assert peer.recv(1) == b""
            for _ in range(100):
                peer.send(bytes(1000))
                await wait_all_tasks_blocked()
            assert nursery.child_tasks
            peer.close()
        assert stream.bytes_in == 100_000


async def test_discarding_ends_with_what_is_waited_for() -> None:
    """`until` sees every piece and ends it, a Close frame for instance."""
    with stream_pair() as (stream, peer):
        peer.send(b"stop")
        await stream.discard(until=lambda data: data == b"stop")


@pytest.mark.parametrize("pair", [stream_pair, tcp_stream_pair])
async def test_discarding_a_lost_peer_is_no_error(pair: Callable[[], contextmanager]) -> None:
    """Whatever happens to the peer meanwhile, there is nothing left to say to it."""
    with pair() as (stream, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        await stream.discard()
        stream.close()
        await stream.discard()


# What the peer's side took


async def test_waiting_bytes_are_those_that_the_peer_has_not_taken() -> None:
    """D5: on TCP, what its kernel took is taken; a full pipe leaves the rest waiting."""
    with tcp_stream_pair() as (stream, peer):
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.send_all(bytes(32 * MIB))
        assert 0 < stream.waiting_bytes() < stream.bytes_out
        assert stream.taken_bytes() == stream.bytes_out - stream.waiting_bytes()
        before = stream.taken_bytes()
        drain(peer)
        assert stream.taken_bytes() > before


async def test_a_kernel_that_does_not_tell_leaves_nothing_waiting() -> None:
    """A socket that cannot be asked counts as one whose bytes were all taken."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert SocketStream(listener, WRITE_TIMEOUT).waiting_bytes() == 0
