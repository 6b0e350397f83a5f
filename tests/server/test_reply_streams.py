"""Replies that grow, frame by frame, on one connection and across several (D29)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from cast import Scripted
from hermes_mobile.protocol.slicing import pieces
from house import open_house

if TYPE_CHECKING:
    from hermes_mobile.agents import Turn


def words(count: int, name: str = "word") -> str:
    return " ".join(f"{name}{number}" for number in range(count))


def spoken(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The message and media frames among `frames`."""
    return [frame for frame in frames if frame["t"] in {"message", "media"}]


def state(frame: dict[str, Any]) -> tuple[str, bool, bool]:
    """What a frame of a stream says: its text, `edit`, `final`."""
    assert frame["chunk"] == {"index": 0, "total": 1}
    return frame["text"], frame.get("edit", False), frame["final"]


# Streams, as edits


async def test_a_stream_is_a_message_and_its_edits(autojump_clock: MockClock) -> None:
    """D29: first not final, then edits with the whole text, the last one final, nothing after it."""

    async def speak(turn: Turn) -> None:
        async with turn.stream() as stream:
            await stream.update("one")
            await trio.sleep(0.1)
            await stream.append(" two")
            await trio.sleep(0.1)
            await stream.update("one two three")
            await trio.sleep(0.1)

    async with open_house(Scripted(speak)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        frames = spoken(await peer.receive_for(60))
    assert [state(frame) for frame in frames] == [
        ("one", False, False),
        ("one two", True, False),
        ("one two three", True, False),
        ("one two three", True, True),
    ]
    assert len({frame["id"] for frame in frames}) == 1


async def test_a_state_that_changes_nothing_is_not_sent(autojump_clock: MockClock) -> None:
    """D29: the same text again is no state."""
    async with open_house() as house:
        peer = await house.connect()
        async with house.hub.conversation("phone").stream() as stream:
            await stream.update("one")
            await peer.expect("message")
            await stream.update("one")
            await stream.append("")
            assert await peer.drain() == []


async def test_an_empty_stream_says_nothing(autojump_clock: MockClock) -> None:
    """D29: a stream without a word is no message."""
    async with open_house() as house:
        peer = await house.connect()
        async with house.hub.conversation("phone").stream() as stream:
            await stream.update("")
        assert await peer.drain() == []


async def test_a_stream_goes_on_under_a_new_id_at_the_cut(autojump_clock: MockClock) -> None:
    """D29: no message beyond one frame: at the cut it is final, and the rest is another message."""
    text = words(800)
    first, second = pieces(text)
    async with open_house() as house:
        peer = await house.connect()
        async with house.hub.conversation("phone").stream() as stream:
            await stream.update(text[:3400])
            before = await peer.expect("message")
            await stream.update(text)
            end, start = spoken(await peer.drain())
        (last,) = spoken(await peer.drain())
    assert state(before) == (text[:3400], False, False)
    assert state(end) == (first, True, True)
    assert state(start) == (second, False, False)
    assert state(last) == (second, True, True)
    assert before["id"] == end["id"] != start["id"] == last["id"]


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 400, 3499, 3500, 3501, 9000]), st.booleans()), max_size=8
    )
)
def test_a_stream_ends_as_the_pieces_of_its_text(growth: list[tuple[int, bool]]) -> None:
    """D29: however it grows, its messages are final once, edits of what was seen, and D28's pieces."""
    text = words(12_000)

    async def speak(turn: Turn) -> None:
        async with turn.stream() as stream:
            length = 0
            for more, pause in growth:
                length += more
                await stream.update(text[:length])
                if pause:
                    await trio.sleep(1)

    async def main() -> list[dict[str, Any]]:
        async with open_house(Scripted(speak)) as house:
            peer = await house.connect()
            await peer.say("m1", "go")
            return spoken(await peer.receive_for(60))

    shown: dict[str, tuple[str, bool, bool]] = {}
    for frame in trio.run(main, clock=MockClock(autojump_threshold=0)):
        said, edit, _ = state(frame)
        before = shown.get(frame["id"])
        assert edit == (before is not None)
        assert before is None or not before[2], "something follows the final state"
        assert len(said) <= 3500
        shown[frame["id"]] = state(frame)
    expected = text[: sum(more for more, _ in growth)]
    assert all(final for _, _, final in shown.values())
    assert [said for said, _, _ in shown.values()] == (pieces(expected) if expected else [])


@pytest.mark.parametrize("how", ["failure", "stop"])
async def test_a_stream_that_is_cut_short_ends_final(autojump_clock: MockClock, how: str) -> None:
    """D29: leaving the stream by an exception or by `/stop` shows its last state as final."""

    async def speak(turn: Turn) -> None:
        async with turn.stream() as stream:
            await stream.update("half a")
            await trio.sleep(1)
            await stream.update("half a word")
            if how == "failure":
                raise RuntimeError
            await trio.sleep_forever()

    async with open_house(Scripted(speak)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        await trio.sleep(2)
        if how == "stop":
            await peer.say("m2", "/stop")
        frames = spoken(await peer.receive_until("typing", stop=True))
    grown = [state(frame) for frame in frames if "half" in frame["text"]]
    assert grown[-1] == ("half a word", True, True)


async def test_a_stream_that_is_stopped_while_it_waits_is_said_whole(
    autojump_clock: MockClock,
) -> None:
    """D29: the last state may be several pieces, of which a stalled link has seen none."""
    text = words(1500)

    async def speak(turn: Turn) -> None:
        await turn.reply("x" * 100_000)
        async with turn.stream() as stream:
            await stream.update(text)

    async with open_house(Scripted(speak), outbox_frames=1) as house:
        house.send_buffer = 4096
        peer = await house.connect()
        await peer.say("m1", "go")
        await wait_all_tasks_blocked()
        await peer.say("m2", "/stop")
        frames = spoken(await peer.receive_until("typing", stop=True))
    grown = [frame for frame in frames if "word" in frame["text"]]
    assert [state(frame) for frame in grown] == [(piece, False, True) for piece in pieces(text)]


async def test_a_slow_link_is_behind_by_one_edit(autojump_clock: MockClock) -> None:
    """D29: while nothing is read a hundred states become one, and it is the newest."""
    async with open_house() as house:
        house.send_buffer = 4096
        peer = await house.connect()
        talk = house.hub.conversation("phone")
        async with talk.stream() as stream:
            await stream.update("0")
            await peer.expect("message", text="0")
            await talk.reply("x" * 200_000)
            await wait_all_tasks_blocked()
            for number in range(1, 101):
                await stream.update(words(number))
                await trio.sleep(0.01)
            frames = [frame for frame in spoken(await peer.drain()) if "word0" in frame["text"]]
            assert [state(frame) for frame in frames] == [(words(100), True, False)]


async def test_a_stream_that_ends_on_a_stalled_link_is_one_message(
    autojump_clock: MockClock,
) -> None:
    """D29: what the app never saw growing it gets whole, final, and not as an edit."""
    async with open_house() as house:
        house.send_buffer = 4096
        peer = await house.connect()
        talk = house.hub.conversation("phone")
        await talk.reply("x" * 200_000)
        await wait_all_tasks_blocked()
        async with talk.stream() as stream:
            for number in range(1, 10):
                await stream.update(words(number))
                await trio.sleep(0.01)
        frames = [frame for frame in spoken(await peer.drain()) if "word0" in frame["text"]]
    assert [state(frame) for frame in frames] == [(words(9), False, True)]


async def test_a_stream_in_a_loop_lets_others_work(autojump_clock: MockClock) -> None:
    """The port: every update is a checkpoint, even where the state before it still waits."""
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with open_house() as house, trio.open_nursery() as nursery:
        house.send_buffer = 4096
        await house.connect()
        talk = house.hub.conversation("phone")
        await talk.reply("x" * 200_000)
        async with talk.stream() as stream:
            await stream.update("0")
            await wait_all_tasks_blocked()
            nursery.start_soon(tick)
            for number in range(50):
                await stream.append(str(number))
        nursery.cancel_scope.cancel()
    assert turns > 40  # about one for each update


async def test_a_growing_stream_never_waits_for_itself(autojump_clock: MockClock) -> None:
    """D32, D33: room for one unit is enough for a stream, whose place is its own."""
    async with open_house(keep_units=1, keep_bytes=20_000) as house:
        peer = await house.connect()
        with trio.fail_after(60):
            async with house.hub.conversation("phone").stream() as stream:
                for number in range(1, 5):
                    await stream.update(words(number * 100))
                    assert (await peer.expect("message"))["text"] == words(number * 100)
                    await trio.sleep(2)


# Streams across connections


async def test_the_first_state_on_a_device_is_no_edit(autojump_clock: MockClock) -> None:
    """D29: a stream whose beginning was not confirmed begins again, with its newest state."""
    async with open_house() as house:
        peer = await house.connect()
        async with house.hub.conversation("phone").stream() as stream:
            await stream.update("one")
            first = await peer.expect("message")
            await peer.vanish()
            await wait_all_tasks_blocked()
            await stream.update("one two")
            peer = await house.connect()
            second = await peer.expect("message")
        last = await peer.expect("message")
    assert state(second) == ("one two", False, False)
    assert state(last) == ("one two", True, True)
    assert first["id"] == second["id"] == last["id"]


async def test_what_a_device_confirmed_is_edited_on_the_next_connection(
    autojump_clock: MockClock,
) -> None:
    """D29: a state that was confirmed is not repeated, and the next one is an edit."""
    async with open_house() as house:
        peer = await house.connect()
        async with house.hub.conversation("phone").stream() as stream:
            await stream.update("one")
            await peer.receive_for(2)
            await peer.vanish()
            peer = await house.connect()
            assert spoken(await peer.drain()) == []
            await stream.update("one two")
            assert state(await peer.expect("message")) == ("one two", True, False)


async def test_a_stream_outlives_the_session_it_began_in(autojump_clock: MockClock) -> None:
    """D32: a stream that was silent while its device was away speaks to the device that is back."""
    async with open_house() as house:
        peer = await house.connect()
        async with house.hub.conversation("phone").stream() as stream:
            await peer.vanish()
            await wait_all_tasks_blocked()
            assert house.hub.registry.get("phone") is None
            peer = await house.connect()
            await stream.update("here")
            assert state(await peer.expect("message")) == ("here", False, False)
