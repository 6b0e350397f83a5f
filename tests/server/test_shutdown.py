"""Stopping: nothing new, a grace period for what runs, words for what was cut, and an end (D35)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from cast import ConcurrentWorker, Scripted, Worker
from house import House, Peer, open_house, texts

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn


async def follow(peer: Peer) -> list[tuple[float, str, str]]:
    """What a peer is told until its end: when, the type, and a text, code or id."""
    seen = []
    while (frame := await peer.receive()) is not None:
        about = frame.get("id") if frame["t"] == "error" else frame.get("text", "")
        seen.append((trio.current_time(), frame["t"], about))
    return seen


def stop(house: House) -> float:
    """Begin to stop; returns when that was."""
    house.nursery.start_soon(house.stop)
    return trio.current_time()


async def test_an_idle_server_stops_at_once(autojump_clock: MockClock) -> None:
    """D35: connections close with 1001 `shutdown`, without waiting for a grace period nobody needs."""
    async with open_house() as house:
        peers = [await house.connect("phone"), await house.connect("tablet"), await house.open()]
        began = stop(house)
        for peer in peers:
            assert await peer.wait_closed() == (1001, "shutdown")
        assert trio.current_time() == began


async def test_a_turn_may_finish_within_the_grace_period(autojump_clock: MockClock) -> None:
    """D35: its reply is delivered, then the connection closes, then and not later."""
    async with open_house(shutdown_grace=10.0) as house:
        peer = await house.connect()
        await peer.say("m1", "/think 7")
        await peer.expect("typing")
        began = stop(house)
        assert await follow(peer) == [
            (began + 7, "message", "Thought for 7 s."),
            (began + 7, "avatar", ""),
            (began + 7, "typing", ""),
        ]
        assert peer.closed == (1001, "shutdown")


async def test_a_card_can_be_answered_within_the_grace_period(autojump_clock: MockClock) -> None:
    """D35: what a running turn waits for still gets through."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/run ls")
        card = await peer.expect("prompt")
        stop(house)
        await trio.sleep(1)
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
        await peer.expect("message", text="Applied: once")
        assert await peer.wait_closed() == (1001, "shutdown")


async def test_what_was_cut_and_what_waited_is_told(autojump_clock: MockClock) -> None:
    """D35, D19: after the grace period `internal_error` for each, whose ids may be sent again."""
    async with open_house(shutdown_grace=10.0) as house:
        peer = await house.connect()
        for message in ("m1", "m2", "m3"):
            await peer.say(message, "/think 60")
        await peer.expect("typing")
        began = stop(house)
        seen = await follow(peer)
        assert {(at, about) for at, kind, about in seen if kind == "error"} == {
            (began + 10, "m1"),
            (began + 10, "m2"),
            (began + 10, "m3"),
        }
        assert peer.closed == (1001, "shutdown")
        now = trio.current_time()
        assert not any(house.hub.dedup.seen("phone", f"m{n}", now) for n in (1, 2, 3))


async def test_concurrent_turns_are_all_told(autojump_clock: MockClock) -> None:
    """D35: the same for an agent that takes messages at once."""
    async with open_house(ConcurrentWorker(), shutdown_grace=10.0) as house:
        peer = await house.connect()
        await peer.say("m1", "a")
        await peer.say("m2", "b")
        await peer.receive_for(1)
        stop(house)
        seen = await follow(peer)
    assert {about for _, kind, about in seen if kind == "error"} == {"m1", "m2"}


async def test_a_queued_message_is_not_begun(autojump_clock: MockClock) -> None:
    """D35: when the running turn ends in time, what waits behind it is refused at once."""
    async with open_house(agent := Worker()) as house:
        peer = await house.connect()
        await peer.say("m1", "a")
        await peer.say("m2", "b")
        await peer.expect("typing")
        began = stop(house)
        await trio.sleep(3)
        agent.released.set()
        seen = await follow(peer)
    assert [(at, about) for at, kind, about in seen if kind == "error"] == [(began + 3, "m2")]
    assert agent.ids == ["m1"]


async def test_new_messages_are_refused_and_not_recorded(autojump_clock: MockClock) -> None:
    """D35: `internal_error` with the id; the app sends it again to whoever comes next."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 60")
        await peer.expect("typing")
        stop(house)
        await trio.sleep(1)
        refused = [
            await peer.refusal({"t": "text", "id": "m2", "text": "hello"}),
            await peer.refusal({"t": "audio", "id": "m3", "format": "ogg", "data": "AAAA"}),
            await peer.refusal({"t": "media", "id": "m4", "kind": "image", "data": "AAAA"}),
        ]
        assert refused == [("internal_error", False, f"m{n}") for n in (2, 3, 4)]
        now = trio.current_time()
        assert not any(house.hub.dedup.seen("phone", f"m{n}", now) for n in (2, 3, 4))


async def test_stop_works_while_the_server_stops(autojump_clock: MockClock) -> None:
    """D27, D35: the person may end the turn that everybody waits for."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 60")
        await peer.expect("typing")
        began = stop(house)
        await peer.say("m2", "/stop")
        assert texts(await peer.receive_until("typing", stop=True)) == [
            "Stopped: 1 running, 0 waiting."
        ]
        assert await peer.wait_closed() == (1001, "shutdown")
        assert trio.current_time() == began


async def test_a_last_word_of_a_turn_that_is_cut_arrives(autojump_clock: MockClock) -> None:
    """D29, D35: a stream ends final before its connection does."""

    async def grow(turn: Turn) -> None:
        async with turn.stream() as stream:
            await stream.update("half")
            await trio.sleep_forever()

    async with open_house(Scripted(grow)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        await peer.expect("message", final=False)
        stop(house)
        last = await peer.expect("message", final=True)
        assert (last["text"], last["edit"]) == ("half", True)
        assert await peer.wait_closed() == (1001, "shutdown")


async def test_everything_is_over_within_grace_and_five_seconds(autojump_clock: MockClock) -> None:
    """D35: with a turn that clings, a peer that takes nothing, and one that never answers a Close."""

    async def cling(turn: Turn) -> None:
        await turn.reply("x" * 200_000)
        while True:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    await trio.sleep(2)
                raise

    async with open_house(Scripted(cling), shutdown_grace=10.0) as house:
        house.send_buffer = 4096
        deaf = await house.connect("deaf")
        await deaf.say("m1", "go")
        await house.connect("mute")
        await trio.sleep(1)
        began = stop(house)
        while house.hub.connections:  # noqa: ASYNC110 - there is nothing to be told by
            await trio.sleep(0.1)
        assert trio.current_time() - began <= 15


async def test_the_absent_are_not_written_to(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D35: a turn of a device that is away is cut like any other, and nobody is told."""
    async with open_house(shutdown_grace=10.0) as house:
        peer = await house.connect()
        await peer.say("m1", "/think 60")
        await peer.expect("typing")
        await house.lose(peer)
        began = trio.current_time()
        await house.stop()
        assert trio.current_time() - began == 10
        assert house.hub.running_turns == 0
