"""What is spoken on a connection: who reads what, who may write, and how it ends in words."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from trio_websocket import ConnectionClosed

from hermes_mobile.protocol.errors import CloseCode, ErrorCode, too_big
from hermes_mobile.server import ending as endings
from hermes_mobile.server.scanner import FrameScanner, Opcode, server_frame
from hermes_mobile.server.stream import SocketStream
from hermes_mobile.server.wire import CLOSE_TIMEOUT, Wire
from house import client_frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

MIB = 1 << 20

HELLO = client_frame(Opcode.TEXT, b"hello")
BAD = client_frame(Opcode.TEXT, b"bad", reserved=4)
CLOSE = client_frame(Opcode.CLOSE, b"\x03\xe8")
FRAGMENTS = client_frame(Opcode.TEXT, b"he", final=False) + client_frame(0, b"llo")


class Desk:
    """A wire on a socket, and the plain socket of its peer."""

    def __init__(self, sock: socket.socket, peer: socket.socket, rest: bytes, nursery) -> None:
        peer.setblocking(False)
        self.peer = peer
        self.stream = SocketStream(sock, 30.0)
        self.pongs: list[bytes] = []
        self.scanner = FrameScanner(1000, 1000, self.pongs.append)
        self._nursery = nursery
        self.wire = Wire(self.stream, self.scanner, rest, nursery)

    @property
    def library_is_open(self) -> bool:
        return bool(self._nursery.child_tasks)

    def taken(self) -> bytes:
        """What the peer has got since the last time."""
        data = bytearray()
        try:
            while piece := self.peer.recv(65536):
                data += piece
        except BlockingIOError:
            pass
        return bytes(data)


@asynccontextmanager
async def new_desk(rest: bytes = b"") -> AsyncIterator[Desk]:
    """A desk; the task of its library ends with it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            yield Desk(ours, theirs, rest, nursery)
            nursery.cancel_scope.cancel()


# Reading


async def test_what_came_behind_the_request_is_not_lost() -> None:
    """D4: a hasty hello, sent before the upgrade was answered, is the first message."""
    async with new_desk(rest=HELLO) as desk:
        assert await desk.wire.receive_message() == "hello"


async def test_a_text_that_stands_whole_needs_no_library() -> None:
    """Several in one receive are read one after the other."""
    async with new_desk() as desk:
        desk.peer.send(HELLO + client_frame(Opcode.TEXT, b"x" * 200) + HELLO)
        texts = [await desk.wire.receive_message() for _ in range(3)]
        assert texts == ["hello", "x" * 200, "hello"]
        assert not desk.library_is_open


@pytest.mark.parametrize("messages", [HELLO + HELLO, HELLO + FRAGMENTS, FRAGMENTS + HELLO])
async def test_where_a_receive_ends_changes_nothing(
    autojump_clock: MockClock, messages: bytes
) -> None:
    """In a header, a mask, a text, or between two: both are read, by the one or the other."""
    for end in range(1, len(messages)):
        async with new_desk() as desk, trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read(desk: Desk = desk) -> None:
                with trio.fail_after(1):
                    for _ in range(2):
                        assert await desk.wire.receive_message() == "hello"

            for piece in (messages[:end], messages[end:]):
                desk.peer.send(piece)
                await wait_all_tasks_blocked()


async def test_everything_else_is_read_by_the_library() -> None:
    """Fragments, binary messages, pings: each in its place, from the first of them on."""
    async with new_desk() as desk:
        desk.peer.send(HELLO + FRAGMENTS + HELLO)
        assert [await desk.wire.receive_message() for _ in range(3)] == ["hello"] * 3
        assert desk.library_is_open
        desk.peer.send(client_frame(Opcode.BINARY, b"{}"))
        assert await desk.wire.receive_message() == b"{}"
        desk.peer.send(client_frame(Opcode.PING, b"there?") + HELLO)
        assert await desk.wire.receive_message() == "hello"
        await wait_all_tasks_blocked()
        assert desk.taken() == server_frame(Opcode.PONG, b"there?")


async def test_what_opens_the_library_is_not_seen() -> None:
    """D1: its answer to an upgrade of ours goes nowhere, whatever is written meanwhile."""
    async with new_desk() as desk, trio.open_nursery() as nursery:
        desk.peer.send(client_frame(Opcode.PING) + HELLO)
        nursery.start_soon(desk.wire.send_all, b"a frame")
        assert await desk.wire.receive_message() == "hello"
        await wait_all_tasks_blocked()
        assert sorted([desk.taken()[:7], b""]) == [b"", b"a frame"]


@pytest.mark.parametrize("last", [BAD, b""])
async def test_the_end_is_told_after_what_came_before_it(last: bytes) -> None:
    """D3: a violation, or the peer's end, is the end of the messages; the earlier ones are read."""
    async with new_desk() as desk:
        desk.peer.send(HELLO + last)
        desk.peer.close()
        assert await desk.wire.receive_message() == "hello"
        with pytest.raises(trio.EndOfChannel):
            await desk.wire.receive_message()
        violated = desk.scanner.violation is CloseCode.PROTOCOL_ERROR
        assert violated == bool(last)


async def test_a_close_frame_ends_the_messages() -> None:
    """D35: neither it nor what follows reaches the library, whose task a ping would crash."""
    async with new_desk() as desk:
        desk.peer.send(CLOSE + client_frame(Opcode.PING))
        with pytest.raises(trio.EndOfChannel):
            await desk.wire.receive_message()
        assert not desk.library_is_open


async def test_a_crowd_of_small_frames_is_handed_over_in_turns() -> None:
    """D3: other tasks run between them, and not one is lost."""
    async with new_desk() as desk:
        desk.peer.send(client_frame(Opcode.PING) * 2000 + HELLO)
        pongs = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.receive_message)
            while nursery.child_tasks:
                pongs += desk.taken()
                await wait_all_tasks_blocked()
        assert pongs + desk.taken() == server_frame(Opcode.PONG, b"") * 2000


async def test_a_crowd_of_small_texts_lets_others_run() -> None:
    """A receive full of texts is read with a checkpoint after every 256 of them."""
    async with new_desk() as desk:
        desk.peer.send(HELLO * 1000)
        async with trio.open_nursery() as nursery:
            passed = []

            @nursery.start_soon
            async def bystander() -> None:
                while True:
                    passed.append(await trio.lowlevel.checkpoint())

            for _ in range(1000):
                assert await desk.wire.receive_message() == "hello"
            assert len(passed) >= 2
            nursery.cancel_scope.cancel()


async def test_it_listens_only_while_it_waits_for_the_peer() -> None:
    """D5: the peer's silence counts while its bytes are waited for, not otherwise."""
    async with new_desk() as desk:
        assert not desk.wire.listening
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.receive_message)
            await wait_all_tasks_blocked()
            assert desk.wire.listening
            desk.peer.send(HELLO)
        assert not desk.wire.listening


@pytest.mark.parametrize("behind", [b"", client_frame(Opcode.PING)])
async def test_a_library_that_leaves_has_the_last_word(behind: bytes) -> None:
    """D2: it leaves over bytes that are no UTF-8, whether the reader waits for more or has more."""
    async with new_desk() as desk:
        desk.peer.send(client_frame(Opcode.TEXT, b"\xff") + behind)
        with pytest.raises(ConnectionClosed) as closed:
            await desk.wire.receive_message()
        assert closed.value.reason.code == CloseCode.INVALID_DATA
        await wait_all_tasks_blocked()
        with pytest.raises(trio.ClosedResourceError):
            await desk.wire.send_all(b"x")
        await desk.stream.send_all(b"still open")
        assert desk.taken().endswith(b"still open")


# Writing


async def test_two_writers_take_turns() -> None:
    """Whole frames only: the library's pong waits for a gathered write, and goes out behind it."""
    async with new_desk() as desk:
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
    async with new_desk() as desk:
        assert desk.wire.free
        assert desk.wire.send_now(b"at once")
        assert desk.taken() == b"at once"
        assert desk.wire.free


async def test_what_the_kernel_did_not_take_at_once_is_followed_in_turn() -> None:
    """Whole frames only: the wire is taken until `finish_send`, and the pong goes out behind it."""
    async with new_desk() as desk:
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
    async with new_desk() as desk:
        desk.peer.close()
        with pytest.raises(trio.BrokenResourceError):
            desk.wire.send_now(b"lost")


async def test_nothing_is_said_behind_what_was_begun_at_once(autojump_clock: MockClock) -> None:
    """Half a frame that nobody finished: no Close would be understood."""
    async with new_desk() as desk:
        assert not desk.wire.send_now(b"x" * MIB)
        assert set(desk.taken()) == set(b"x")
        await desk.wire.close(endings.SHUTDOWN)
        assert desk.taken() == b""


async def test_a_pong_that_finds_no_way_out_wakes_the_reader(autojump_clock: MockClock) -> None:
    """D33: the library then ends without a word, and the reader learns of it."""
    async with new_desk() as desk:
        desk.peer.shutdown(socket.SHUT_RD)
        desk.peer.send(client_frame(Opcode.PING))
        with trio.fail_after(1), pytest.raises((ConnectionClosed, trio.EndOfChannel)):
            await desk.wire.receive_message()


async def test_a_frame_that_was_cut_is_followed_by_nothing(autojump_clock: MockClock) -> None:
    """A cancelled write leaves half a frame: no later frame, and no Close, would be understood."""
    async with new_desk() as desk:
        with trio.move_on_after(1):
            await desk.wire.send_all(b"x" * MIB)
        with pytest.raises(trio.ClosedResourceError):
            await desk.wire.send_all(b"more")
        await desk.wire.close(endings.SHUTDOWN)
        assert set(desk.taken()) == set(b"x")
        assert trio.current_time() == 1.0


async def test_a_writer_cancelled_in_the_queue_harms_nothing(autojump_clock: MockClock) -> None:
    """Waiting for one's turn is not writing: the wire stays whole."""
    async with new_desk() as desk:
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


# The end


async def close(desk: Desk, ending: endings.Ending) -> bytes:
    """Close the wire; return what the peer got."""
    await desk.wire.close(ending)
    return desk.taken()


async def test_the_last_words_come_before_the_close_frame(autojump_clock: MockClock) -> None:
    """A fatal error: its frame, then 1008 with its code as the reason, then the end at once."""
    refusal = endings.refused(too_big("frame: at most 10 bytes", fatal=True))
    async with new_desk() as desk:
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
        async with new_desk() as desk:
            assert await close(desk, ending) == b""
    assert trio.current_time() == 0


async def test_the_peer_has_two_seconds_for_its_close(autojump_clock: MockClock) -> None:
    """Not one byte of it moves that deadline."""
    async with new_desk() as desk:
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
    async with new_desk() as desk:
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
    async with new_desk() as desk:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.wire.receive_message)
            for piece in (text[:100], text[100:300]):
                desk.peer.send(piece)
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        desk.peer.send(text[300:] + CLOSE)
        await desk.wire.close(endings.REPLACED)
        assert trio.current_time() == 0


async def test_a_close_in_bytes_that_were_read_already_counts(autojump_clock: MockClock) -> None:
    """What the scanner still held back is looked at before more is waited for."""
    async with new_desk() as desk:
        desk.peer.send(HELLO + client_frame(Opcode.PING) * 300 + CLOSE)
        assert await desk.wire.receive_message() == "hello"
        await desk.wire.close(endings.REPLACED)
        assert trio.current_time() == 0


@pytest.mark.parametrize("last", [b"", BAD, BAD + CLOSE])
async def test_the_end_of_the_peer_ends_the_wait(autojump_clock: MockClock, last: bytes) -> None:
    """Whatever it still says, a peer that is gone is not waited for."""
    async with new_desk() as desk:
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
    async with new_desk() as desk:
        with trio.CancelScope() as scope:
            scope.cancel()
            await desk.stream.send_all(bytes(MIB))
        await desk.wire.close(endings.SHUTDOWN)
        assert trio.current_time() == CLOSE_TIMEOUT


async def test_a_peer_that_is_gone_hears_nothing(autojump_clock: MockClock) -> None:
    """Last words to a closed socket are no error."""
    async with new_desk() as desk:
        desk.peer.close()
        await desk.wire.close(endings.SHUTDOWN)
        assert trio.current_time() == 0


GOING_AWAY = b"\x03\xe9"
PROTOCOL_ERROR = b"\x03\xea"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"", b""),
        (GOING_AWAY + b"bye", GOING_AWAY + b"bye"),
        (b"\x0f\xa1", b"\x0f\xa1"),
        (b"\x03", PROTOCOL_ERROR),
        (b"\x03\xed", PROTOCOL_ERROR),
        (b"\x03\xe8\xff", PROTOCOL_ERROR),
    ],
)
@pytest.mark.parametrize("ending", [endings.PEER_LEFT, endings.SHUTDOWN])
async def test_a_close_is_answered(
    autojump_clock: MockClock, ending: endings.Ending, said: bytes, answer: bytes
) -> None:
    """RFC 6455: by the same code, or 1002 where that must not be said; nothing else follows."""
    async with new_desk() as desk:
        desk.peer.send(client_frame(Opcode.CLOSE, said))
        with pytest.raises(trio.EndOfChannel):
            await desk.wire.receive_message()
        assert await close(desk, ending) == server_frame(Opcode.CLOSE, answer)
        assert trio.current_time() == 0
