"""Nothing said is lost with a connection: what is kept, for how long, and what is told of it (D32)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cast import Scripted
from hermes_mobile.agents import OutgoingFile
from hermes_mobile.protocol.frames import MediaOut
from house import open_house, texts

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn


def notices(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [frame for frame in frames if frame["t"] == "error"]


def notice(count: int) -> dict[str, Any]:
    return {
        "t": "error",
        "code": "internal_error",
        "message": f"{count} messages could not be kept while away",
        "fatal": False,
    }


# The next connection


async def test_unconfirmed_units_come_first_then_what_was_said_while_away(
    autojump_clock: MockClock,
) -> None:
    """D32: the same ids, from piece 0, in the order they were made."""
    async with open_house() as house:
        peer = await house.connect()
        await house.say("x" * 8000, "two")
        before = await peer.receive_for(0.5)
        await house.lose(peer)
        await house.say("three")
        await house.hub.conversation("phone").send_file(OutgoingFile(MediaOut.IMAGE, b"four"))
        after = await (await house.connect()).receive_for(0.1)
    assert after[:4] == before
    assert [frame["t"] for frame in after] == ["message"] * 5 + ["media"]
    assert after[4]["text"] == "three"


async def test_a_peer_that_died_in_silence_loses_nothing(autojump_clock: MockClock) -> None:
    """D32: the reply was written to a dead socket; the next connection gets it."""
    async with open_house() as house:
        await house.connect()
        await house.say("one")
        await trio.sleep(5)
        assert texts(await (await house.connect()).receive_for(0.1)) == ["one"]


async def test_a_takeover_repeats_what_was_not_confirmed(autojump_clock: MockClock) -> None:
    """D11, D32: half of a message was read on the old connection; the new one gets all of it."""
    async with open_house() as house:
        house.send_buffer = 4096
        old = await house.connect()
        await house.say("".join(f"{number:5}" for number in range(20_000)), "two")
        first = await old.expect("message")
        new = await house.connect()
        frames = await new.receive_for(0.1)
        rest = await old.receive_for(0.1)
    assert frames[0] == first
    assert [frame["chunk"]["index"] for frame in frames] == [*range(len(frames) - 1), 0]
    assert frames[-1]["text"] == "two"
    assert "two" not in texts(rest)
    assert old.closed == (4001, "replaced")


async def test_a_takeover_of_a_connection_that_closes_takes_its_queue(
    autojump_clock: MockClock,
) -> None:
    """D11, D29: a connection that flushes its last words leaves the new one's queue alone."""
    async with open_house() as house:
        house.send_buffer = 4096
        old = await house.connect()
        talk = house.hub.conversation("phone")
        await talk.reply("x" * 100_000)
        async with talk.stream() as stream:
            await stream.update("one")
            await wait_all_tasks_blocked()
            await old.stream.send_all(b"\x82\xff" + (32 << 20).to_bytes(8) + b"mask")
            await wait_all_tasks_blocked()
            new = await house.connect()
            house.nursery.start_soon(old.wait_closed)
            await wait_all_tasks_blocked()
            frames = await new.receive_for(0.1)
        assert frames[-1]["text"] == "one"
        assert "edit" not in frames[-1]
        assert frames[-1]["final"] is False


async def test_after_ready_comes_what_is_owed_in_the_order_of_d13(
    autojump_clock: MockClock,
) -> None:
    """D13: units, the card shown before, the notice, the avatar, typing."""

    async def work(turn: Turn) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn.ask, "Which?", ["a", "b"])
            await trio.sleep(20)
            for word in ("one", "two", "three"):
                await turn.reply(word)

    async with open_house(Scripted(work), keep_units=2) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        card = (await peer.receive_for(10))[-1]
        await house.lose(peer)
        await trio.sleep(11)
        frames = await (await house.connect()).receive_for(0.1)
    assert [frame["t"] for frame in frames] == [
        *("message", "message", "prompt", "error", "avatar", "typing"),
    ]
    assert texts(frames) == ["two", "three"]
    assert frames[2] == {**card, "timeout_seconds": 279}
    assert frames[3] == notice(1)
    assert frames[4]["state"] == "speaking"


async def test_passing_states_and_errors_are_not_kept(autojump_clock: MockClock) -> None:
    """D32: no avatar, typing, pong or error of the past comes with the next connection."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/fail")
        await peer.send({"t": "ping"})
        await peer.send({"t": "nothing"})
        await house.lose(peer)
        assert await (await house.connect()).receive_for(0.1) == []


# Bounds


async def test_the_oldest_beyond_the_bound_are_dropped_and_counted(
    autojump_clock: MockClock,
) -> None:
    """D32: units; the notice comes after what was kept, once, with the count."""
    async with open_house(keep_units=3) as house:
        await house.say("one", "two", "three", "four", "five")
        frames = await (await house.connect()).receive_for(0.1)
    assert texts(frames) == ["three", "four", "five"]
    assert frames[3:] == [notice(2)]


async def test_bytes_are_bounded_too(autojump_clock: MockClock) -> None:
    """D32: what a text costs is four bytes a character and 64 for its frame."""
    async with open_house(keep_bytes=2 * (4 * 100 + 64)) as house:
        await house.say(*(letter * 100 for letter in "abc"))
        frames = await (await house.connect()).receive_for(0.1)
    assert texts(frames) == ["b" * 100, "c" * 100]
    assert notices(frames) == [notice(1)]


async def test_bounds_are_kept_at_the_end_of_a_connection(autojump_clock: MockClock) -> None:
    """D32: cards are asked beyond the bound, their ends are units; the oldest goes."""
    async with open_house(keep_units=2) as house:
        peer = await house.connect()
        peer.answers_pings = False
        talk = house.hub.conversation("phone")
        async with trio.open_nursery() as nursery:
            for ttl in (2.0, 3.0):
                nursery.start_soon(lambda ttl=ttl: talk.ask("Which?", ["a"], ttl=ttl))
            await peer.receive_for(1)
        await house.say("last")
        await house.lose(peer)
        frames = await (await house.connect()).receive_for(0.1)
    assert [frame["t"] for frame in frames] == ["prompt_done", "message", "error"]
    assert frames[-1] == notice(1)


@pytest.mark.parametrize(("away", "kept"), [(9.5, ["one", "two"]), (10.0, ["two"]), (10.5, [])])
async def test_units_are_kept_for_their_time(
    autojump_clock: MockClock, away: float, kept: list[str]
) -> None:
    """D32: exactly so many seconds from when they were made."""
    async with open_house(keep_seconds=10.0) as house:
        await house.say("one")
        await trio.sleep(0.5)
        await house.say("two")
        await trio.sleep(away - 0.5)
        frames = await (await house.connect()).receive_for(0.1)
    assert texts(frames) == kept
    assert notices(frames) == [notice(2 - len(kept))][: 2 - len(kept)]


async def test_the_notice_is_told_until_it_is_confirmed(autojump_clock: MockClock) -> None:
    """D32: again on each connection, with what was dropped since, and never after its pong."""
    async with open_house(keep_units=1) as house:
        await house.say("one", "two")
        peer = await house.connect()
        peer.answers_pings = False
        assert notices(await peer.receive_for(0.1)) == [notice(1)]
        await house.lose(peer)
        await house.say("three")
        peer = await house.connect()
        peer.answers_pings = False
        assert notices(await peer.receive_for(0.1)) == [notice(2)]
        new = await house.connect()
        assert notices(await new.receive_for(2)) == [notice(2)]
        await house.lose(new)
        await house.say("four", "five")
        assert notices(await (await house.connect()).receive_for(0.1)) == [notice(1)]


async def test_a_notice_takes_nobodys_place(autojump_clock: MockClock) -> None:
    """D32: it is no unit: a second absence with the same three units drops none of them."""
    async with open_house(keep_units=3) as house:
        await house.say("one", "two", "three", "four")
        for _ in range(3):
            peer = await house.connect()
            peer.answers_pings = False
            frames = await peer.receive_for(0.1)
            assert texts(frames) == ["two", "three", "four"]
            assert notices(frames) == [notice(1)]
            await house.lose(peer)


async def test_a_growing_stream_and_an_open_card_are_never_dropped(
    autojump_clock: MockClock,
) -> None:
    """D32, D34: what is not over is not old, whatever the bounds."""
    async with open_house(keep_units=1, keep_seconds=10.0, keep_total_bytes=1) as house:
        talk = house.hub.conversation("phone")
        async with trio.open_nursery() as nursery, talk.stream() as stream:
            await stream.update("growing")
            nursery.start_soon(talk.ask, "Which?", ["a"])
            await wait_all_tasks_blocked()
            await house.say("one", "two")
            await trio.sleep(20)
            peer = await house.connect()
            frames = await peer.receive_for(0.1)
            nursery.cancel_scope.cancel()
    assert [frame["t"] for frame in frames] == ["message", "prompt", "error"]
    assert texts(frames) == ["growing"]
    assert frames[-1] == notice(2)


async def test_edits_collapse_to_the_last_state(autojump_clock: MockClock) -> None:
    """D32: a stream said to a device that is away is one message, whole and final."""
    async with open_house() as house:
        async with house.hub.conversation("phone").stream() as stream:
            for _ in range(100):
                await stream.append("word ")
        (message,) = await (await house.connect()).receive_for(0.1)
    assert message["text"] == "word " * 100
    assert message["final"] is True
    assert "edit" not in message


async def test_the_bytes_of_all_devices_are_bounded(autojump_clock: MockClock) -> None:
    """D32: the device that is away the longest gives up what is kept for it, and is told."""
    async with open_house(keep_total_bytes=3 * (4 * 100 + 64)) as house:
        await house.say("a" * 100, "b" * 100, device="first")
        await trio.sleep(1)
        await house.say("c" * 100, "d" * 100, device="second")
        first = await (await house.connect("first")).receive_for(0.1)
        second = await (await house.connect("second")).receive_for(0.1)
    assert first == [notice(2)]
    assert texts(second) == ["c" * 100, "d" * 100]


async def test_the_number_of_devices_is_bounded(autojump_clock: MockClock) -> None:
    """D32: the one that is away the longest is forgotten; those that are here do not count."""
    async with open_house(max_sessions=2) as house:
        await house.connect("here")
        for device in ("first", "second", "third"):
            await house.say("word", device=device)
            await trio.sleep(1)
        assert len(house.hub.registry) == 3
        assert await (await house.connect("first")).receive_for(0.1) == []
        assert texts(await (await house.connect("second")).receive_for(0.1)) == ["word"]
        assert texts(await (await house.connect("third")).receive_for(0.1)) == ["word"]


async def test_a_session_that_an_agent_works_for_is_not_forgotten(
    autojump_clock: MockClock,
) -> None:
    """D32, D34: the bound on devices takes those for which nothing runs."""
    async with open_house(max_sessions=1) as house:
        peer = await house.connect("working")
        await peer.say("m1", "/think 60")
        await peer.expect("typing")
        await house.lose(peer)
        await house.say("word", device="other")
        peer = await house.connect("working")
        await peer.say("m2", "next")
        frames = await peer.receive_for(61)
    assert [frame["t"] for frame in frames[:3]] == ["avatar", "typing", "message"]
    assert texts(frames) == ["Thought for 60 s.", "next"]


async def test_a_generated_id_keeps_nothing(autojump_clock: MockClock) -> None:
    """D32: nobody can come back to it, so its session ends with the connection, or with its turn."""

    async def work(turn: Turn) -> None:
        await turn.reply("one")
        await trio.sleep(10)
        async with turn.stream() as stream:
            await stream.update("two")
        await turn.reply("three")
        assert not len(house.hub.registry.get(turn.device_id).mailbox)

    async with open_house(Scripted(work)) as house:
        peer = await house.connect(None)
        await peer.say("m1", "go")
        await peer.expect("message")
        await house.lose(peer)
        assert len(house.hub.registry) == 1
        await trio.sleep(11)
        assert len(house.hub.registry) == 0
        assert house.hub.registry.kept_bytes == 0


async def test_a_generated_id_is_owed_nothing_after_its_connection(
    autojump_clock: MockClock,
) -> None:
    """D32: nor is what was not confirmed kept for it."""
    async with open_house() as house:
        peer = await house.connect(None)
        await peer.say("m1", "Hello")
        await peer.expect("typing", stop=True)
        await house.lose(peer)
        assert len(house.hub.registry) == 0


# Cards


async def test_the_end_of_a_card_is_kept_only_if_it_was_shown(autojump_clock: MockClock) -> None:
    """D32, D34: a card that expired unseen leaves no trace; one that was seen is closed later."""
    async with open_house() as house:
        talk = house.hub.conversation("phone")
        async with trio.open_nursery() as nursery:
            peer = await house.connect()
            nursery.start_soon(lambda: talk.ask("Seen?", ["a"], ttl=10))
            card = await peer.expect("prompt")
            await house.lose(peer)
            nursery.start_soon(lambda: talk.ask("Unseen?", ["a"], ttl=10))
        assert await (await house.connect()).receive_for(0.1) == [
            {"t": "prompt_done", "id": card["id"], "expired": True}
        ]


async def test_a_card_in_the_queue_that_ends_is_not_sent(autojump_clock: MockClock) -> None:
    """D32, D34: on a stalled link a card may expire before it is written; then nothing is."""
    async with open_house(write_timeout=60.0) as house:
        house.send_buffer = 4096
        peer = await house.connect()
        talk = house.hub.conversation("phone")
        await talk.reply("x" * 200_000)
        answer = await talk.ask("Which?", ["a"], ttl=10)
        assert answer.expired
        frames = await peer.receive_for(0.1)
    assert {frame["t"] for frame in frames} == {"message"}
