"""`/stop`, through real connections."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from wsproto.events import TextMessage

from cast import ConcurrentRecorder, ConcurrentWorker, Recorder, Worker
from house import Peer, audio, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock


MIB = 1024 * 1024


async def test_stop_ends_what_runs_and_drops_what_waits(autojump_clock: MockClock) -> None:
    """D27: the turn is cancelled, the queue emptied, the person told, and typing ends."""
    async with open_house(agent := Worker()) as house:
        peer = await house.connect()
        for message in ("m1", "m2", "m3"):
            await peer.say(message, "work")
        await trio.testing.wait_all_tasks_blocked()
        await peer.say("s1", " /STOP\n")
        frames = await peer.receive_until("typing", stop=True)
        assert [frame["t"] for frame in frames] == ["avatar", "typing", "message", "typing"]
        assert frames[2]["text"] == "Stopped: 1 running, 2 waiting."
        assert agent.cancelled == ["m1"]
        agent.released.set()
        await peer.say("m4", "work")
        assert (await peer.expect("message"))["text"] == "noted"
    assert agent.ids == ["m1", "m4"]


async def test_stop_frees_the_queue(autojump_clock: MockClock) -> None:
    """D20, D27: it is taken where nothing else is, and there is room again for all of the bytes."""
    recording = base64.b64encode(bytes(8 * MIB - 128)).decode()
    async with open_house(Worker(), queue_messages=2) as house:
        peer = await house.connect()
        for stop in ("s1", "s2"):
            await peer.say(f"{stop} runs", "work")
            await trio.testing.wait_all_tasks_blocked()
            for number in range(2):
                await peer.send(audio(f"{stop} {number}", recording))
            frame = {"t": "text", "id": f"{stop} full", "text": "hi"}
            assert (await peer.refusal(frame))[0] == "internal_error"
            await peer.say(stop, "/stop")
            message = await peer.expect("message")
            assert message["text"] == "Stopped: 1 running, 2 waiting."


async def test_stop_ends_all_turns_of_a_concurrent_agent(autojump_clock: MockClock) -> None:
    """D27: every running one, of this session and of no other."""
    async with open_house(agent := ConcurrentWorker()) as house:
        peer, other = await house.connect(), await house.connect("tablet")
        await other.say("other", "work")
        for message in ("m1", "m2", "m3"):
            await peer.say(message, "work")
        await trio.testing.wait_all_tasks_blocked()
        await peer.say("s1", "/stop")
        message = await peer.expect("message")
        assert message["text"] == "Stopped: 3 running, 0 waiting."
        await peer.expect("typing", stop=True)
        agent.released.set()
        assert (await other.expect("message"))["text"] == "noted"
    assert sorted(agent.cancelled) == ["m1", "m2", "m3"]


async def test_stop_with_nothing_to_stop_says_so(autojump_clock: MockClock) -> None:
    """D27, D19: and the same `/stop` again is a repeat."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.say("s1", "/stop")
        assert (await peer.receive())["text"] == "Nothing to stop."
        await peer.say("s1", "/stop")
        assert await peer.drain() == []
    assert agent.inputs == []


async def send_at_once(peer: Peer, *frames: dict[str, Any]) -> None:
    """Send frames so that the server receives all of them in one piece."""
    data = b"".join(peer.websocket.send(TextMessage(json.dumps(frame))) for frame in frames)
    await peer.stream.send_all(data)


def text(id: str, text: str) -> dict[str, Any]:
    return {"t": "text", "id": id, "text": text}


@pytest.mark.parametrize("agent", [Recorder, ConcurrentRecorder])
async def test_a_turn_that_has_not_begun_says_nothing_after_stop(
    autojump_clock: MockClock, agent: type[Recorder]
) -> None:
    """D27: it is stopped before it begins, or was done already; never both."""
    async with open_house(agent()) as house:
        peer = await house.connect()
        for number in range(20):
            await send_at_once(peer, text(f"m{number}", "hi"), text(f"s{number}", "/stop"))
            await trio.testing.wait_all_tasks_blocked()
            said = [each["text"] for each in await peer.drain() if each["t"] == "message"]
            assert said in (
                ["Stopped: 1 running, 0 waiting."],
                ["Stopped: 0 running, 1 waiting."],
                ["noted", "Nothing to stop."],
            )


async def test_an_answer_and_stop_meet(autojump_clock: MockClock) -> None:
    """D27: a turn that was just woken by its card's answer says nothing after `/stop`."""
    async with open_house() as house:
        peer = await house.connect()
        for number in range(20):
            await peer.say(f"m{number}", "/run ls")
            card = await peer.expect("prompt")
            answer = {"t": "prompt", "prompt_id": card["id"], "option_id": "once"}
            await send_at_once(peer, answer, text(f"s{number}", "/stop"))
            await trio.testing.wait_all_tasks_blocked()
            frames = await peer.drain()
            done = [each["option_id"] for each in frames if each["t"] == "prompt_done"]
            said = [each["text"] for each in frames if each["t"] == "message"]
            assert done == ["once"]
            assert said in (
                ["Stopped: 1 running, 0 waiting."],
                ["Applied: once", "Nothing to stop."],
            )
