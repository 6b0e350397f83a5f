"""What a server counts: a conversation played through real connections, and its figures exactly."""

from __future__ import annotations

from typing import get_args

import pytest
from wsproto.events import Ping

from hermes_mobile.protocol import frames
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.protocol.frames import CardKind
from hermes_mobile.server.metrics import CLIENT_FRAMES, SERVER_FRAMES, Histogram, Metrics
from house import open_house


def test_every_frame_has_a_name() -> None:
    """Each class of either direction counts under a name, and no error code is one of them."""
    assert set(get_args(frames.ClientFrame)) == set(CLIENT_FRAMES)
    assert set(get_args(frames.ServerFrame)) == {*SERVER_FRAMES, frames.Error}
    assert not set(SERVER_FRAMES.values()) & set(ErrorCode)


def test_bytes_are_bytes() -> None:
    """A text message is measured as the UTF-8 that it was, a binary one as it is."""
    metrics = Metrics()
    metrics.received(frames.Text("1", "é"), '"é€𝄞"')
    metrics.received(frames.Text("2", "é"), '"é€𝄞"'.encode())
    assert metrics.bytes_in == {"text": 2 * (1 + 2 + 3 + 4 + 1)}


def test_a_bucket_includes_its_bound() -> None:
    """What lies on a bound is not above it; what lies beyond the last has a bucket of its own."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.sum == 7.0


async def test_a_conversation_is_counted_exactly(autojump_clock):
    """Hello, an echo, a long reply and a failure: each frame once, as many bytes as there were."""
    async with open_house() as house:
        metrics = house.hub.metrics
        peer = await house.connect("phone")
        await peer.say("m1", "Hello")
        await peer.receive_until("typing", stop=True)
        await peer.say("m2", "/long 7500")
        await peer.receive_until("typing", stop=True)
        await peer.say("m3", "/fail")
        await peer.receive_until("typing", stop=True)
        await peer.send('{"t": "text"')
        await peer.expect("error")
        assert metrics.frames_in == {"hello": 1, "text": 3, "invalid": 1}
        assert metrics.bytes_in["text"] == sum(
            len(f'{{"t": "text", "id": "m{n}", "text": "{text}"}}')
            for n, text in ((1, "Hello"), (2, "/long 7500"), (3, "/fail"))
        )
        assert metrics.frames_out == {
            "ready": 1,
            "avatar": 2 + 2 + 1,
            "typing": 3 * 2,
            "message": 1 + 3,
            "internal_error": 1,
            "bad_frame": 1,
        }
        assert metrics.bytes_out["typing"] == 3 * (2 + 14 + 2 + len('{"t":"typing","stop":true}'))
        assert metrics.turns == {"done": 2, "failed": 1}
        assert sum(metrics.turn_seconds.counts) == 3
        assert metrics.connections == 1
        assert metrics.units_confirmed == 0
        await peer.receive_for(5)
        assert metrics.units_confirmed == 2
        assert metrics.units_dropped == 0


async def test_what_is_counted_is_what_was_written(autojump_clock):
    """The bytes of all frames are all bytes of the socket, but for the upgrade, Close and pings."""
    async with open_house() as house:
        peer = await house.connect("phone")
        (connection,) = house.hub.connections
        before = house.hub.metrics.bytes_out.total()
        written = connection._stream.bytes_out
        for number, text in enumerate(("/image", "/stream 30", "/file 4000000")):
            await peer.say(f"m{number}", text)
            await peer.receive_until("typing", stop=True)
        pings = len(peer.pings) * len(b"\x89\x011")
        assert house.hub.metrics.bytes_out.total() - before == (
            connection._stream.bytes_out - written - pings
        )


async def test_every_refused_hello_has_a_reason(autojump_clock):
    """D4, D6, D7, D8, D37: whatever keeps a peer from being ready is counted, once."""
    async with open_house(
        throttle_failures=2, max_pending_per_address=1, hello_timeout=15.0
    ) as house:
        refusals = house.hub.metrics.hello_refusals
        await (await house.open("192.0.2.1")).wait_closed()
        assert refusals == {"timeout": 1}
        rude = await house.open("192.0.2.2")
        await rude.send("not JSON")
        await rude.wait_closed()
        assert refusals["bad_frame"] == 1
        large = await house.open("192.0.2.3")
        await large.send("x" * 70_000)
        await large.wait_closed()
        assert refusals["too_big"] == 1
        for _ in range(2):
            await house.connect("phone", token="wrong", address="192.0.2.4")
        assert refusals["auth_failed"] == 2
        await house.plug("192.0.2.4").upgrade()
        assert refusals["throttled"] == 1
        waiting = await house.open("192.0.2.5")
        await house.plug("192.0.2.5").upgrade()
        assert refusals["pending"] == 1
        await house.plug("192.0.2.6").upgrade("/elsewhere")
        assert refusals["no_websocket"] == 1
        assert waiting.closed is None
        assert refusals.total() == 8
        assert house.hub.metrics.frames_out == {"bad_frame": 2, "too_big": 1, "auth_failed": 2}
        assert house.hub.metrics.connections == 9


async def test_a_device_that_is_taken_is_a_refusal(autojump_clock):
    """D10: `forbidden` counts as such though the token was good."""
    async with open_house(extra_tokens=(), token="one") as house:
        await house.connect("phone", token="one")
        house.hub.access.owns = lambda *_: False
        await house.connect("phone", token="one")
        assert house.hub.metrics.hello_refusals == {"forbidden": 1}


async def test_a_later_end_is_no_refused_hello(autojump_clock):
    """D3: a device that was ready, and then sends too much, was not refused at the door."""
    async with open_house() as house:
        peer = await house.connect("phone")
        await peer.send("x" * ((16 << 20) + 1))
        await peer.wait_closed()
        assert house.hub.metrics.hello_refusals == {}
        assert house.hub.metrics.frames_out["too_big"] == 1


async def test_control_frames_are_no_frames(autojump_clock):
    """WebSocket pings and pongs are not the protocol's, whoever sends them."""
    async with open_house() as house:
        peer = await house.connect("phone")
        await peer.send_event(Ping(b"hello"))
        await peer.receive_for(65)
        assert len(peer.pings) == 2
        assert house.hub.metrics.frames_in == {"hello": 1}
        assert house.hub.metrics.frames_out == {"ready": 1}


@pytest.mark.parametrize(
    ("asking", "option", "counted"),
    [
        ("/run make", "always", (CardKind.EXEC_APPROVAL, "always")),
        ("/run make", "rm -rf", (CardKind.EXEC_APPROVAL, "deny")),
        ("/confirm go", "once", (CardKind.SLASH_CONFIRM, "once")),
        ("/ask who | me | you", "c1", (CardKind.CLARIFY, "choice")),
    ],
)
async def test_an_answered_card_counts_as_what_was_applied(autojump_clock, asking, option, counted):
    """D21: by kind and option, and every choice of a clarification alike."""
    async with open_house() as house:
        peer = await house.connect("phone")
        await peer.say("m1", asking)
        card = await peer.expect("prompt")
        answer = {"t": "prompt", "prompt_id": card["id"], "option_id": option}
        await peer.send(answer)
        await peer.expect("message")
        await peer.send(answer)
        await peer.expect("prompt_done")
        assert house.hub.metrics.cards == {counted: 1}


async def test_cards_that_nobody_answered(autojump_clock):
    """D22, D34: words are `other`, time makes `expired`, and a turn that ends `withdrawn`."""
    async with open_house() as house:
        peer = await house.connect("phone")
        await peer.say("m1", "/ask who")
        await peer.expect("prompt")
        await peer.say("m2", "me")
        await peer.expect("message")
        await peer.say("m3", "/ask who | me")
        await peer.expect("prompt_done", expired=True)
        await peer.say("m4", "/run make")
        await peer.expect("prompt")
        await peer.say("m5", "/stop")
        await peer.expect("prompt_done", expired=True)
        assert house.hub.metrics.cards == {
            (CardKind.CLARIFY, "other"): 1,
            (CardKind.CLARIFY, "expired"): 1,
            (CardKind.EXEC_APPROVAL, "withdrawn"): 1,
        }


async def test_turns_end_in_one_of_four_ways(autojump_clock):
    """D27, D35: done, failed, stopped by the person, cut by the shutdown; each with its seconds."""
    async with open_house(shutdown_grace=5.0) as house:
        metrics = house.hub.metrics
        peer = await house.connect("phone")
        for number, text in enumerate(("/think 2", "/fail")):
            await peer.say(f"m{number}", text)
            await peer.receive_until("typing", stop=True)
        await peer.say("m2", "/think 1000")
        await peer.receive_for(7)
        await peer.say("m3", "/stop")
        await peer.receive_until("typing", stop=True)
        await peer.say("m4", "/think 1000")
        await peer.expect("typing")
        await house.stop()
        assert metrics.turns == {"done": 1, "failed": 1, "stopped": 1, "cut": 1}
        assert metrics.turn_seconds.sum == pytest.approx(2 + 0 + 7 + 5, abs=1e-6)


async def test_uploads_are_counted_whole(autojump_clock):
    """D17: a file of many chunks is one upload; a refused one is one too, with no bytes."""
    async with open_house() as house:
        metrics = house.hub.metrics
        peer = await house.connect("phone")
        await peer.send_file("f1", bytes(5_000_000))
        await peer.expect("message")
        await peer.send_file("f2", b"x", kind="hologram")
        await peer.expect("error", code="unsupported_frame")
        assert (metrics.uploads_completed, metrics.uploads_refused) == (1, 1)
        assert metrics.upload_bytes == 5_000_000


async def test_units_that_could_not_be_kept_are_counted(autojump_clock):
    """D32: what a device is told to have lost, the operator can see, and the notice itself too."""
    async with open_house(keep_units=3) as house:
        metrics = house.hub.metrics
        peer = await house.connect("phone")
        await peer.vanish()
        conversation = house.hub.conversation("phone")
        for number in range(5):
            await conversation.reply(f"{number}")
        assert metrics.units_dropped == 2
        peer = await house.connect("phone")
        await peer.expect("error", code="internal_error")
        await peer.receive_for(5)
        assert metrics.units_confirmed == 3 + 1
        assert metrics.units_dropped == 2
        assert metrics.frames_out["internal_error"] == 1
