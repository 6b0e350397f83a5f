"""What a peer may do to its own connection, and never to the server or to another (D2, D3, D33, D35)."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.agents import Agent
from hermes_mobile.server import connection as connection_module
from hermes_mobile.server.connection import DRAIN_SECONDS, Connection
from hermes_mobile.server.scanner import Opcode
from hermes_mobile.server.session import Session
from hermes_mobile.server.stream import RECEIVE_BYTES
from hermes_mobile.server.units import MessageUnit
from hermes_mobile.server.wire import CLOSE_TIMEOUT
from house import House, Peer, client_frame, open_house

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from hermes_mobile.agents import Turn

MIB = 1 << 20
Logs = list[dict[str, Any]]


@asynccontextmanager
async def two_devices(**settings: Any) -> AsyncIterator[tuple[House, Peer, Peer]]:
    """A house with a device that will be rude, and a witness, who must not notice."""
    async with open_house(**settings) as house:
        witness = await house.connect("witness")
        rude = await house.connect("rude")
        yield house, rude, witness
        await witness.say("w", "still there?")
        assert (await witness.expect("message"))["text"] == "still there?"
        assert witness.closed is None


def connection_of(house: House, device: str) -> Connection:
    [connection] = [c for c in house.hub.connections if c.record.device == device]
    return connection


def ends(logs: Logs) -> list[tuple[str, str]]:
    """Device and reason of the connections that ended."""
    return [(e["device"], e["end"]) for e in logs if e["event"] == "connection"]


def faults(logs: Logs) -> Logs:
    return [entry for entry in logs if entry["log_level"] in {"warning", "error", "critical"}]


# Frames that are none: the connection stays (D2)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe",
        b'{"t":"ping"\xff}',
        b"",
        "{",
        "[]",
        "null",
        '"ping"',
        "12",
        '{"t":"ping","ts":NaN}',
        '{"t":"ping","ts":-Infinity}',
        '{"t":"ping","ts":1e999}',
        '{"t":"ping","ts":"\\ud800"}',
        '{"t":"ping"}{"t":"ping"}',
        '\ufeff{"t":"ping"}',
        '{"t":' + "[" * 5000 + "]" * 5000 + "}",
        "[" * 100_000,
    ],
    ids=lambda data: str(data[:24]),
)
async def test_what_is_no_frame_is_a_bad_frame_and_no_more(
    autojump_clock: MockClock, data: str | bytes
) -> None:
    """D2: `bad_frame`, not fatal, and the next frame is answered as if nothing had been."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.send(data)
        error = await peer.receive()
        assert error is not None
        assert (error["t"], error["code"], error["fatal"]) == ("error", "bad_frame", False)
        await peer.send({"t": "ping", "ts": 1})
        assert await peer.receive() == {"t": "pong", "ts": 1}


@pytest.mark.parametrize("text", [False, True])
async def test_text_or_binary_is_all_the_same(autojump_clock: MockClock, text: bool) -> None:
    """D2: UTF-8 JSON is a frame, whatever kind of message carries it; the answer is text."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "\u00e9\U0001f600")
        assert (await peer.expect("message"))["text"] == "\u00e9\U0001f600"
        frame = json.dumps({"t": "ping", "ts": "\u00e9"}, ensure_ascii=False)
        await peer.send(frame if text else frame.encode())
        assert await peer.expect("pong") == {"t": "pong", "ts": "\u00e9"}


@pytest.mark.parametrize(
    "payload",
    [b'{"t":"ping"}\xff', b"\xed\xa0\x80", b"\xc0\x80", b'{"t":"ping"}\xc3'],
    ids=["no byte of UTF-8", "a surrogate", "overlong", "cut off within a character"],
)
async def test_text_that_is_not_utf8_ends_the_connection(
    autojump_clock: MockClock, payload: bytes, logs: Logs
) -> None:
    """D2: it breaks RFC 6455 itself: 1007, at once, and in our words."""
    async with two_devices() as (_, rude, _):
        await rude.stream.send_all(client_frame(Opcode.TEXT, payload))
        assert await rude.wait_closed() == (1007, "not utf-8")
        assert trio.current_time() == 0
        await rude.vanish()
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "not utf-8")]
        assert faults(logs) == []


async def test_utf8_may_be_split_anywhere(autojump_clock: MockClock) -> None:
    """D2: a character across two fragments, with a ping between its bytes, is whole."""
    async with open_house() as house:
        peer = await house.connect()
        text = '{"t":"ping","ts":"\u20ac"}'.encode()
        for cut in range(1, len(text)):
            await peer.stream.send_all(
                client_frame(Opcode.TEXT, text[:cut], final=False)
                + client_frame(Opcode.PING)
                + client_frame(Opcode.CONTINUATION, text[cut:])
            )
            assert await peer.receive() == {"t": "pong", "ts": "\u20ac"}


# Messages beyond the limit (D3)


async def refused_as_too_big(peer: Peer) -> None:
    """The error, the Close and the end come at once."""
    error = await peer.receive()
    assert error == {
        "t": "error",
        "code": "too_big",
        "message": "frame: at most 16777216 bytes",
        "fatal": True,
    }
    assert await peer.wait_closed() == (1008, "too_big")
    assert trio.current_time() == 0
    await peer.vanish()
    await wait_all_tasks_blocked()


async def test_a_frame_of_17_mib_is_refused_at_its_header(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D3: `too_big`, fatal, 1008, before a byte of its payload was sent."""
    async with two_devices() as (_, rude, _):
        await rude.stream.send_all(client_frame(Opcode.TEXT, length=17 * MIB))
        await refused_as_too_big(rude)
        assert ends(logs) == [("rude", "too_big")]
        assert faults(logs) == []


async def test_fragments_are_refused_when_their_sum_is_announced(
    autojump_clock: MockClock,
) -> None:
    """D3: a message in pieces is refused at the header of the piece that is too much."""
    async with two_devices() as (_, rude, _):
        begin = client_frame(Opcode.BINARY, bytes(MIB), mask=b"\0\0\0\0", final=False)
        await rude.stream.send_all(begin)
        await rude.stream.send_all(client_frame(Opcode.CONTINUATION, length=15 * MIB + 1))
        await refused_as_too_big(rude)


@pytest.mark.parametrize("payload", [b"", b"x"], ids=["empty", "of one byte"])
async def test_no_more_is_read_than_the_limit_and_one_receive_buffer(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, payload: bytes
) -> None:
    """D3: an endless run of fragments is cut off while it is still coming: headers are bytes too."""
    limit = 2 * RECEIVE_BYTES
    monkeypatch.setattr(connection_module, "MAX_FRAME_BYTES", limit)
    async with two_devices() as (house, rude, _):
        connection = connection_of(house, "rude")
        before = connection._stream.bytes_in
        await rude.stream.send_all(client_frame(Opcode.TEXT, final=False))
        fragments = client_frame(Opcode.CONTINUATION, payload, final=False) * 1000
        while connection._ending is None:
            await rude.stream.send_all(fragments)
            await wait_all_tasks_blocked()
        read = connection._stream.bytes_in - before
        assert limit < read <= limit + RECEIVE_BYTES + len(fragments)
        assert (await rude.expect("error"))["code"] == "too_big"
        assert await rude.wait_closed() == (1008, "too_big")


# Broken framing


@pytest.mark.parametrize(
    "frame",
    [
        client_frame(Opcode.TEXT, b"x", masked=False),
        client_frame(Opcode.TEXT, b"x", reserved=4),
        client_frame(0x3, b"x"),
        client_frame(Opcode.CONTINUATION, b"x"),
        client_frame(Opcode.PING, bytes(126)),
        client_frame(Opcode.PING, final=False),
    ],
    ids=["unmasked", "reserved bit", "opcode", "continuation", "long ping", "ping in pieces"],
)
@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
async def test_broken_framing_is_told_by_1002(
    autojump_clock: MockClock, frame: bytes, split: bool, logs: Logs
) -> None:
    """RFC 6455: a Close frame says why, however the bytes arrive; the library would just hang up."""
    async with two_devices() as (_, rude, _):
        for piece in [frame[:1], frame[1:2], frame[2:]] if split else [frame]:
            await rude.stream.send_all(piece)
            await wait_all_tasks_blocked()
        assert await rude.wait_closed() == (1002, "bad framing")
        await rude.vanish()
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "bad framing")]
        assert faults(logs) == []


# What would crash a server that lets the library run it (perf-facts, Behaviours 1)

OVERSIZE = client_frame(Opcode.TEXT, length=17 * MIB)
PING = client_frame(Opcode.PING, b"x")


@pytest.mark.parametrize(
    "segment",
    [
        OVERSIZE + bytes(1000) + PING,
        OVERSIZE + bytes(1000) + OVERSIZE,
        PING + OVERSIZE + PING * 1000,
        client_frame(Opcode.TEXT, bytes(3), final=False)
        + client_frame(Opcode.CONTINUATION, length=17 * MIB)
        + PING,
    ],
    ids=["a ping behind it", "another one", "pings around it", "within a message"],
)
async def test_an_oversize_message_with_more_behind_it_crashes_nothing(
    autojump_clock: MockClock, segment: bytes, logs: Logs
) -> None:
    """D3, D35: one answer, one end, no fault, whatever comes in the same segment."""
    async with two_devices() as (_, rude, _):
        await rude.stream.send_all(segment)
        await refused_as_too_big(rude)
        assert ends(logs) == [("rude", "too_big")]
        assert faults(logs) == []


async def test_pings_while_the_server_closes_crash_nothing(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D11, D35: a peer that goes on as if no Close had come is left after two seconds."""
    async with two_devices() as (house, rude, _):
        connection = connection_of(house, "rude")
        await house.connect("rude")
        for _ in range(19):
            await rude.stream.send_all(PING)
            await trio.sleep(CLOSE_TIMEOUT / 20)
        assert connection in house.hub.connections
        await trio.sleep(CLOSE_TIMEOUT / 20)
        await wait_all_tasks_blocked()
        assert connection not in house.hub.connections
        assert ends(logs) == [("rude", "replaced")]
        assert faults(logs) == []


@pytest.mark.parametrize(
    "behind",
    [PING, client_frame(Opcode.TEXT, b"{}"), PING * 500, OVERSIZE],
    ids=["a ping", "a frame", "many pings", "an oversize message"],
)
async def test_bytes_behind_the_peer_s_close_crash_nothing(
    autojump_clock: MockClock, behind: bytes, logs: Logs
) -> None:
    """RFC 6455: after a Close nothing counts: it is answered, once, and the connection is over."""
    async with two_devices() as (_, rude, _):
        await rude.stream.send_all(client_frame(Opcode.CLOSE, b"\x03\xe8bye") + behind)
        assert await rude.wait_closed() == (1000, "bye")
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "peer left")]
        assert faults(logs) == []


async def test_what_was_sent_before_a_close_still_counts(autojump_clock: MockClock) -> None:
    """A message and a Close in one segment: the message is the agent's, its reply is kept."""
    async with open_house() as house:
        peer = await house.connect()
        text = json.dumps({"t": "text", "id": "m1", "text": "last"}).encode()
        await peer.stream.send_all(
            client_frame(Opcode.TEXT, text) + client_frame(Opcode.CLOSE, b"\x03\xe8")
        )
        await peer.wait_closed()
        again = await house.connect()
        assert (await again.expect("message"))["text"] == "last"


# Faults of ours (D35)


async def fail(*_: object) -> None:
    raise RuntimeError("a private detail of the failure")


async def expect_internal_error(peer: Peer, logs: Logs) -> None:
    """The error, 1011, one log line with type and place, and no word of the exception's text."""
    error = await peer.expect("error")
    assert (error["code"], error["fatal"]) == ("internal_error", True)
    assert await peer.wait_closed() == (1011, "internal_error")
    await peer.vanish()
    await wait_all_tasks_blocked()
    assert ends(logs) == [("rude", "internal_error")]
    [fault] = faults(logs)
    assert (fault["event"], fault["device"]) == ("connection fault", "rude")
    assert fault["error"] == "RuntimeError"
    assert "private" not in str(logs) + str(error)


async def test_a_fault_in_the_reader_ends_its_connection_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: Logs
) -> None:
    """D35, D39: `internal_error`, 1011; the exception's text reaches neither peer nor log."""
    async with two_devices() as (_, rude, _):
        with monkeypatch.context() as patch:
            patch.setattr(connection_module, "dispatch", fail)
            await rude.send({"t": "ping"})
            await expect_internal_error(rude, logs)


async def test_a_fault_in_the_writer_ends_its_connection_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: Logs
) -> None:
    """D35: a unit that cannot be encoded takes down the connection that wanted to send it."""
    async with two_devices() as (_, rude, _):
        with monkeypatch.context() as patch:

            def fail_to_encode(*_: object) -> None:
                raise RuntimeError("a private detail of the failure")

            patch.setattr(MessageUnit, "frames", fail_to_encode)
            await rude.say("m1", "hello")
            await expect_internal_error(rude, logs)


async def test_a_fault_at_the_very_end_is_still_no_one_else_s(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: Logs
) -> None:
    """D35: even when the clean-up fails, the socket is closed and the server lives on."""
    async with two_devices() as (house, rude, _):

        def fail_to_detach(*_: object) -> None:
            raise RuntimeError("a private detail of the failure")

        with monkeypatch.context() as patch:
            patch.setattr(Session, "detach", fail_to_detach)
            await rude.stream.send_all(client_frame(Opcode.CLOSE, b"\x03\xe8"))
            await rude.wait_closed()
            await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "fault")]
        assert [entry["error"] for entry in faults(logs)] == ["RuntimeError"]
        assert len(house.hub.connections) == 1


# Peers that send and do not read (D33)


async def send_until_cut_off(house: House, peer: Peer, *frames: dict[str, Any]) -> None:
    """Send `frames` over and over, without reading what comes, until the server has enough."""
    connection = connection_of(house, "rude")
    number = 0
    while connection._ending is None:
        for frame in frames:
            number += 1
            await peer.send({**frame, "id": f"i{number}"})
        await wait_all_tasks_blocked()
        assert number < 2000


FILE = {"t": "text", "text": "/file 8000000"}
"""Asks for what fills every buffer on the way."""
PINGS = {"t": "ping", "ts": "x" * 1000}


@pytest.mark.parametrize(
    "frames",
    [
        [PINGS],
        [{"t": "text", "text": ""}],
        [{"t": "text", "text": "/stop"}],
        [{"t": "text", "text": "/think 1"}, {"t": "text", "text": "/stop"}],
    ],
    ids=["pongs", "errors", "stops", "turns that are stopped"],
)
async def test_answers_that_nobody_reads_end_the_connection_with_1013(
    autojump_clock: MockClock, frames: list[dict[str, Any]], logs: Logs
) -> None:
    """D33: the queue is bounded by ending the connection, in words if the peer reads after all."""
    async with two_devices() as (house, rude, _):
        await rude.say("f", "/file 100000")
        await send_until_cut_off(house, rude, *frames)
        assert await rude.wait_closed() == (1013, "outbox full")
        assert trio.current_time() == 0
        await rude.vanish()
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "outbox full")]
        assert faults(logs) == []


async def test_a_peer_that_still_does_not_read_is_left_after_the_drain(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D33: no Close frame can reach it behind half a frame: two seconds, and the socket is gone."""
    async with two_devices() as (house, rude, _):
        await rude.send({**FILE, "id": "f"})
        await send_until_cut_off(house, rude, PINGS)
        assert ends(logs) == []
        await trio.sleep(DRAIN_SECONDS)
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "outbox full")]
        assert trio.current_time() == DRAIN_SECONDS
        assert await rude.wait_closed() == (1006, "")


class Talker(Agent):
    """Says many small things to every message."""

    def __init__(self, replies: int = 1000) -> None:
        self.replies = replies

    async def handle(self, turn: Turn) -> None:
        for n in range(self.replies):
            await turn.reply(f"reply {n}")


async def test_a_turn_waits_for_room_and_loses_nothing(autojump_clock: MockClock) -> None:
    """D33: to a peer that does not read, an agent talks no faster than its queue allows."""
    async with open_house(Talker()) as house:
        house.send_buffer = 4096
        peer = await house.connect()
        [connection] = house.hub.connections
        await peer.say("m1", "talk")
        await trio.sleep(20)
        assert connection.outbox.frames <= 256 + len(("thinking", "typing", "speaking"))
        texts = [(await peer.expect("message"))["text"] for _ in range(1000)]
        assert texts == [f"reply {n}" for n in range(1000)]


async def test_a_slow_peer_sees_the_last_edit_and_few_before_it(
    autojump_clock: MockClock,
) -> None:
    """D29, D33: edits collapse while the link is slow; the final one is whole."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("f", "/file 1000000")
        await peer.say("m", "/stream 400")
        await trio.sleep(29)
        [connection] = house.hub.connections
        assert connection.outbox.frames < 20
        frames = await peer.receive_until("message", final=True)
        states = [frame for frame in frames if frame["t"] == "message"]
        assert len(states) <= 2
        assert len(states[-1]["text"].split()) == 400


async def test_why_it_ended_is_known_though_the_writer_is_busy(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D2, D35: a write that the end overtakes does not make a peer's own fault, or goodbye, a loss."""
    farewells = {
        "not utf-8": client_frame(Opcode.TEXT, b"\xff"),
        "peer left": client_frame(Opcode.CLOSE, b"\x03\xe8"),
    }
    async with open_house(Talker(30)) as house:
        for why, farewell in farewells.items():
            for n in range(40):
                rude = await house.connect(f"rude {n}")
                await rude.say(why, "talk")
                await rude.expect("message")
                await rude.stream.send_all(farewell)
                await rude.wait_closed()
                await rude.vanish()
            await wait_all_tasks_blocked()
            assert {end for _, end in ends(logs)} == {why}
            logs.clear()


async def test_the_first_reason_to_end_is_the_one_that_counts(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D35: a server that is told twice to stop, or a peer replaced while it goes, says one Close."""
    async with open_house() as house:
        peer = await house.connect()
        await house.stop()
        await house.stop()
        assert await peer.wait_closed() == (1001, "shutdown")
        await peer.vanish()
        await wait_all_tasks_blocked()
        assert ends(logs) == [("phone", "shutdown")]


async def test_a_replaced_connection_finishes_its_frame_and_nothing_more(
    autojump_clock: MockClock,
) -> None:
    """D11: the Close must not land inside a frame; what follows that frame is the new connection's."""
    async with open_house() as house:
        old = await house.connect()
        await old.say("m1", "/file 300000")
        await wait_all_tasks_blocked()
        new = await house.connect()
        assert (await new.expect("media"))["final"] is True
        frames = await old.receive_until("media", final=True)
        assert [frame["t"] for frame in frames] == ["avatar", "typing", "media"]
        assert await old.receive() is None
        assert old.closed == (4001, "replaced")
        assert "media" not in [frame["t"] for frame in await new.receive_for(100)]


async def test_what_a_replaced_connection_still_writes_is_the_next_one_s_to_confirm(
    autojump_clock: MockClock,
) -> None:
    """D11, D32: a reply that ends on the old connection, unseen perhaps, is said on the new one."""
    async with open_house() as house:
        house.send_buffer = 4096
        old = await house.connect()
        await old.say("m1", "/long 3500")
        await old.say("m2", "/long 3500")
        await wait_all_tasks_blocked()
        new = await house.connect()
        said = [(await new.expect("message"))["id"] for _ in range(2)]
        assert [(await old.expect("message"))["id"] for _ in range(2)] == said
        assert await old.wait_closed() == (4001, "replaced")
