"""What is sent again, and what has to wait, through real connections."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from cast import ConcurrentWorker, Recorder, Worker
from house import audio, chunk, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn

MIB = 1024 * 1024


class Unsteady(Recorder):
    """Fails at the first message, and at no other."""

    async def handle(self, turn: Turn) -> None:
        self.inputs.append(turn.input)
        if len(self.inputs) == 1:
            raise RuntimeError("the private reason")
        await turn.reply("noted")


# Repeats


async def test_a_repeat_is_dropped_for_600_s(autojump_clock: MockClock) -> None:
    """D19: without a word, until 600 s after it was accepted, from the first time and not later."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        await peer.receive_for(300.0)
        await peer.say("m1", "hi")
        assert await peer.receive_for(299.999) == []
        await peer.say("m1", "hi")
        assert await peer.drain() == []
        assert len(agent.inputs) == 1
        await trio.sleep_until(600.0)
        await peer.say("m1", "hi")
        await peer.expect("message")
    assert agent.ids == ["m1", "m1"]


async def test_a_repeat_after_a_reconnection_is_one(autojump_clock: MockClock) -> None:
    """D19: the agent gets the first message once, whatever kind it is, however often it comes."""
    message = {"t": "text", "id": "m1", "text": "hi"}
    async with open_house(agent := Recorder()) as house:
        for frame in (message, audio("m2", "T2dnUw=="), chunk("m3", b"whole")):
            for _ in range(3):
                peer = await house.connect()
                await peer.send(frame)
                await peer.drain()
    assert agent.ids == ["m1", "m2", "m3"]


async def test_a_repeat_is_one_when_the_device_was_forgotten(autojump_clock: MockClock) -> None:
    """D19: ids are remembered longer than a session that is away and owed nothing."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        await peer.receive_for(5.0)
        await peer.vanish()
        await trio.testing.wait_all_tasks_blocked()
        assert list(house.hub.registry) == []
        peer = await house.connect()
        await peer.say("m1", "hi")
        assert await peer.receive_for(5.0) == []
    assert agent.ids == ["m1"]


async def test_a_file_is_a_repeat_as_a_whole(autojump_clock: MockClock) -> None:
    """D19: chunks of a file that was accepted are ignored; an unfinished one may start anew."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.send(chunk("f1", b"a", 0, 2))
        peer = await house.connect()
        for _ in range(2):
            await peer.send(chunk("f1", b"a", 0, 2))
            await peer.send(chunk("f1", b"b", 1, 2))
        await peer.expect("typing", stop=True)
        assert await peer.drain() == []
        assert house.hub.registry.get("phone").connection.uploads.open_count == 0
    assert [each.data for each in agent.inputs] == [b"ab"]


async def test_devices_do_not_share_ids(autojump_clock: MockClock) -> None:
    """D19: the key is the device and the id."""
    async with open_house(agent := Recorder()) as house:
        for device in ("phone", "tablet"):
            peer = await house.connect(device)
            await peer.say("m1", device)
            await peer.expect("message")
    assert [each.text for each in agent.inputs] == ["phone", "tablet"]


async def test_a_refused_message_may_be_sent_again(autojump_clock: MockClock) -> None:
    """D19: a refused one is not recorded."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        assert (await peer.refusal({"t": "text", "id": "m1", "text": " "}))[0] == "bad_frame"
        await peer.say("m1", "hi")
        await peer.expect("message")
    assert agent.ids == ["m1"]


async def test_a_failed_message_may_be_sent_again(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D19, D39: `internal_error` forgets the id, and tells nobody the exception's text."""
    async with open_house(agent := Unsteady()) as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        frames = await peer.receive_until("typing", stop=True)
        error = frames[-2]
        assert (error["t"], error["code"], error["id"]) == ("error", "internal_error", "m1")
        assert error["fatal"] is False
        await peer.say("m1", "hi")
        assert (await peer.expect("message"))["text"] == "noted"
    assert agent.ids == ["m1", "m1"]
    assert "private reason" not in str([*frames, *logs])


# The queue


async def test_messages_wait_in_their_order(autojump_clock: MockClock) -> None:
    """D20: one turn at a time, and those waiting beyond the bound are refused by their id."""
    async with open_house(agent := Worker(), queue_messages=2) as house:
        peer = await house.connect()
        await peer.say("m1", "runs")
        await trio.testing.wait_all_tasks_blocked()
        for message in ("m2", "m3"):
            await peer.say(message, "waits")
        await peer.say("m4", "too many")
        error = await peer.expect("error")
        assert (error["code"], error["fatal"], error["id"]) == ("internal_error", False, "m4")
        assert error["message"].endswith("resend later")
        assert agent.ids == ["m1"]
        agent.released.set()
        for _ in range(3):
            await peer.expect("message")
        await peer.say("m4", "again")
        await peer.expect("message")
    assert agent.ids == ["m1", "m2", "m3", "m4"]


async def test_32_messages_may_wait(autojump_clock: MockClock) -> None:
    """D20: the default bound."""
    async with open_house(Worker()) as house:
        peer = await house.connect()
        await peer.say("m0", "runs")
        await trio.testing.wait_all_tasks_blocked()
        for number in range(1, 33):
            await peer.say(f"m{number}", "waits")
        assert [frame["t"] for frame in await peer.drain()] == ["avatar", "typing"]
        frame = {"t": "text", "id": "m33", "text": "too many"}
        assert await peer.refusal(frame) == ("internal_error", False, "m33")


async def test_the_queue_is_bounded_in_bytes(autojump_clock: MockClock) -> None:
    """D20: two recordings of 8 MiB may wait, a text beside them not, for another device it may."""
    recording = base64.b64encode(bytes(8 * MIB - 128)).decode()
    async with open_house(agent := Worker()) as house:
        peer, other = await house.connect(), await house.connect("tablet")
        await peer.say("m1", "runs")
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(audio("m2", recording))
        await peer.send(audio("m3", recording))
        frame = {"t": "text", "id": "m4", "text": "x" * 100}
        assert await peer.refusal(frame) == ("internal_error", False, "m4")
        await other.say("m1", "runs")
        await trio.testing.wait_all_tasks_blocked()
        agent.released.set()
        await peer.receive_until("typing", stop=True)
        await peer.send(frame)
        assert "error" not in [each["t"] for each in await peer.drain()]
    assert agent.ids == ["m1", "m1", "m2", "m3", "m4"]


async def test_a_concurrent_agent_has_the_same_bound(autojump_clock: MockClock) -> None:
    """D20: what it works on at a time is bounded as a queue is."""
    async with open_house(agent := ConcurrentWorker(), queue_messages=2) as house:
        peer = await house.connect()
        for message in ("m1", "m2"):
            await peer.say(message, "runs")
        frame = {"t": "text", "id": "m3", "text": "too many"}
        assert await peer.refusal(frame) == ("internal_error", False, "m3")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(agent.ids) == ["m1", "m2"]
        agent.released.set()
        await peer.expect("typing", stop=True)
        await peer.send(frame)
        await peer.expect("message")
