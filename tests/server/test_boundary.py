"""What a peer may do to its own connection, and never to the server or to another (D2, D3, D33, D35)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.server import connection as connection_module
from hermes_mobile.server.scanner import Opcode
from hermes_mobile.server.stream import RECEIVE_BYTES
from hermes_mobile.server.wire import CLOSE_TIMEOUT
from house import Peer, client_frame, ends, faults, open_house, two_devices

if TYPE_CHECKING:
    from trio.testing import MockClock


MIB = 1 << 20
Logs = list[dict[str, Any]]


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
        connection = house.connection("rude")
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


# What would crash a server that let trio-websocket run it (D35)

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
        connection = house.connection("rude")
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
