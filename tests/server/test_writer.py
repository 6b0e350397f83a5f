"""The one task that writes: it gathers, keeps the order, tells what is out, and stops (D29, D33)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.agents import OutgoingFile
from hermes_mobile.protocol.frames import MediaOut, Pong
from hermes_mobile.server.metrics import Metrics
from hermes_mobile.server.outbox import Outbox
from hermes_mobile.server.units import FileUnit, MessageUnit, StreamUnit
from hermes_mobile.server.writer import GATHER_BYTES, Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermes_mobile.server.units import Unit


class FakeWire:
    """Notes each write; takes them only while it is `open`, and breaks when told to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.broken = False
        self.free = True
        self.takes_now = 1 << 20
        """Bytes that it takes without waiting."""
        self._unsent = b""
        self._open = trio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open = trio.Event()

    def let_go(self) -> None:
        self._open.set()

    def send_now(self, data: bytes) -> bool:
        self.sent.append(data[: self.takes_now])
        self._unsent = data[self.takes_now :]
        return not self._unsent

    async def finish_send(self) -> None:
        await self.send_all(self._unsent)

    async def send_all(self, data: bytes) -> None:
        await self._open.wait()
        if self.broken:
            raise trio.BrokenResourceError
        self.sent.append(data)


class Desk:
    """A writer at work between an outbox and a wire."""

    def __init__(self) -> None:
        self.outbox = Outbox(256, 1 << 24, 256, on_overflow=pytest.fail)
        self.wire = FakeWire()
        self.written: list[list[Unit]] = []
        self.writer = Writer(self.outbox, self.wire, Metrics(), self.written.append)

    @property
    def sent(self) -> bytes:
        return b"".join(self.wire.sent)


@asynccontextmanager
async def at_work() -> AsyncIterator[Desk]:
    """A desk whose writer waits for work; it must have finished by itself at the end."""
    desk = Desk()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.writer.run)
        await wait_all_tasks_blocked()
        yield desk
        desk.wire.let_go()
        desk.outbox.close()


def message(text: str, id: str = "m") -> MessageUnit:
    return MessageUnit(id, 0.0, text)


def file(size: int, chunk: int = 1 << 20) -> FileUnit:
    data = OutgoingFile(MediaOut.DOCUMENT, bytes(size), "zeros")
    return FileUnit("f", 0.0, data, "application/octet-stream", chunk)


async def test_what_is_queued_together_goes_out_in_one_write() -> None:
    """One write per frame would cost three times the CPU; the order is that of the outbox."""
    async with at_work() as desk:
        for n in range(5):
            desk.outbox.put_answer(Pong(b"%d" % n))
        desk.outbox.put_unit(message("hello"))
        desk.outbox.put_ping(3)
        await wait_all_tasks_blocked()
        assert len(desk.wire.sent) == 1
        places = [desk.sent.index(b'"ts":%d' % n) for n in range(5)]
        assert places == sorted(places)
        assert places[-1] < desk.sent.index(b"hello") < desk.sent.index(b"\x89\x013")
        assert desk.writer.frames_out == 7


async def test_what_is_said_during_a_write_is_gathered_into_the_next() -> None:
    """A slow link makes writes larger, not more."""
    async with at_work() as desk:
        desk.wire.hold()
        for n in range(100):
            desk.outbox.put_answer(Pong(b"%d" % n))
            await wait_all_tasks_blocked()
        desk.wire.let_go()
        await wait_all_tasks_blocked()
        assert len(desk.wire.sent) == 2


async def test_a_write_is_bounded() -> None:
    """A long queue goes out in writes of at most 64 KiB and one frame more."""
    async with at_work() as desk:
        for n in range(200):
            desk.outbox.put_unit(message("x" * 1000, f"m{n}"))
        await wait_all_tasks_blocked()
        sizes = [len(data) for data in desk.wire.sent]
        assert all(GATHER_BYTES <= size < GATHER_BYTES + 2000 for size in sizes[:-1])
        assert desk.writer.frames_out == 200


async def test_chunks_of_a_file_are_encoded_one_at_a_time() -> None:
    """D31: each chunk is a write of its own; the next is encoded when it is out."""
    async with at_work() as desk:
        desk.outbox.put_unit(file(3 << 20))
        await wait_all_tasks_blocked()
        assert len(desk.wire.sent) == 3
        assert all(len(data) > 1 << 20 for data in desk.wire.sent)


async def test_units_are_told_once_their_last_frame_is_out() -> None:
    """D32: not before, and with those that went out in the same write."""
    async with at_work() as desk:
        desk.wire.hold()
        units = [message("a"), message("b"), file(3 << 20)]
        for unit in units:
            desk.outbox.put_unit(unit)
        await wait_all_tasks_blocked()
        assert desk.written == []
        desk.wire.let_go()
        await wait_all_tasks_blocked()
        assert [unit for told in desk.written for unit in told] == units
        assert (desk.outbox.frames, desk.outbox.bytes) == (0, 0)


async def test_room_is_given_back_when_it_is_out_not_when_it_is_taken() -> None:
    """D33: what the writer holds still counts."""
    async with at_work() as desk:
        desk.wire.hold()
        desk.outbox.put_unit(file(3 << 20))
        await wait_all_tasks_blocked()
        assert desk.outbox.bytes > 3 << 20
        desk.wire.let_go()
        await wait_all_tasks_blocked()
        assert desk.outbox.bytes == 0


async def test_a_stream_says_its_newest_state_when_its_turn_comes() -> None:
    """D29: a slow link is behind by one edit at most, and the first state is no edit."""
    async with at_work() as desk:
        desk.wire.hold()
        desk.outbox.put_answer(Pong())
        await wait_all_tasks_blocked()
        unit = StreamUnit("s", 0.0)
        for n in range(1, 50):
            unit.update("word " * n, final=n == 49)
            desk.outbox.put_unit(unit)
        desk.wire.let_go()
        await wait_all_tasks_blocked()
        assert len(desk.wire.sent) == 2
        assert desk.sent.count(b'"message"') == 1
        assert b"word " * 49 in desk.sent
        assert b'"edit"' not in desk.sent


# Without the task


async def test_what_was_gathered_goes_out_without_the_task() -> None:
    """One write, there and then, and its room and its units are settled at once."""
    async with at_work() as desk:
        unit = message("hello")
        desk.writer.gather()
        desk.outbox.put_answer(Pong())
        desk.outbox.put_unit(unit)
        assert desk.sent == b""
        desk.writer.write_gathered()
        assert len(desk.wire.sent) == 1
        assert (desk.outbox.frames, desk.outbox.bytes) == (0, 0)
        assert desk.written == [[unit]]
        assert desk.writer.frames_out == 2


async def test_nothing_gathered_is_no_write() -> None:
    """A step that says nothing costs no send."""
    async with at_work() as desk:
        desk.writer.gather()
        desk.writer.write_gathered()
        await wait_all_tasks_blocked()
        assert desk.wire.sent == []


@pytest.mark.parametrize("busy", ["the wire", "the task", "nobody, but it is much"])
async def test_what_cannot_go_out_at_once_is_the_task_s(busy: str) -> None:
    """Order is kept, and whoever gathers never waits for the kernel."""
    async with at_work() as desk:
        text = "x"
        match busy:
            case "the wire":
                desk.wire.free = False
            case "the task":
                desk.wire.hold()
                desk.outbox.put_answer(Pong(b"1"))
                await wait_all_tasks_blocked()
            case _:
                text = "x" * GATHER_BYTES
        desk.writer.gather()
        desk.outbox.put_unit(message(text))
        desk.writer.write_gathered()
        assert desk.sent == b""
        desk.wire.let_go()
        await wait_all_tasks_blocked()
        assert desk.sent.endswith(b'"final":true}')


async def test_what_the_kernel_did_not_take_is_finished_before_anything_else() -> None:
    """D33: no frame is cut by another, and room is given back when it is out."""
    async with at_work() as desk:
        desk.wire.takes_now = 3
        desk.wire.hold()
        desk.writer.gather()
        desk.outbox.put_answer(Pong(b"1"))
        desk.writer.write_gathered()
        desk.outbox.put_answer(Pong(b"2"))
        await wait_all_tasks_blocked()
        assert (desk.sent, desk.outbox.frames) == (b"\x81\x13{", 2)
        desk.wire.let_go()
        await wait_all_tasks_blocked()
        assert [b'"ts":1' in data for data in desk.wire.sent] == [False, True, False]
        assert (desk.outbox.frames, desk.writer.frames_out) == (0, 2)


async def test_a_stopped_writer_finishes_what_it_began_without_the_task() -> None:
    """D11: a Close frame can follow the last whole frame."""
    async with at_work() as desk:
        desk.wire.takes_now = 3
        desk.writer.gather()
        desk.outbox.put_answer(Pong(b"1"))
        desk.writer.write_gathered()
        desk.writer.stop()
        desk.outbox.close(flush=False)
        desk.writer.gather()
        desk.writer.write_gathered()
        await desk.writer.wait_finished()
        assert desk.sent == b'\x81\x13{"t":"pong","ts":1}'


async def test_a_stopped_writer_writes_nothing_more() -> None:
    """D11: what was gathered for a device that has a new connection stays in its mailbox."""
    async with at_work() as desk:
        desk.writer.gather()
        desk.outbox.put_answer(Pong(b"1"))
        desk.writer.stop()
        desk.writer.write_gathered()
        await desk.writer.wait_finished()
        assert desk.sent == b""


async def test_a_fault_without_the_task_is_the_task_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """D35: it ends the connection that it belongs to, not the turn that said something."""
    desk = Desk()

    def fail_to_encode(*_: object) -> None:
        raise RuntimeError("broken unit")

    monkeypatch.setattr(MessageUnit, "frames", fail_to_encode)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def write() -> None:
            with pytest.raises(RuntimeError, match="broken unit"):
                await desk.writer.run()

        await wait_all_tasks_blocked()
        desk.writer.gather()
        desk.outbox.put_unit(message("x"))
        desk.writer.write_gathered()
    assert desk.sent == b""


# The end


async def test_closing_the_outbox_lets_the_writer_finish() -> None:
    """D35: it writes what is queued, then ends."""
    async with at_work() as desk:
        desk.wire.hold()
        desk.outbox.put_answer(Pong(b"1"))
        await wait_all_tasks_blocked()
        desk.outbox.put_answer(Pong(b"2"))
        desk.outbox.close()
        await wait_all_tasks_blocked()
        desk.wire.let_go()
        await desk.writer.wait_finished()
        assert desk.sent.count(b"pong") == 2


async def test_stopping_finishes_the_write_under_way_and_begins_nothing() -> None:
    """A Close frame can follow at once: not the rest of a file, not what else is queued."""
    async with at_work() as desk:
        desk.wire.hold()
        desk.outbox.put_unit(file(3 << 20))
        desk.outbox.put_answer(Pong(b"2"))
        await wait_all_tasks_blocked()
        desk.outbox.put_answer(Pong(b"3"))
        desk.outbox.close(flush=False)
        desk.writer.stop()
        desk.wire.let_go()
        await desk.writer.wait_finished()
        assert len(desk.wire.sent) == 1
        assert b'"part":0' in desk.sent
        assert b"pong" not in desk.sent
        assert desk.written == []


async def test_stopping_before_a_write_has_begun_writes_nothing() -> None:
    """What was taken from the outbox but not begun is not begun."""
    async with at_work() as desk:
        unit = message("never said")
        desk.outbox.put_unit(unit)
        desk.outbox.close(flush=False)
        desk.writer.stop()
        await desk.writer.wait_finished()
        assert desk.wire.sent == []
        assert not unit.shown


async def test_a_broken_wire_ends_the_writer() -> None:
    """D33: the error is the connection's to handle; who waits for the writer is released."""
    desk = Desk()
    desk.wire.broken = True
    desk.outbox.put_unit(message("lost"))
    with pytest.raises(trio.BrokenResourceError):
        await desk.writer.run()
    await desk.writer.wait_finished()
    assert desk.written == []


async def test_cancelling_the_writer_releases_who_waits_for_it() -> None:
    """A drain that is over its time is not waited for."""
    desk = Desk()
    desk.wire.hold()
    desk.outbox.put_answer(Pong())
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.writer.run)
            await wait_all_tasks_blocked()
            scope.cancel()
    await desk.writer.wait_finished()
    assert desk.wire.sent == []
