"""The avatar and the typing sign, to the second (D24, D30)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from cast import Scripted
from hermes_mobile.agents import Mode
from house import Peer, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn


def sign(frame: dict[str, Any]) -> str:
    """A frame in one word: an avatar by its state, the end of typing as `still`."""
    match frame["t"]:
        case "avatar":
            return str(frame["state"])
        case "typing":
            return "still" if frame.get("stop") else "typing"
        case other:
            return str(other)


async def signs(peer: Peer, seconds: float = 60) -> list[tuple[float, str]]:
    """What comes within `seconds`, and when, counted from now."""
    start = trio.current_time()
    seen = []
    with trio.move_on_after(seconds):
        while (frame := await peer.receive()) is not None:
            seen.append((round(trio.current_time() - start, 6), sign(frame)))
    return seen


async def talk_in_three_steps(turn: Turn) -> None:
    """Say something at 1 s, and again at 11 s."""
    await trio.sleep(1)
    await turn.reply("first")
    await trio.sleep(10)
    await turn.reply("second")


async def test_idle_comes_three_seconds_after_the_last_word(autojump_clock: MockClock) -> None:
    """D30: an echo, and idle exactly 3 s after it."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "Hello")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (0, "message"),
            (0, "speaking"),
            (0, "still"),
            (3, "idle"),
        ]


async def test_a_silent_agent_goes_on_thinking(autojump_clock: MockClock) -> None:
    """D30: before the first word nothing falls back, however long it takes."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 40")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (40, "message"),
            (40, "speaking"),
            (40, "still"),
            (43, "idle"),
        ]


async def test_silence_inside_a_turn_is_thinking(autojump_clock: MockClock) -> None:
    """D30: 3 s after speaking the turn thinks again, then speaks again; it is idle only after its end."""
    async with open_house(Scripted(talk_in_three_steps)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (1, "message"),
            (1, "speaking"),
            (4, "thinking"),
            (11, "message"),
            (11, "speaking"),
            (11, "still"),
            (14, "idle"),
        ]


async def test_idle_counts_from_the_end_of_the_turn(autojump_clock: MockClock) -> None:
    """D30: the later of the last message and the turn's end counts."""

    async def linger(turn: Turn) -> None:
        await turn.reply("word")
        await trio.sleep(2)

    async with open_house(Scripted(linger)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        assert (await signs(peer))[-3:] == [(0, "speaking"), (2, "still"), (5, "idle")]


async def test_a_turn_without_a_word_ends_too(autojump_clock: MockClock) -> None:
    """D30: an agent that says nothing leaves no sign behind."""

    async def say_nothing(turn: Turn) -> None:
        await trio.sleep(1)

    async with open_house(Scripted(say_nothing)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        assert await signs(peer) == [(0, "thinking"), (0, "typing"), (1, "still"), (4, "idle")]


async def test_a_stream_speaks_as_long_as_it_grows(autojump_clock: MockClock) -> None:
    """D30: speaking follows the first frame of a stream, and every state holds it."""

    async def grow(turn: Turn) -> None:
        async with turn.stream() as stream:
            for _ in range(4):
                await stream.append("word ")
                await trio.sleep(2.5)

    async with open_house(Scripted(grow)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (0, "message"),
            (0, "speaking"),
            (2.5, "message"),
            (5, "message"),
            (7.5, "message"),
            (10, "message"),
            (10, "still"),
            (13, "idle"),
        ]


async def test_speaking_follows_the_last_part_of_the_first_message(
    autojump_clock: MockClock,
) -> None:
    """D30: after all pieces, and once only."""

    async def speak(turn: Turn) -> None:
        await turn.reply("x" * 8000)
        await turn.reply("more")

    async with open_house(Scripted(speak)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        seen = [word for _, word in await signs(peer)]
    assert seen == [
        *("thinking", "typing", "message", "message", "message", "speaking", "message"),
        *("still", "idle"),
    ]


async def test_show_working_sends_the_typing_sign_again(autojump_clock: MockClock) -> None:
    """The port: after a silence an agent can show that it works; the avatar comes on a change only."""

    async def work(turn: Turn) -> None:
        await turn.reply("word")
        await trio.sleep(1)
        await turn.show_working()
        await turn.show_working()

    async with open_house(Scripted(work)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        assert (await signs(peer))[4:] == [
            (1, "thinking"),
            (1, "typing"),
            (1, "typing"),
            (1, "still"),
            (4, "idle"),
        ]


# The end of typing, on every path


async def test_a_failed_turn_ends_its_signs(autojump_clock: MockClock) -> None:
    """D30: failure."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/fail")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (0, "error"),
            (0, "still"),
            (3, "idle"),
        ]


async def test_a_stopped_turn_ends_its_signs(autojump_clock: MockClock) -> None:
    """D30: `/stop`; what it says is no speech of the agent's."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 60")
        await trio.sleep(1)
        await peer.say("m2", "/stop")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (0, "message"),
            (0, "still"),
            (3, "idle"),
        ]


async def test_a_turn_that_is_cut_by_the_shutdown_ends_its_signs(
    autojump_clock: MockClock,
) -> None:
    """D30, D35: the end of typing comes before the connection's."""
    async with open_house(shutdown_grace=5.0) as house:
        peer = await house.connect()
        await peer.say("m1", "/think 60")
        await peer.expect("typing")
        house.nursery.start_soon(house.stop)
        assert await signs(peer) == [(5, "error"), (5, "still")]
        assert peer.closed == (1001, "shutdown")


async def test_typing_ends_with_the_last_of_concurrent_turns(autojump_clock: MockClock) -> None:
    """D30: two turns at once are one sign."""

    async def work(turn: Turn) -> None:
        await trio.sleep(float(turn.input.text))  # type: ignore[union-attr] - texts only

    async with open_house(Scripted(work, Mode.CONCURRENT)) as house:
        peer = await house.connect()
        await peer.say("m1", "5")
        await peer.say("m2", "2")
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (0, "typing"),
            (5, "still"),
            (8, "idle"),
        ]


# The person's typing


@pytest.mark.parametrize(("typed_at", "idle_at"), [(1.0, 4.0), (2.5, 5.5)])
async def test_typing_of_the_person_holds_the_avatar(
    autojump_clock: MockClock, typed_at: float, idle_at: float
) -> None:
    """D24: `typing` arms the idle timer anew."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "Hello")
        start = trio.current_time()
        await peer.expect("typing", stop=True)
        await trio.sleep(typed_at)
        await peer.send({"t": "typing"})
        await peer.expect("avatar", state="idle")
        assert trio.current_time() - start == idle_at


async def test_typing_of_the_person_changes_no_state(autojump_clock: MockClock) -> None:
    """D24: an idle avatar stays idle, a working one works."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send({"t": "typing"})
        assert await signs(peer, 10) == []
        await peer.say("m1", "/think 9")
        await trio.sleep(1)
        await peer.send({"t": "typing"})
        assert await signs(peer, 7) == [(0, "thinking"), (0, "typing")]


# Outside a turn, and across connections


async def test_speech_outside_a_turn_changes_no_state(autojump_clock: MockClock) -> None:
    """D30: the avatar belongs to turns."""
    async with open_house() as house:
        peer = await house.connect()
        await house.hub.conversation("phone").reply("Good morning")
        assert await signs(peer) == [(0, "message")]


async def test_a_new_connection_is_told_that_a_turn_runs(autojump_clock: MockClock) -> None:
    """D13, D30: thinking and typing after `ready`, and the turn goes on there."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 20")
        await peer.expect("typing")
        await peer.vanish()
        await trio.sleep(5)
        peer = await house.connect()
        assert await signs(peer) == [
            (0, "thinking"),
            (0, "typing"),
            (15, "message"),
            (15, "speaking"),
            (15, "still"),
            (18, "idle"),
        ]


async def test_a_new_connection_takes_over_the_idle_timer(autojump_clock: MockClock) -> None:
    """D13, D30: an avatar that still speaks is shown, and falls back when it would have."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "Hello")
        await peer.receive_for(0.5)
        await peer.vanish()
        peer = await house.connect()
        assert await signs(peer) == [(0, "message"), (0, "speaking"), (2.5, "idle")]


async def test_a_taken_over_connection_fires_no_timer_twice(autojump_clock: MockClock) -> None:
    """D11, D30: while the old connection still ends, the avatar falls back once."""
    async with open_house() as house:
        old = await house.connect()
        await old.say("m1", "Hello")
        await old.receive_for(2)
        new = await house.connect()
        assert await signs(new) == [(0, "speaking"), (1, "idle")]
        assert await old.wait_closed() == (4001, "replaced")


@pytest.mark.parametrize("away", [0.0, 60.0])
async def test_an_avatar_is_idle_once_nothing_is_owed(
    autojump_clock: MockClock, away: float
) -> None:
    """D13: idle needs no frame; a session that was forgotten, all being confirmed, begins idle."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "Hello")
        await peer.receive_for(2)
        await peer.vanish()
        await trio.sleep(away)
        peer = await house.connect()
        assert await signs(peer) == []


async def test_the_idle_time_is_a_setting(autojump_clock: MockClock) -> None:
    """D30: `typing_idle`."""
    async with open_house(typing_idle=0.5) as house:
        peer = await house.connect()
        await peer.say("m1", "Hello")
        assert (await signs(peer))[-1] == (0.5, "idle")
