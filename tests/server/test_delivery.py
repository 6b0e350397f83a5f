"""Deliveries of a service, through real connections: to whom, what, with what outcome (D25)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from wsproto.events import CloseConnection, TextMessage

from house import attachment, delivery, open_house
from station import courier, message, open_station

if TYPE_CHECKING:
    from trio.testing import MockClock

MIB = 1024 * 1024


# To whom


@pytest.mark.parametrize("target", ["mobile:phone", "phone", " mobile:phone\n", "", None])
async def test_the_target_is_an_address_or_an_id(autojump_clock: MockClock, target: Any) -> None:
    """D25: `mobile:<id>`, the bare id, or nothing for the home device."""
    async with open_station(home_device="phone") as house:
        phone = await house.connect("phone")
        await (await courier(house)).send(delivery("d1", target))
        assert await phone.receive() == message("d1")


@pytest.mark.parametrize("target", ["", None, "mobile:", 1.5, ["phone"], "a\0b"])
async def test_without_a_target_there_is_no_delivery(
    autojump_clock: MockClock, target: Any
) -> None:
    """D25: neither a target nor a home device is `bad_frame`."""
    async with open_station() as house:
        cron = await courier(house)
        assert await cron.refusal(delivery("d1", target)) == ("bad_frame", False, "d1")


async def test_a_device_that_is_not_there_is_offline(autojump_clock: MockClock) -> None:
    """D25: whether it was never seen or has left; nothing is kept of what was refused."""
    async with open_station() as house:
        cron = await courier(house)
        assert await cron.refusal(delivery("d1")) == ("device_offline", False, "d1")
        await (await house.connect("phone")).vanish()
        await trio.testing.wait_all_tasks_blocked()
        assert await cron.refusal(delivery("d2")) == ("device_offline", False, "d2")
        phone = await house.connect("phone")
        assert await phone.drain() == []


# What


async def test_text_and_file_arrive_under_one_id(autojump_clock: MockClock) -> None:
    """D25: a message, then a file, both with the id of the deliver frame, and no state changes."""
    data = bytes(range(256)) * 64
    async with open_station(media_chunk_bytes=8192) as house:
        phone = await house.connect("phone")
        cron = await courier(house)
        media = attachment(data, kind="voice", filename="../a note.ogg")
        await cron.send(delivery("d1", media=media))
        assert await cron.drain() == []
        frames = await phone.drain()
    assert frames[0] == message("d1")
    assert [(each["t"], each["id"], each["part"]) for each in frames[1:]] == [
        ("media", "d1", 0),
        ("media", "d1", 1),
    ]
    assert b"".join(base64.b64decode(each["data"]) for each in frames[1:]) == data
    assert {each["mime"] for each in frames[1:]} == {"audio/ogg"}
    assert {each["filename"] for each in frames[1:]} == {"a note.ogg"}
    assert {each["kind"] for each in frames[1:]} == {"voice"}
    assert {each["size"] for each in frames[1:]} == {len(data)}


async def test_a_long_text_arrives_in_pieces(autojump_clock: MockClock) -> None:
    """D25, D28: 12,000 characters are cut like any message."""
    text = "word " * 2_400
    async with open_station() as house:
        phone = await house.connect("phone")
        await (await courier(house)).send(delivery("d1", text=text))
        pieces = await phone.receive_until("message", final=True)
    assert len(pieces) == 4
    assert {piece["id"] for piece in pieces} == {"d1"}
    assert "".join(piece["text"] for piece in pieces) == text


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"text": ""}, "bad_frame"),
        ({"text": None, "media": None}, "bad_frame"),
        ({"text": 7}, "bad_frame"),
        ({"text": "x" * 12_001}, "too_big"),
        ({"media": []}, "bad_frame"),
        ({"media": {}}, "bad_frame"),
        ({"media": {"kind": "image"}}, "bad_frame"),
        ({"media": {"kind": "image", "data": "!"}}, "bad_frame"),
        ({"media": attachment(b"data", kind="audio")}, "unsupported_frame"),
        ({"media": attachment(bytes(8 * MIB + 1))}, "too_big"),
        ({"keep": "yes"}, "bad_frame"),
    ],
)
async def test_a_delivery_that_cannot_be_is_refused(
    autojump_clock: MockClock, fields: dict[str, Any], code: str
) -> None:
    """D25: its limits and kinds are those of what goes to an app."""
    async with open_station() as house:
        phone, cron = await house.connect("phone"), await courier(house)
        assert await cron.refusal(delivery("d1", **fields)) == (code, False, "d1")
        assert await phone.drain() == []


async def test_a_file_of_8_mib_is_delivered(autojump_clock: MockClock) -> None:
    """D25: exactly the limit, to a device that delivers to itself."""
    async with open_house() as house:
        phone = await house.connect("phone")
        await phone.send(delivery("d1", text=None, media=attachment(bytes(8 * MIB))))
        parts = await phone.receive_until("media", final=True)
    assert [part["part"] for part in parts] == [0, 1, 2]


async def test_a_delivery_touches_no_turn(autojump_clock: MockClock) -> None:
    """D25: neither avatar nor typing, inside a turn nor between turns."""
    async with open_station() as house:
        phone, cron = await house.connect("phone"), await courier(house)
        await phone.say("m1", "/think 10")
        await phone.expect("typing")
        await cron.send(delivery("d1"))
        assert await phone.receive_for(9.0) == [message("d1")]
        await phone.expect("avatar", state="idle")
        assert trio.current_time() == 13.0
        await cron.send(delivery("d2"))
        assert await phone.receive_for(9.0) == [message("d2")]


# With what outcome


async def test_pipelined_deliveries_arrive_in_order(autojump_clock: MockClock) -> None:
    """D25: 100 at once, to two devices, and the pong comes after the last outcome."""
    async with open_station() as house:
        phones = {name: await house.connect(name) for name in ("phone", "tablet")}
        cron = await courier(house)
        frames = [delivery(f"d{n}", ("phone", "tablet", "nobody")[n % 3]) for n in range(99)]
        async with trio.open_nursery() as nursery:
            for frame in (*frames, {"t": "ping", "ts": "end"}):
                nursery.start_soon(cron.send, frame)
                await trio.testing.wait_all_tasks_blocked()
            answers = await cron.receive_until("pong", ts="end")
        assert [each.get("id") for each in answers] == [f"d{n}" for n in range(2, 99, 3)] + [None]
        got = [[each["id"] for each in await peer.drain()] for peer in phones.values()]
    assert got == [[f"d{n}" for n in range(first, 99, 3)] for first in (0, 1)]


async def test_pong_waits_for_a_slow_device(autojump_clock: MockClock) -> None:
    """D25: until the delivery is written, and later deliveries to others wait behind it."""
    async with open_station() as house:
        house.send_buffer = 4096
        phone, tablet = await house.connect("phone"), await house.connect("tablet")
        house.send_buffer = None
        cron = await courier(house)
        await cron.send({"t": "ping", "ts": "before"})
        await cron.send(delivery("d1", media=attachment(bytes(MIB))))
        await cron.send(delivery("d2", "tablet"))
        await cron.send({"t": "ping", "ts": "after"})
        assert await cron.receive_for(20.0) == [{"t": "pong", "ts": "before"}]
        assert await tablet.receive_for(1.0) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(phone.receive_until, "media")
            assert await cron.receive() == {"t": "pong", "ts": "after"}
        assert trio.current_time() == 21.0
        assert await tablet.receive() == message("d2")


async def test_a_device_that_takes_nothing_is_offline_in_30_s(autojump_clock: MockClock) -> None:
    """D25, D33: the outcome comes with the write timeout, and the pong right after it."""
    async with open_station() as house:
        house.send_buffer = 4096
        await house.connect("phone")
        house.send_buffer = None
        cron = await courier(house)
        await cron.send(delivery("d1", media=attachment(bytes(MIB))))
        frames = await cron.drain()
        assert trio.current_time() == 30.0
    assert [(each["t"], each["code"], each["id"]) for each in frames] == [
        ("error", "device_offline", "d1")
    ]


async def test_a_device_that_leaves_before_all_is_written_is_offline(
    autojump_clock: MockClock,
) -> None:
    """D25: the sender is told, so the device gets nothing of it later; the text went before."""
    async with open_station() as house:
        house.send_buffer = 4096
        phone = await house.connect("phone")
        cron = await courier(house)
        await cron.send(delivery("d1", text=None, media=attachment(bytes(MIB))))
        await trio.sleep(1.0)
        await phone.vanish()
        error = await cron.receive()
        assert (error["code"], error["id"]) == ("device_offline", "d1")
        assert trio.current_time() == 1.0
        phone = await house.connect("phone")
        assert await phone.drain() == []


async def test_a_takeover_takes_the_delivery_along(autojump_clock: MockClock) -> None:
    """D11, D25: the device is there all the time, so it gets the file on its new connection."""
    async with open_station() as house:
        house.send_buffer = 4096
        await house.connect("phone")
        cron = await courier(house)
        await cron.send(delivery("d1", text=None, media=attachment(bytes(MIB))))
        await trio.sleep(1.0)
        phone = await house.connect("phone")
        assert (await phone.expect("media"))["id"] == "d1"
        assert await cron.drain() == []


async def test_an_outcome_comes_even_if_the_delivery_grew_too_old(
    autojump_clock: MockClock,
) -> None:
    """D25, D32: what a takeover finds older than may be kept is dropped, and the sender is told."""
    async with open_station(keep_seconds=5.0) as house:
        house.send_buffer = 4096
        await house.connect("phone")
        cron = await courier(house)
        await cron.send(delivery("d1", text=None, media=attachment(bytes(MIB))))
        await trio.sleep(5.0)
        phone = await house.connect("phone")
        assert [each["t"] for each in await phone.drain()] == ["error"]
        frames = await cron.drain()
        assert [(each["code"], each["id"]) for each in frames] == [("device_offline", "d1")]
        assert trio.current_time() == 5.0


async def test_what_was_written_is_the_devices(autojump_clock: MockClock) -> None:
    """D25, D32: success is the writing; unconfirmed, it comes again on the next connection."""
    async with open_station() as house:
        phone = await house.connect("phone")
        cron = await courier(house)
        await cron.send(delivery("d1"))
        assert await cron.drain() == []
        assert await phone.receive() == message("d1")
        await phone.vanish()
        phone = await house.connect("phone")
        assert await phone.receive_for(2.0) == [message("d1")]
        phone = await house.connect("phone")
        assert await phone.receive_for(2.0) == []


async def test_a_sender_that_does_not_wait_has_delivered(autojump_clock: MockClock) -> None:
    """D25: silence is success, so what was sent before a Close is delivered."""
    async with open_station() as house:
        phone = await house.connect("phone")
        cron = await courier(house)
        frames = [TextMessage(json.dumps(delivery(f"d{number}"))) for number in range(10)]
        sent = b"".join(cron.websocket.send(each) for each in (*frames, CloseConnection(1000)))
        await cron.stream.send_all(sent)
        assert await cron.wait_closed() == (1000, "")
        assert await phone.receive_for(1.0) == [message(f"d{number}") for number in range(10)]


# Kept for a device that sleeps


async def test_a_delivery_is_kept_on_request(autojump_clock: MockClock) -> None:
    """D25: for a device that is away, or was never seen: no error, the pong at once."""
    async with open_station() as house:
        await (await house.connect("phone")).vanish()
        await trio.testing.wait_all_tasks_blocked()
        cron = await courier(house)
        for target in ("phone", "tablet"):
            media = attachment(b"data", filename="a.txt")
            await cron.send(delivery("d1", target, keep=True, media=media))
            await cron.send(delivery("d2", target, keep=True))
        assert await cron.drain() == []
        await trio.sleep(3599.0)
        for target in ("phone", "tablet"):
            peer = await house.connect(target)
            frames = await peer.drain()
            assert [(each["t"], each["id"]) for each in frames] == [
                ("message", "d1"),
                ("media", "d1"),
                ("message", "d2"),
            ]


async def test_what_is_kept_too_long_is_told_as_dropped(autojump_clock: MockClock) -> None:
    """D25, D32: after an hour there is a notice with the count instead."""
    async with open_station() as house:
        cron = await courier(house)
        await cron.send(delivery("d1", keep=True))
        await cron.drain()
        await trio.sleep(3600.0)
        phone = await house.connect("phone")
        frames = await phone.drain()
    assert [(each["code"], each["fatal"]) for each in frames] == [("internal_error", False)]
    assert "1 " in frames[0]["message"]


async def test_keep_outlives_a_device_that_leaves(autojump_clock: MockClock) -> None:
    """D25: with `keep` the sender waits for nothing, and the device gets it all when it is back."""
    async with open_station() as house:
        house.send_buffer = 4096
        phone = await house.connect("phone")
        house.send_buffer = None
        cron = await courier(house)
        await cron.send(delivery("d1", text=None, keep=True, media=attachment(bytes(MIB))))
        assert await cron.drain() == []
        await phone.vanish()
        phone = await house.connect("phone")
        assert (await phone.expect("media"))["id"] == "d1"
        assert await cron.drain() == []


async def test_a_made_up_id_keeps_nothing(autojump_clock: MockClock) -> None:
    """D32: while such a device is there it can be reached, `keep` or not."""
    async with open_station() as house:
        phone = await house.connect(None)
        cron = await courier(house)
        await cron.send(delivery("d1", phone.ready["session"]))
        await cron.send(delivery("d2", phone.ready["session"], keep=True))
        assert [each["id"] for each in await phone.receive_for(0.5)] == ["d1", "d2"]
        await phone.vanish()
        await trio.testing.wait_all_tasks_blocked()
        assert list(house.hub.registry) == []


async def test_a_device_is_read_on_however_much_it_delivers(autojump_clock: MockClock) -> None:
    """D20, D25: a storm to itself waits for pongs behind it; too much is refused, none is lost."""
    async with open_house() as house:
        phone = await house.connect()
        for n in range(600):
            await phone.send(delivery(f"d{n}", text=f"{n}"))
        frames = await phone.drain()
    arrived = [int(frame["text"]) for frame in frames if frame["t"] == "message"]
    refused = [int(frame["id"][1:]) for frame in frames if frame["t"] == "error"]
    assert {frame["code"] for frame in frames if frame["t"] == "error"} == {"internal_error"}
    assert arrived == sorted(arrived)
    assert sorted(arrived + refused) == list(range(600))
    assert len(arrived) >= 256


async def test_deliveries_that_wait_are_bounded_in_bytes(autojump_clock: MockClock) -> None:
    """D25: beyond 16 MiB of a device's deliveries without an outcome, the next one is refused."""
    async with open_house(write_timeout=1000.0) as house:
        house.send_buffer = 4096
        await house.connect("tablet")  # which reads nothing
        phone = await house.connect()
        for n in range(4):
            media = attachment(bytes(6 << 20))
            await phone.send(delivery(f"d{n}", target="tablet", media=media))
        refusal = await phone.expect("error")
    assert (refusal["code"], refusal["id"]) == ("internal_error", "d2")
    assert "16777216 bytes" in refusal["message"]
