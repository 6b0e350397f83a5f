"""The bounded way to the writer: what finds room, what waits, what is replaced (D29, D33)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.protocol.frames import Avatar, AvatarState, Pong
from hermes_mobile.server.outbox import Entry, Outbox
from hermes_mobile.server.scanner import Opcode, server_frame
from hermes_mobile.server.units import MessageUnit, StreamUnit

if TYPE_CHECKING:
    from hermes_mobile.server.units import Unit

MAX_FRAMES, MAX_BYTES, RESERVE = 4, 1000, 3
THINKING = Avatar(AvatarState.THINKING)


class Overflows:
    """An outbox, and how often it called for the end of its connection."""

    def __init__(self) -> None:
        self.count = 0
        self.outbox = Outbox(MAX_FRAMES, MAX_BYTES, RESERVE, self.note)

    def note(self) -> None:
        self.count += 1


def new_outbox() -> Outbox:
    return Overflows().outbox


async def take(outbox: Outbox) -> list[bytes | Unit]:
    """Write all that is queued, as the writer does."""
    entries = await outbox.take()
    assert entries is not None
    outbox.release(entries)
    return [entry.content for entry in entries]


def message(text: str = "x") -> MessageUnit:
    return MessageUnit("m", 0.0, text)


async def test_all_that_is_queued_is_taken_at_once_and_in_order() -> None:
    """The writer gathers: one `take` is everything, states, answers, pings and units as they came."""
    outbox = new_outbox()
    unit = message()
    outbox.put(THINKING)
    outbox.put_unit(unit)
    outbox.put_answer(Pong(b"7"))
    outbox.put_ping(12)
    assert await take(outbox) == [
        server_frame(Opcode.TEXT, b'{"t":"avatar","state":"thinking"}'),
        unit,
        server_frame(Opcode.TEXT, b'{"t":"pong","ts":7}'),
        server_frame(Opcode.PING, b"12"),
    ]


async def test_take_waits_for_something() -> None:
    """An empty outbox makes the writer wait, and a put wakes it."""
    outbox = new_outbox()
    taken: list[list[Entry]] = []
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def write() -> None:
            taken.append(await outbox.take())

        await wait_all_tasks_blocked()
        assert taken == []
        outbox.put_ping(1)
    assert len(taken[0]) == 1


# Bounds


async def test_an_answer_without_room_is_an_overflow() -> None:
    """D33: a peer that sends and does not read: its answer is not queued, its connection ends."""
    overflows = Overflows()
    outbox = overflows.outbox
    for _ in range(MAX_FRAMES):
        outbox.put_answer(Pong(b"1"))
    assert overflows.count == 0
    outbox.put_answer(Pong(b"2"))
    assert overflows.count == 1
    assert len(await take(outbox)) == MAX_FRAMES
    outbox.put_answer(Pong(b"3"))
    assert overflows.count == 1


async def test_bytes_bound_answers_too() -> None:
    """D33: bytes as they go over the wire count, header included."""
    overflows = Overflows()
    outbox = overflows.outbox
    outbox.put_answer(Pong(b"1" * 480))
    size = outbox.bytes
    outbox.put_answer(Pong(b"1" * (480 - (2 * size - MAX_BYTES))))
    assert (outbox.bytes, overflows.count) == (MAX_BYTES, 0)
    outbox.put_answer(Pong())
    assert (outbox.bytes, overflows.count) == (MAX_BYTES, 1)


async def test_an_empty_outbox_takes_anything() -> None:
    """D33: what is larger than the bound goes alone, instead of never."""
    overflows = Overflows()
    outbox = overflows.outbox
    assert outbox.has_room(100, 10 * MAX_BYTES)
    outbox.put_answer(Pong(b"1" * 10 * MAX_BYTES))
    assert overflows.count == 0
    assert not outbox.has_room(1, 1)


async def test_states_and_units_use_the_reserve_beyond_the_bound() -> None:
    """D13, D33: nobody can make them wait, so they find room where an answer finds none."""
    overflows = Overflows()
    outbox = overflows.outbox
    for _ in range(MAX_FRAMES + RESERVE - 1):
        outbox.put(THINKING)
    outbox.put_unit(message())
    assert not outbox.has_room(1, 1)
    assert overflows.count == 0


@pytest.mark.parametrize("what", ["state", "unit", "ping"])
async def test_beyond_the_reserve_everything_is_an_overflow(what: str) -> None:
    """D33: an outbox is bounded whoever fills it, and its overflow ends the connection, not the turn."""
    overflows = Overflows()
    outbox = overflows.outbox
    for _ in range(MAX_FRAMES + RESERVE):
        outbox.put(THINKING)
    frames, size = outbox.frames, outbox.bytes
    match what:
        case "state":
            outbox.put(THINKING)
        case "unit":
            outbox.put_unit(message())
        case "ping":
            outbox.put_ping(1)
    assert overflows.count == 1
    assert (outbox.frames, outbox.bytes) == (frames, size)


@given(st.lists(st.one_of(st.integers(1, 300), st.none()), max_size=40))
def test_room_is_given_back_to_the_byte(sizes: list[int | None]) -> None:
    """D33: whatever is put and written, an outbox that is empty counts nothing."""

    async def check() -> None:
        outbox = new_outbox()
        for size in sizes:
            if size is None:
                if outbox.frames:
                    await take(outbox)
                    assert (outbox.frames, outbox.bytes) == (0, 0)
            elif outbox.has_room(1, size):
                outbox.put_unit(message("x" * size))
            assert outbox.frames <= MAX_FRAMES

    trio.run(check)


async def test_what_was_written_wakes_all_who_wait_for_room() -> None:
    """D33: each looks again; room is not handed out twice."""
    outbox = new_outbox()
    outbox.put_answer(Pong(b"1" * 990))
    woken: list[int] = []

    async def wait(number: int) -> None:
        while not outbox.has_room(1, 10):
            await outbox.room.park()
        woken.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(wait, number)
        await wait_all_tasks_blocked()
        assert woken == []
        await take(outbox)
    assert sorted(woken) == [0, 1, 2]


# Units


async def test_a_queued_unit_is_not_queued_twice() -> None:
    """D29: the edit of a stream that still waits here only replaces what will be said."""
    outbox = new_outbox()
    unit = StreamUnit("s", 0.0)
    for n in range(100):
        unit.update("word " * n, final=n == 99)
        outbox.put_unit(unit)
    entries = await outbox.take()
    assert [entry.content for entry in entries] == [unit]
    frame = json.loads(next(iter(unit.frames(0.0))))
    assert (frame["text"], frame["final"]) == ("word " * 99, True)


async def test_a_unit_that_was_taken_up_may_be_queued_again() -> None:
    """D29: once the writer has encoded a state, the next one is new."""
    outbox = new_outbox()
    unit = StreamUnit("s", 0.0)
    outbox.put_unit(unit)
    await outbox.take()
    unit.take_up()
    outbox.put_unit(unit)
    assert [entry.content for entry in await outbox.take()] == [unit]


async def test_a_unit_counts_all_its_frames() -> None:
    """D33: a long reply is many frames; an empty outbox takes it, and is full then."""
    outbox = new_outbox()
    unit = message("x" * 3500 * 6)
    outbox.put_unit(unit)
    assert (outbox.frames, outbox.bytes) == (6, unit.size)
    assert not outbox.has_room(1, 1)


# The end


async def test_closing_leaves_what_is_queued_to_the_writer() -> None:
    """D35: what was said is still written; what comes later is not taken, and is no error."""
    overflows = Overflows()
    outbox = overflows.outbox
    outbox.put_ping(1)
    outbox.close()
    outbox.put(THINKING)
    outbox.put_answer(Pong())
    outbox.put_unit(message())
    outbox.put_ping(2)
    assert await take(outbox) == [b"\x89\x011"]
    assert await outbox.take() is None
    assert (outbox.frames, outbox.bytes, overflows.count) == (0, 0, 0)


async def test_closing_leaves_what_was_gathered_to_the_writer_too() -> None:
    """D35: whoever gathers may end the connection, a turn by its last words for instance."""
    outbox = new_outbox()
    outbox.gathering = True
    outbox.put_ping(1)
    outbox.close()
    outbox.close()
    assert await take(outbox) == [b"\x89\x011"]
    assert await outbox.take() is None


async def test_closing_without_flush_leaves_nothing() -> None:
    """The writer stops at once, whether it waits or comes later."""
    outbox = new_outbox()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def write() -> None:
            assert await outbox.take() is None

        await wait_all_tasks_blocked()
        outbox.close(flush=False)
    outbox = new_outbox()
    outbox.put_ping(1)
    outbox.close(flush=False)
    assert await outbox.take() is None


async def test_closing_wakes_those_who_wait_for_room() -> None:
    """D33: nobody waits for room on a connection that is ending."""
    outbox = new_outbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.room.park)
        await wait_all_tasks_blocked()
        outbox.close()
