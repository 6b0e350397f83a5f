"""When what was said counts as arrived, and what waits until then (D32, D33)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.events import Pong

from cast import Scripted
from house import open_house, texts

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn


# Confirmation


async def test_one_ping_asks_for_confirmation_a_second_after_the_last_write(
    autojump_clock: MockClock,
) -> None:
    """D32: exactly 1 s after the last of two writes, and only once."""
    async with open_house(ping_interval=math.inf) as house:
        peer = await house.connect()
        await house.say("one")
        await peer.receive_for(0.75)
        await house.say("two")
        written = trio.current_time()
        await peer.receive_for(60)
    assert peer.pings == [(written + 1, b"1")]


async def test_states_and_errors_ask_for_no_confirmation(autojump_clock: MockClock) -> None:
    """D32: only units are confirmed."""
    async with open_house(ping_interval=math.inf) as house:
        peer = await house.connect()
        await peer.say("m1", "/fail")
        await peer.send({"t": "text", "id": "m2"})
        frames = await peer.receive_for(60)
    assert [frame["t"] for frame in frames].count("error") == 2
    assert peer.pings == []


async def test_what_was_confirmed_does_not_come_again(autojump_clock: MockClock) -> None:
    """D32: the pong ends it, and the session with it."""
    async with open_house() as house:
        peer = await house.connect()
        await house.say("one")
        await peer.receive_for(1.5)
        await house.lose(peer)
        assert house.hub.registry.get("phone") is None
        assert await (await house.connect()).receive_for(0.1) == []


async def test_half_the_units_unconfirmed_are_confirmed_at_once(autojump_clock: MockClock) -> None:
    """D32: the ping does not wait for its second when half of the bound is used."""
    async with open_house(keep_units=4, ping_interval=math.inf) as house:
        peer = await house.connect()
        start = trio.current_time()
        await house.say("one")
        await peer.receive_for(0.5)
        await house.say("two")
        await peer.receive_for(60)
    assert [at - start for at, _ in peer.pings] == [0.5]


async def test_half_the_bytes_unconfirmed_are_confirmed_at_once(autojump_clock: MockClock) -> None:
    """D32: the same for bytes."""
    async with open_house(keep_bytes=1000, ping_interval=math.inf) as house:
        peer = await house.connect()
        start = trio.current_time()
        await house.say("x" * 200)
        await peer.receive_for(60)
    assert [at - start for at, _ in peer.pings] == [0]


@pytest.mark.parametrize("payload", [b"", b"2", b"99", b"-1", b"x", b"\xff", b"9" * 125])
async def test_a_pong_of_no_ping_confirms_nothing(
    autojump_clock: MockClock, payload: bytes
) -> None:
    """D32: only the pong of a ping that was sent counts."""
    async with open_house() as house:
        peer = await house.connect()
        await house.say("one")
        await peer.expect("message")
        await peer.send_event(Pong(payload))
        await peer.drain()
        await house.lose(peer)
        assert texts(await (await house.connect()).receive_for(0.1)) == ["one"]


async def test_a_pong_confirms_only_what_came_before_its_ping(autojump_clock: MockClock) -> None:
    """D32: a unit written after the ping went out waits for the next one."""
    async with open_house() as house:
        peer = await house.connect()
        peer.answers_pings = False
        await house.say("one")
        await peer.receive_for(1.5)
        await house.say("two")
        await peer.expect("message", text="two")
        await peer.send_event(Pong(peer.pings[-1][1]))
        await wait_all_tasks_blocked()
        await house.lose(peer)
        assert texts(await (await house.connect()).receive_for(0.1)) == ["two"]


async def test_a_late_pong_on_the_old_connection_confirms_nothing(
    autojump_clock: MockClock,
) -> None:
    """D11, D32: after a takeover the old connection has no say."""
    async with open_house() as house:
        house.send_buffer = 4096
        old = await house.connect()
        old.answers_pings = False
        await house.say("one")
        await old.receive_for(1.5)
        await house.say("x" * 100_000)
        await wait_all_tasks_blocked()
        new = await house.connect()
        new.answers_pings = False
        assert texts(await new.receive_for(0.1))[0] == "one"
        await old.send_event(Pong(old.pings[-1][1]))
        await wait_all_tasks_blocked()
        await house.lose(new)
        assert texts(await (await house.connect()).receive_for(0.1))[0] == "one"


# A peer that does not confirm


async def test_a_peer_that_never_pongs_makes_the_agent_wait(autojump_clock: MockClock) -> None:
    """D32, D33: beyond the bound the agent waits rather than lose, and goes on with the pong."""

    async def speak(turn: Turn) -> None:
        for number in range(6):
            await turn.reply(str(number))

    async with open_house(Scripted(speak), keep_units=4) as house:
        peer = await house.connect()
        peer.answers_pings = False
        await peer.say("m1", "go")
        for _ in range(10):  # it lives: it sends, and reads
            await peer.send({"t": "ping"})
            assert len(texts(await peer.receive_for(15))) in {0, 4}
        assert len(house.hub.registry.get("phone").mailbox) == 4
        await peer.send_event(Pong(peer.pings[-1][1]))
        assert texts(await peer.receive_for(0.1)) == ["4", "5"]


async def test_a_peer_that_leaves_frees_the_agent_that_waits(autojump_clock: MockClock) -> None:
    """D33: an agent that waits for room goes on when there is nobody to wait for."""
    async with open_house(keep_units=2) as house:
        peer = await house.connect()
        peer.answers_pings = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.say, "one", "two", "three")
            assert texts(await peer.receive_for(0.1)) == ["one", "two"]
            await house.lose(peer)
        frames = await (await house.connect()).receive_for(0.1)
    assert texts(frames) == ["two", "three"]
    assert frames[-1]["message"].startswith("1 message")


async def test_a_takeover_frees_the_agent_that_waits(autojump_clock: MockClock) -> None:
    """D11, D33: room on the new connection counts."""
    async with open_house(outbox_frames=2) as house:
        house.send_buffer = 4096
        await house.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.say, "x" * 7000, "y" * 100_000, "three")
            await wait_all_tasks_blocked()
            assert nursery.child_tasks
            frames = await (await house.connect()).receive_for(0.1)
    assert texts(frames)[-1] == "three"


async def test_stop_said_for_ever_fills_no_memory(autojump_clock: MockClock) -> None:
    """D27, D32: what `/stop` answers waits for no room; beyond the bound the oldest is given up."""
    async with open_house(keep_units=4) as house:
        peer = await house.connect()
        peer.answers_pings = False
        for number in range(50):
            await peer.say(f"m{number}", "/stop")
            await peer.expect("message")
        assert len(house.hub.registry.get("phone").mailbox) == 4
