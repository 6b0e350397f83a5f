"""MOBILE_MESSAGE_RATE, through real connections."""

from __future__ import annotations

import trio

from cast import Recorder
from house import audio, chunk, open_house


async def test_beyond_the_rate_a_message_is_refused(autojump_clock):
    """It is told when to resend, not recorded (D19), and then taken."""
    async with open_house(agent := Recorder(), message_rate=2) as house:
        peer = await house.connect()
        for id_ in ("m1", "m2"):
            await peer.say(id_, "hello")
            await peer.expect("message")
        await peer.say("m3", "hello")
        error = await peer.expect("error")
        assert (error["code"], error["fatal"], error["id"]) == ("internal_error", False, "m3")
        assert error["message"] == "at most 2 messages a minute: resend in 30 s"
        await trio.sleep(30)
        await peer.say("m3", "hello")
        await peer.expect("message")
    assert agent.ids == ["m1", "m2", "m3"]


async def test_files_and_recordings_count_once(autojump_clock):
    """A file of many chunks is one message; one that is refused is not written anywhere."""
    async with open_house(agent := Recorder(), message_rate=2) as house:
        peer = await house.connect()
        await peer.send(chunk("f1", b"a", 0, 2))
        await peer.send(chunk("f1", b"b", 1, 2))
        await peer.expect("message")
        await peer.send(audio("m1", "T2dnUw=="))
        await peer.expect("message")
        assert (await peer.refusal(chunk("f2", b"a")))[2] == "f2"
        assert (await peer.refusal(audio("m2", "T2dnUw==")))[2] == "m2"
    assert agent.ids == ["f1", "m1"]


async def test_a_repeat_and_a_refusal_cost_nothing(autojump_clock):
    """D19, D20: what the agent does not get does not count."""
    async with open_house(agent := Recorder(), message_rate=2) as house:
        peer = await house.connect()
        for _ in range(5):
            await peer.say("m1", "hello")
        await peer.expect("message")
        await peer.refusal({"t": "text", "id": "m2", "text": " "})
        await peer.say("m2", "hello")
        await peer.expect("message")
    assert agent.ids == ["m1", "m2"]


async def test_stop_and_answers_are_never_limited(autojump_clock):
    """D21, D22, D27: an answer by option, an answer in words, and `/stop` get through."""
    async with open_house(message_rate=1, ping_interval=1000.0) as house:
        peer = await house.connect()
        await peer.say("m1", "/ask Which?")
        await peer.expect("prompt")
        await peer.say("m2", "in words")
        assert (await peer.expect("prompt_done"))["option_id"] == "other"
        await peer.expect("message")
        await trio.sleep(60)
        await peer.say("m3", "/run make")
        card = await peer.expect("prompt")
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
        assert (await peer.expect("prompt_done"))["option_id"] == "once"
        await peer.expect("message")
        for id_ in ("m4", "m5"):
            await peer.say(id_, "/stop")
            assert (await peer.expect("message"))["text"] == "Nothing to stop."


async def test_a_new_connection_is_no_way_around(autojump_clock):
    """The rate is the device's; another device has its own."""
    async with open_house(message_rate=1) as house:
        peer = await house.connect("phone")
        await peer.say("m1", "hello")
        await peer.expect("message")
        await house.lose(peer)
        again, other = await house.connect("phone"), await house.connect("tablet")
        text = {"t": "text", "id": "m2", "text": "hello"}
        assert await again.refusal(text) == ("internal_error", False, "m2")
        await other.send(text)
        await other.expect("message")
