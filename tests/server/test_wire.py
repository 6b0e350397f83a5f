"""The seam under the library: what it may read, who may write, and how a connection ends in words."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.protocol.errors import CloseCode, ErrorCode, too_big
from hermes_mobile.server import ending as endings
from hermes_mobile.server.scanner import FrameScanner, Opcode, server_frame
from hermes_mobile.server.stream import SocketStream
from hermes_mobile.server.upgrade import UpgradeRequest
from hermes_mobile.server.wire import CLOSE_TIMEOUT, Wire
from house import client_frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trio.testing import MockClock

MIB = 1 << 20
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
HELLO = client_frame(Opcode.TEXT, b"hello")
BAD = client_frame(Opcode.TEXT, b"bad", reserved=4)
CLOSE = client_frame(Opcode.CLOSE, b"\x03\xe8")


class Desk:
    """A wire on a socket, and the plain socket of its peer."""

    def __init__(self, ours: socket.socket, theirs: socket.socket, rest: bytes) -> None:
        theirs.setblocking(False)
        self.peer = theirs
        self.stream = SocketStream(ours, 30.0)
        self.scanner = FrameScanner(1000, 1000, lambda _: None)
        request = UpgradeRequest(b"GET", "/ws", {b"sec-websocket-key": [KEY]}, rest)
        self.wire = Wire(self.stream, self.scanner, request)

    def taken(self) -> bytes:
        """What the peer has got since the last time."""
        data = bytearray()
        try:
            while piece := self.peer.recv(65536):
                data += piece
        except BlockingIOError:
            pass
        return bytes(data)


@contextmanager
def new_desk(rest: bytes = b"") -> Iterator[Desk]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Desk(ours, theirs, rest)


@asynccontextmanager
async def upgraded_desk() -> AsyncIterator[Desk]:
    """A desk whose library has read its request and answered it."""
    with new_desk() as desk:
        await desk.wire.receive_some()
        await desk.wire.send_all(SWITCHING)
        assert desk.taken() == SWITCHING
        yield desk


class FakeLibrary:
    """Reads the wire as trio-websocket's task does, and knows of one message whenever it is asked."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.pieces: list[bytes] = []

    async def run(self) -> None:
        with suppress(trio.ClosedResourceError):
            while True:
                self.pieces.append(await self.desk.wire.receive_some())

    async def get_message(self) -> str:
        await wait_all_tasks_blocked()
        return f"read by the library from {b''.join(self.pieces)!r}"

    async def receive(self) -> str | bytes:
        return await self.desk.wire.receive_message(self)


@asynccontextmanager
async def desk_with_library() -> AsyncIterator[tuple[Desk, FakeLibrary]]:
    async with upgraded_desk() as desk, trio.open_nursery() as nursery:
        library = FakeLibrary(desk)
        nursery.start_soon(library.run)
        yield desk, library
        nursery.cancel_scope.cancel()


# Reading


async def test_the_library_reads_our_request() -> None:
    """D1: nothing of the peer's head reaches the library but its key."""
    with new_desk() as desk:
        head = await desk.wire.receive_some()
        assert head.startswith(b"GET / HTTP/1.1\r\n")
        assert b"Sec-WebSocket-Key: %s\r\n" % KEY in head


async def test_what_came_behind_the_request_is_not_lost() -> None:
    """D4: a hasty hello, sent before the upgrade was answered, is the first message."""
    with new_desk(rest=HELLO) as desk:
        assert await FakeLibrary(desk).receive() == "hello"


async def test_a_text_that_stands_whole_never_reaches_the_library() -> None:
    """Several in one receive are read one after the other, and the library sees none of them."""
    async with desk_with_library() as (desk, library):
        desk.peer.send(HELLO + client_frame(Opcode.TEXT, b"x" * 200) + HELLO)
        assert [await library.receive() for _ in range(3)] == ["hello", "x" * 200, "hello"]
        assert library.pieces == []


@pytest.mark.parametrize("end", range(1, 2 * len(HELLO)))
async def test_where_a_receive_ends_changes_nothing(autojump_clock: MockClock, end: int) -> None:
    """In a header, a mask, a text, or between two texts: both are read, by the one or the other."""
    async with desk_with_library() as (desk, library), trio.open_nursery() as nursery:

        @nursery.start_soon
        async def read() -> None:
            with trio.fail_after(1):
                for _ in range(2):
                    text = await library.receive()
                    assert text in {"hello", f"read by the library from {HELLO!r}"}

        for piece in ((HELLO + HELLO)[:end], (HELLO + HELLO)[end:]):
            desk.peer.send(piece)
            await wait_all_tasks_blocked()


async def test_everything_else_is_read_by_the_library() -> None:
    """Fragments, binary messages, texts in two receives: the library's message, in its place."""
    fragments = client_frame(Opcode.TEXT, b"a", final=False) + client_frame(Opcode.CONTINUATION)
    async with desk_with_library() as (desk, library):
        desk.peer.send(HELLO + fragments + HELLO)
        assert await library.receive() == "hello"
        assert await library.receive() == f"read by the library from {fragments!r}"
        assert await library.receive() == "hello"
        library.pieces.clear()
        desk.peer.send(client_frame(Opcode.BINARY, b"{}"))
        assert "library" in await library.receive()
        library.pieces.clear()
        desk.peer.send(HELLO[:4])
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read() -> None:
                assert await library.receive() == f"read by the library from {HELLO!r}"

            await wait_all_tasks_blocked()
            desk.peer.send(HELLO[4:])


@pytest.mark.parametrize("last", [BAD, b""])
async def test_the_end_is_told_after_what_came_before_it(last: bytes) -> None:
    """D3: a violation, or the peer's end, is the end of the messages; the earlier ones are read."""
    async with desk_with_library() as (desk, library):
        desk.peer.send(HELLO + last)
        desk.peer.close()
        assert await library.receive() == "hello"
        with pytest.raises(trio.EndOfChannel):
            await library.receive()
        violated = desk.scanner.violation is CloseCode.PROTOCOL_ERROR
        assert violated == bool(last)


async def test_what_follows_a_close_frame_does_not_reach_the_library() -> None:
    """D35: a ping behind a Close would crash the library's task."""
    async with desk_with_library() as (desk, library):
        desk.peer.send(CLOSE + client_frame(Opcode.PING))
        assert await library.receive() == f"read by the library from {CLOSE!r}"


async def test_a_crowd_of_small_frames_is_handed_over_in_turns() -> None:
    """D3: other tasks run between them, and not one is lost."""
    async with desk_with_library() as (desk, library):
        crowd = client_frame(Opcode.PING) * 2000
        desk.peer.send(crowd)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(library.receive)
            await wait_all_tasks_blocked()
            assert b"".join(library.pieces) == crowd
            assert max(map(len, library.pieces)) <= len(crowd) / 2
            desk.peer.send(HELLO)


async def test_a_crowd_of_small_texts_lets_others_run() -> None:
    """A receive full of texts is read with a checkpoint after every 256 of them."""
    async with desk_with_library() as (desk, library):
        desk.peer.send(HELLO * 1000)
        async with trio.open_nursery() as nursery:
            passed = []

            @nursery.start_soon
            async def bystander() -> None:
                while True:
                    passed.append(await trio.lowlevel.checkpoint())

            for _ in range(1000):
                assert await library.receive() == "hello"
            assert len(passed) >= 2
            nursery.cancel_scope.cancel()


async def test_it_listens_only_while_it_waits_for_the_peer() -> None:
    """D5: the peer's silence counts while its bytes are waited for, not otherwise."""
    async with desk_with_library() as (desk, library):
        assert not desk.wire.listening
        async with trio.open_nursery() as nursery:
            nursery.start_soon(library.receive)
            await wait_all_tasks_blocked()
            assert desk.wire.listening
            desk.peer.send(HELLO)
        assert not desk.wire.listening


async def test_a_library_that_leaves_is_asked_for_its_last_word() -> None:
    """D2: it leaves over bytes that are no UTF-8, whether the reader waits for more or has more."""
    async with desk_with_library() as (desk, library), trio.open_nursery() as nursery:

        @nursery.start_soon
        async def read() -> None:
            assert "library" in await library.receive()

        await wait_all_tasks_blocked()
        await desk.wire.aclose()
    async with upgraded_desk() as desk:
        await desk.wire.aclose()
        desk.peer.send(client_frame(Opcode.PING))
        assert "library" in await FakeLibrary(desk).receive()


async def test_a_library_that_left_reads_and_writes_nothing() -> None:
    """Its `aclose` leaves the socket open: the last words are still to come."""
    async with upgraded_desk() as desk:
        await desk.wire.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await desk.wire.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await desk.wire.send_all(b"x")
        await desk.stream.send_all(b"still open")
        assert desk.taken() == b"still open"


# Writing


async def test_two_writers_take_turns() -> None:
    """Whole frames only: the library's pong waits for a gathered write, and goes out behind it."""
    async with upgraded_desk() as desk:
        long, pong = b"x" * MIB, b"pong"
        received = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.send_all, long)
            await wait_all_tasks_blocked()
            nursery.start_soon(desk.wire.send_all, pong)
            while len(received) < len(long + pong):
                await wait_all_tasks_blocked()
                received += desk.taken()
        assert received == long + pong


async def test_whole_frames_go_out_at_once_while_the_wire_is_free() -> None:
    """No checkpoint, no other task: the peer has them when the call returns."""
    async with upgraded_desk() as desk:
        assert desk.wire.free
        assert desk.wire.send_now(b"at once")
        assert desk.taken() == b"at once"
        assert desk.wire.free


async def test_what_the_kernel_did_not_take_at_once_is_followed_in_turn() -> None:
    """Whole frames only: the wire is taken until `finish_send`, and the pong goes out behind it."""
    async with upgraded_desk() as desk:
        long, pong = b"x" * MIB, b"pong"
        assert not desk.wire.send_now(long)
        assert not desk.wire.free
        received = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.send_all, pong)
            await wait_all_tasks_blocked()
            nursery.start_soon(desk.wire.finish_send)
            while len(received) < len(long + pong):
                await wait_all_tasks_blocked()
                received += desk.taken()
        assert received == long + pong
        assert desk.wire.free


async def test_a_broken_socket_takes_nothing_at_once() -> None:
    """D33: it is told to whoever sends, and the wire is not taken for it."""
    async with upgraded_desk() as desk:
        desk.peer.close()
        with pytest.raises(trio.BrokenResourceError):
            desk.wire.send_now(b"lost")


async def test_nothing_is_said_behind_what_was_begun_at_once(autojump_clock: MockClock) -> None:
    """Half a frame that nobody finished: no Close would be understood."""
    async with upgraded_desk() as desk:
        assert not desk.wire.send_now(b"x" * MIB)
        await desk.wire.close(endings.SHUTDOWN)
        assert set(desk.taken()) == set(b"x")


async def test_a_write_that_fails_wakes_the_reader(autojump_clock: MockClock) -> None:
    """D33: a library whose pong finds no way out ends without a word, and the reader waits for one."""
    async with desk_with_library() as (desk, library), trio.open_nursery() as nursery:

        @nursery.start_soon
        async def read() -> None:
            with trio.fail_after(1):
                assert "library" in await library.receive()

        await wait_all_tasks_blocked()
        desk.peer.shutdown(socket.SHUT_RD)
        with pytest.raises(trio.BrokenResourceError):
            await desk.wire.send_all(b"pong")


async def test_a_frame_that_was_cut_is_followed_by_nothing(autojump_clock: MockClock) -> None:
    """A cancelled write leaves half a frame: no later frame, and no Close, would be understood."""
    async with upgraded_desk() as desk:
        with trio.move_on_after(1):
            await desk.wire.send_all(b"x" * MIB)
        with pytest.raises(trio.ClosedResourceError):
            await desk.wire.send_all(b"more")
        await desk.wire.close(endings.SHUTDOWN)
        assert set(desk.taken()) == set(b"x")
        assert trio.current_time() == 1.0


async def test_a_writer_cancelled_in_the_queue_harms_nothing(autojump_clock: MockClock) -> None:
    """Waiting for one's turn is not writing: the wire stays whole."""
    async with upgraded_desk() as desk:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.send_all, b"x" * MIB)
            await wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await desk.wire.send_all(b"never")
            while nursery.child_tasks:
                desk.taken()
                await wait_all_tasks_blocked()
        desk.taken()
        await desk.wire.send_all(b"next")
        assert desk.taken() == b"next"


async def test_room_on_the_wire_is_room_in_the_kernel() -> None:
    """The port of a Trio stream, whole."""
    async with upgraded_desk() as desk:
        await desk.wire.wait_send_all_might_not_block()


# The end


async def close(desk: Desk, ending: endings.Ending) -> bytes:
    """Close the wire; return what the peer got."""
    await desk.wire.close(ending)
    return desk.taken()


async def test_the_last_words_come_before_the_close_frame(autojump_clock: MockClock) -> None:
    """A fatal error: its frame, then 1008 with its code as the reason, then the end at once."""
    refusal = endings.refused(too_big("frame: at most 10 bytes", fatal=True))
    async with upgraded_desk() as desk:
        desk.peer.send(CLOSE)
        error = b'{"t":"error","code":"too_big","message":"frame: at most 10 bytes","fatal":true}'
        assert await close(desk, refusal) == server_frame(Opcode.TEXT, error) + server_frame(
            Opcode.CLOSE, b"\x03\xf0too_big"
        )
        assert trio.current_time() == 0
        assert refusal.why == ErrorCode.TOO_BIG


async def test_an_end_without_a_code_says_nothing(autojump_clock: MockClock) -> None:
    """A peer that is lost, or said goodbye itself, is not talked to nor waited for."""
    for ending in (endings.LOST, endings.PEER_LEFT, endings.NO_UPGRADE):
        async with upgraded_desk() as desk:
            assert await close(desk, ending) == b""
    assert trio.current_time() == 0


async def test_the_peer_has_two_seconds_for_its_close(autojump_clock: MockClock) -> None:
    """Not one byte of it moves that deadline."""
    async with upgraded_desk() as desk:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.close, endings.SHUTDOWN)
            for _ in range(19):
                await trio.sleep(CLOSE_TIMEOUT / 20)
                desk.peer.send(HELLO)
            assert nursery.child_tasks
        assert trio.current_time() == CLOSE_TIMEOUT
        assert desk.taken() == server_frame(Opcode.CLOSE, b"\x03\xe9shutdown")


async def test_the_peer_s_close_is_known_whatever_lies_before_it(autojump_clock: MockClock) -> None:
    """Frames that were on their way are passed over, in any pieces, half a frame at the start too."""
    async with upgraded_desk() as desk:
        desk.scanner.feed(HELLO[:3])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.close, endings.REPLACED)
            for byte in HELLO[3:] + client_frame(Opcode.PING) * 300 + CLOSE:
                await wait_all_tasks_blocked()
                assert nursery.child_tasks
                desk.peer.send(bytes([byte]))
        assert trio.current_time() == 0


async def test_a_reader_cancelled_in_a_text_loses_nothing_of_it(autojump_clock: MockClock) -> None:
    """D11: a takeover amid a long text; the Close behind the rest of it is known."""
    text = client_frame(Opcode.TEXT, b"x" * 500)
    async with upgraded_desk() as desk:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(FakeLibrary(desk).receive)
            for piece in (text[:100], text[100:300]):
                desk.peer.send(piece)
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        desk.peer.send(text[300:] + CLOSE)
        await desk.wire.close(endings.REPLACED)
        assert trio.current_time() == 0


async def test_a_close_in_bytes_that_were_read_already_counts(autojump_clock: MockClock) -> None:
    """What the scanner still held back is looked at before more is waited for."""
    async with upgraded_desk() as desk:
        desk.peer.send(HELLO + client_frame(Opcode.PING) * 300 + CLOSE)
        assert await FakeLibrary(desk).receive() == "hello"
        await desk.wire.close(endings.REPLACED)
        assert trio.current_time() == 0


@pytest.mark.parametrize("last", [b"", BAD, BAD + CLOSE])
async def test_the_end_of_the_peer_ends_the_wait(autojump_clock: MockClock, last: bytes) -> None:
    """Whatever it still says, a peer that is gone is not waited for."""
    async with upgraded_desk() as desk:
        desk.peer.send(last)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.close, endings.BAD_FRAMING)
            await wait_all_tasks_blocked()
            desk.peer.close()
        assert trio.current_time() == 0


async def test_a_peer_that_takes_nothing_is_left_after_two_seconds(
    autojump_clock: MockClock,
) -> None:
    """D33: last words that find no room do not hold the task for the whole write timeout."""
    async with upgraded_desk() as desk:
        with trio.CancelScope() as scope:
            scope.cancel()
            await desk.stream.send_all(bytes(MIB))
        await desk.wire.close(endings.SHUTDOWN)
        assert trio.current_time() == CLOSE_TIMEOUT


async def test_a_peer_that_is_gone_hears_nothing(autojump_clock: MockClock) -> None:
    """Last words to a closed socket are no error."""
    async with upgraded_desk() as desk:
        desk.peer.close()
        await desk.wire.close(endings.SHUTDOWN)
        assert trio.current_time() == 0


async def test_a_close_that_was_answered_is_the_end(autojump_clock: MockClock) -> None:
    """RFC 6455: after the library's answer to the peer's Close, nothing may follow."""
    async with upgraded_desk() as desk:
        desk.scanner.feed(CLOSE)
        await desk.wire.send_all(b"the library's answer")
        await desk.wire.aclose()
        assert await close(desk, endings.SHUTDOWN) == b"the library's answer"
        assert trio.current_time() == 0
