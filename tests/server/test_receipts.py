"""Receipts, through real connections: only when asked for, for what was taken, for what arrived (D38)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from cast import Recorder
from house import House, Peer, attachment, audio, chunk, delivery, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock

CRON = "cron-token"


async def asking(house: House, device: str = "phone") -> Peer:
    """A device that asked for receipts."""
    return await house.connect(device, receipts=True)


def accepted(id: str) -> dict[str, Any]:
    return {"t": "accepted", "id": id}


def delivered(id: str, device: str = "phone") -> dict[str, Any]:
    return {"t": "delivered", "id": id, "device": device}


def receipts(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in frames if each["t"] in {"accepted", "delivered"}]


async def test_receipts_are_announced(autojump_clock: MockClock) -> None:
    """D38: `ready.capabilities.receipts` is there for who asked, and for nobody else."""
    async with open_house() as house:
        assert (await asking(house)).ready["capabilities"]["receipts"] is True
        for hello in ({}, {"receipts": False}, {"receipts": None}):
            peer = await house.connect("tablet", **hello)
            assert "receipts" not in peer.ready["capabilities"]


@pytest.mark.parametrize("value", [1, "true", [], {}])
async def test_receipts_are_a_boolean(autojump_clock: MockClock, value: Any) -> None:
    """D12, D38: anything else is a broken hello."""
    async with open_house() as house:
        peer = await house.connect("phone", receipts=value)
    assert (peer.ready["code"], peer.ready["fatal"]) == ("bad_frame", True)


async def test_nothing_changes_for_who_did_not_ask(autojump_clock: MockClock) -> None:
    """D38: neither a message, nor a repeat, nor a delivery has a receipt."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        await peer.say("m1", "hi")
        await peer.send(delivery("d1"))
        frames = await peer.receive_for(10.0)
    assert receipts(frames) == []
    assert {each["text"] for each in frames if each["t"] == "message"} == {"hi", "text of d1"}


async def test_every_kind_of_message_is_accepted(autojump_clock: MockClock) -> None:
    """D38: before anything that comes of it; a file once, when it is whole."""
    async with open_house(Recorder()) as house:
        peer = await asking(house)
        for frame in (
            {"t": "text", "id": "m1", "text": "hi"},
            audio("m2", "T2dnUw=="),
            chunk("m3", b"whole"),
        ):
            await peer.send(frame)
            frames = await peer.receive_until("typing", stop=True)
            assert frames[0] == accepted(frame["id"])
            assert receipts(frames) == [accepted(frame["id"])]
        for part in (2, 0):
            await peer.send(chunk("m4", b"part", part, 3))
        assert await peer.drain() == []
        await peer.send(chunk("m4", b"part", 1, 3))
        assert receipts(await peer.receive_until("message")) == [accepted("m4")]


async def test_an_answer_is_accepted_by_its_card(autojump_clock: MockClock) -> None:
    """D38: the first answer, one that comes too late, and one to a card that is no more."""
    async with open_house() as house:
        peer = await asking(house)
        await peer.say("m1", "/run ls")
        card = await peer.expect("prompt")
        for option in ("once", "deny"):
            await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": option})
            frames = await peer.receive_until("prompt_done", option_id="once")
            assert receipts(frames) == [accepted(card["id"])]
        await peer.send({"t": "prompt", "prompt_id": "never", "option_id": "once"})
        frames = await peer.receive_until("prompt_done", expired=True)
        assert receipts(frames) == [accepted("never")]


async def test_stop_and_words_for_a_card_are_accepted(autojump_clock: MockClock) -> None:
    """D22, D27, D38: a text is accepted whatever becomes of it, and so is its repeat."""
    async with open_house() as house:
        peer = await asking(house)
        await peer.say("m1", "/ask What is your name?")
        await peer.expect("prompt")
        for _ in range(2):
            await peer.say("m2", "Ada")
        assert receipts(await peer.receive_for(1.0)) == [accepted("m2")] * 2
        for _ in range(2):
            await peer.say("s1", "/stop")
        frames = await peer.drain()
        assert receipts(frames) == [accepted("s1")] * 2
        assert [each["text"] for each in frames if each["t"] == "message"] == ["Nothing to stop."]


async def test_a_repeat_is_accepted_again(autojump_clock: MockClock) -> None:
    """D19, D38: also on the next connection, and the agent has the message once."""
    frames = [{"t": "text", "id": "m1", "text": "hi"}, audio("m2", "T2dnUw=="), chunk("m3", b"a")]
    async with open_house(agent := Recorder()) as house:
        for _ in range(3):
            peer = await asking(house)
            for frame in frames:
                await peer.send(frame)
            seen = receipts(await peer.receive_for(1.0))
            assert seen == [accepted("m1"), accepted("m2"), accepted("m3")]
    assert agent.ids == ["m1", "m2", "m3"]


async def test_the_repeat_of_a_file_is_accepted_once(autojump_clock: MockClock) -> None:
    """D19, D38: not with its first chunk, which would make a client stop half-way."""
    async with open_house(agent := Recorder()) as house:
        peer = await asking(house)
        for _ in range(2):
            await peer.send(chunk("f1", b"a", 0, 2))
            assert receipts(await peer.drain()) == []
            await peer.send(chunk("f1", b"b", 1, 2))
            assert receipts(await peer.receive_for(1.0)) == [accepted("f1")]
    assert agent.ids == ["f1"]


async def test_what_is_refused_has_no_receipt(autojump_clock: MockClock) -> None:
    """D38: nor have signs that are no messages."""
    async with open_house() as house:
        peer = await asking(house)
        for frame in (
            {"t": "text", "id": "m1", "text": " "},
            audio("m2", "!"),
            chunk("m3", b"a", kind="unknown"),
            {"t": "prompt", "prompt_id": "p1"},
            delivery("d1", "nobody"),
            {"t": "hello", "id": "m4"},
        ):
            await peer.send(frame)
        for frame in ({"t": "typing"}, {"t": "ack", "id": "m5"}, {"t": "later", "id": "m6"}):
            await peer.send(frame)
        frames = await peer.drain()
    assert {each["t"] for each in frames} == {"error"}
    assert len(frames) == 6


async def test_a_foreign_answer_has_no_receipt(autojump_clock: MockClock) -> None:
    """D21, D38: `forbidden` is all."""
    async with open_house() as house:
        phone, tablet = await asking(house), await asking(house, "tablet")
        await phone.say("m1", "/run ls")
        card = await phone.expect("prompt")
        await tablet.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
        assert [each["t"] for each in await tablet.drain()] == ["error"]


async def test_a_failed_message_was_accepted_and_is_again(autojump_clock: MockClock) -> None:
    """D19, D38: the error takes it back, and the repeat is taken anew."""
    async with open_house() as house:
        peer = await asking(house)
        for _ in range(2):
            await peer.say("m1", "/fail")
            frames = await peer.receive_until("error", id="m1")
            assert receipts(frames) == [accepted("m1")]


async def test_a_delivery_is_delivered_when_it_is_confirmed(autojump_clock: MockClock) -> None:
    """D32, D38: accepted once it is written, delivered with the pong 1 s after the last write."""
    async with open_house(deliver_tokens=frozenset({CRON})) as house:
        phone = await house.connect("phone")
        cron = await house.connect(None, token=CRON, receipts=True)
        await cron.send(delivery("d1", media=attachment(b"data")))
        assert await cron.receive() == accepted("d1")
        assert trio.current_time() == 0.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(phone.receive_for, 5.0)
            assert await cron.receive() == delivered("d1")
            assert trio.current_time() == 1.0
            assert await cron.receive_for(4.0) == []


async def test_delivered_waits_for_the_device_that_confirms(autojump_clock: MockClock) -> None:
    """D32, D38: a device that took it and is gone confirmed nothing; the next connection does."""
    async with open_house(deliver_tokens=frozenset({CRON})) as house:
        phone = await house.connect("phone")
        phone.answers_pings = False
        cron = await house.connect(None, token=CRON, receipts=True)
        await cron.send(delivery("d1"))
        assert await cron.receive() == accepted("d1")
        await phone.receive_for(10.0)
        await phone.vanish()
        assert await cron.drain() == []
        await trio.sleep(10.0)
        phone = await house.connect("phone")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(phone.receive_for, 5.0)
            assert await cron.receive() == delivered("d1")
        assert phone.pings[0][0] == 21.0


async def test_a_kept_delivery_is_delivered_later(autojump_clock: MockClock) -> None:
    """D25, D38: accepted at once, delivered when the device came and confirmed."""
    async with open_house(deliver_tokens=frozenset({CRON}), home_device="phone") as house:
        cron = await house.connect(None, token=CRON, receipts=True)
        await cron.send(delivery("d1", None, keep=True))
        assert await cron.receive() == accepted("d1")
        await cron.receive_for(100.0)
        phone = await house.connect("phone")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(phone.receive_for, 5.0)
            assert await cron.receive() == delivered("d1")
            assert trio.current_time() == 101.0


async def test_a_delivery_that_fails_has_no_receipt(autojump_clock: MockClock) -> None:
    """D25, D38: `device_offline` is all, and the next one has its own."""
    async with open_house(deliver_tokens=frozenset({CRON})) as house:
        await house.connect("phone")
        cron = await house.connect(None, token=CRON, receipts=True)
        await cron.send(delivery("d1", "nobody"))
        await cron.send(delivery("d2"))
        frames = await cron.drain()
    assert [(each["t"], each["id"]) for each in frames] == [("error", "d1"), ("accepted", "d2")]


async def test_a_sender_that_left_is_told_nothing(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D38: a confirmation for a connection that is gone harms nobody."""
    async with open_house(deliver_tokens=frozenset({CRON})) as house:
        phone = await house.connect("phone")
        cron = await house.connect(None, token=CRON, receipts=True)
        await cron.send(delivery("d1"))
        assert await cron.receive() == accepted("d1")
        await cron.vanish()
        assert [each["id"] for each in await phone.receive_for(5.0)] == ["d1"]
        await phone.say("m1", "hi")
        assert (await phone.expect("message"))["text"] == "hi"
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
