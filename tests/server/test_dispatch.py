"""What an app may say at any time, through real connections: texts, signs, and what is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from cast import Recorder
from hermes_mobile.agents import TextInput
from house import open_house

if TYPE_CHECKING:
    from trio.testing import MockClock


# Types


async def test_a_type_is_trimmed_and_in_any_case(autojump_clock: MockClock) -> None:
    """D14: ` Text ` is `text`."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send({"t": " Text\n", "id": "m1", "text": "hi"})
        assert (await peer.expect("message"))["text"] == "hi"


@pytest.mark.parametrize(
    "broken", [{"id": "m1"}, {"t": None}, {"t": 7}, {"t": " "}, "{", "[1]", "1", b"\xff", '{"t":"']
)
async def test_a_broken_frame_costs_nothing_else(autojump_clock: MockClock, broken: Any) -> None:
    """D2, D14: no `t`, or no object, is `bad_frame`, not fatal, and the connection goes on."""
    async with open_house() as house:
        peer = await house.connect()
        assert (await peer.refusal(broken))[:2] == ("bad_frame", False)
        assert await peer.drain() == []


async def test_an_unknown_type_is_ignored(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D14: no answer, only a line for those who debug, without what the frame held."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send({"t": "from the future", "id": "m1", "text": "private"})
        assert await peer.drain() == []
    noted = [entry for entry in logs if entry["event"] == "unknown frame ignored"]
    assert [entry["log_level"] for entry in noted] == ["debug"]
    assert "private" not in str(logs)


# Texts


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "bad_frame"),
        ({"text": None}, "bad_frame"),
        ({"text": 7}, "bad_frame"),
        ({"text": ""}, "bad_frame"),
        ({"text": " \n\t"}, "bad_frame"),
        ({"text": "x" * 12_001}, "too_big"),
    ],
)
async def test_a_text_that_is_none_is_refused_by_its_id(
    autojump_clock: MockClock, fields: dict[str, Any], code: str
) -> None:
    """D15, D25: missing, no string, blank, or more than 12,000: an error that carries the id."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        assert await peer.refusal({"t": "text", "id": "m1", **fields}) == (code, False, "m1")
        assert await peer.drain() == []
    assert agent.inputs == []


async def test_a_text_without_an_id_is_refused(autojump_clock: MockClock) -> None:
    """D12, D15: an id is required, and a boolean is none."""
    async with open_house() as house:
        peer = await house.connect()
        for wrong in (None, "", True, 1.5, ["m1"], "a\0b"):
            frame = {"t": "text", "id": wrong, "text": "hi"}
            assert await peer.refusal(frame) == ("bad_frame", False, None)


async def test_a_text_reaches_the_agent_as_it_was_sent(autojump_clock: MockClock) -> None:
    """D15: untrimmed, and 12,000 code points whatever they weigh."""
    texts = ["  two spaces\n", "\N{MOBILE PHONE}" * 12_000]
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        for number, text in enumerate(texts):
            await peer.send({"t": "text", "id": number, "text": text})
            await peer.expect("message")
    assert agent.inputs == [TextInput("0", texts[0]), TextInput("1", texts[1])]


# Typing, ping, ack


async def test_typing_puts_off_idle(autojump_clock: MockClock) -> None:
    """D24: 3 s from the typing instead of from the turn's end, and no frame answers it."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        await peer.expect("typing", stop=True)
        assert await peer.receive_for(2.0) == []
        await peer.send({"t": "typing"})
        assert await peer.receive() == {"t": "avatar", "state": "idle"}
        assert trio.current_time() == 5.0
        await peer.send({"t": "typing"})
        assert await peer.receive_for(10.0) == []


async def test_typing_does_not_disturb_a_turn(autojump_clock: MockClock) -> None:
    """D24: it never changes the state by itself."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 10")
        await peer.expect("typing")
        await peer.send({"t": "typing"})
        assert await peer.receive_for(9.0) == []
        assert (await peer.receive())["text"] == "Thought for 10 s."


@pytest.mark.parametrize(
    "ts", [1722945600123, 1.5, -0.0, "a\u20ac", True, None, [], {"a": [1, None]}, "x" * 1022]
)
async def test_pong_echoes_whatever_ts_is(autojump_clock: MockClock, ts: Any) -> None:
    """D24: any JSON value, up to 1 KiB encoded."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send({"t": "ping", "ts": ts})
        assert await peer.receive() == {"t": "pong", "ts": ts}


async def test_pong_without_ts_has_none(autojump_clock: MockClock) -> None:
    """D24: an absent `ts` stays absent, one above 1 KiB is `bad_frame`."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send({"t": "ping"})
        assert await peer.receive() == {"t": "pong"}
        assert await peer.refusal({"t": "ping", "ts": "x" * 1023}) == ("bad_frame", False, None)


async def test_ack_is_taken_and_ignored(autojump_clock: MockClock) -> None:
    """D24: an `ack` for anything does nothing."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send({"t": "ack", "id": "never heard of"})
        assert await peer.drain() == []


async def test_an_app_may_speak_while_a_long_reply_is_on_its_way(autojump_clock: MockClock) -> None:
    """D32, D33: 286 pieces fill the queue, which is not the app's doing: it is answered in its turn."""
    async with open_house() as house:
        house.send_buffer = 4096
        peer = await house.connect(receipts=True)
        await peer.say("m1", "/long 1000000")
        await peer.expect("typing")
        await trio.testing.wait_all_tasks_blocked()  # now the reply is queued
        await peer.send({"t": "ping", "ts": 1})
        await peer.say("m2", "meanwhile")
        frames = await peer.receive_until("accepted", id="m2")
    assert [each for each in frames if each["t"] != "message"][-2:] == [
        {"t": "pong", "ts": 1},
        {"t": "accepted", "id": "m2"},
    ]
    assert sum(len(each["text"]) for each in frames if each["t"] == "message") == 1_000_000


async def test_an_app_that_only_speaks_is_cut_off(autojump_clock: MockClock) -> None:
    """D33: once 256 of its answers wait to be read, the connection ends with 1013."""
    async with open_house() as house:
        house.send_buffer = 4096
        peer = await house.connect()
        connection = house.hub.registry.get("phone").connection
        while connection._ending is None:
            await peer.send({"t": "ping", "ts": "x" * 1000})
            await trio.testing.wait_all_tasks_blocked()
        answers = await peer.receive_for(1.0)
    assert peer.closed == (1013, "outbox full")
    assert {each["t"] for each in answers} == {"pong"}
    assert len(answers) < 256
