"""What may be read from a client, header by header (D3, D32), held against wsproto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol, ParseFailed

from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.server.scanner import FrameScanner, Opcode, frame_header, server_frame
from hermes_mobile.server.stream import RECEIVE_BYTES
from house import client_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 1000
FIRST_LIMIT = 100
MAX_HEADER_BYTES = 14
HI = client_frame(Opcode.TEXT, b"hi")


class Scan:
    """What a scanner made of some bytes: how many were in order, the pongs, and how it ended."""

    def __init__(
        self, chunks: Iterable[bytes], first_limit: int = FIRST_LIMIT, limit: int = LIMIT
    ) -> None:
        self.pongs: list[bytes] = []
        scanner = FrameScanner(first_limit, limit, self.pongs.append)
        self.allowed = sum(feed_all(scanner, chunk) for chunk in chunks)
        self.violation = scanner.violation
        self.close_seen = scanner.close_seen

    def agrees_with(self, whole: Scan) -> bool:
        """Whether split bytes meant the same; only the start of a bad header may have passed."""
        return (self.pongs, self.violation, self.close_seen) == (
            whole.pongs,
            whole.violation,
            whole.close_seen,
        ) and 0 <= self.allowed - whole.allowed < MAX_HEADER_BYTES * bool(whole.violation) + 1


def feed_all(scanner: FrameScanner, data: bytes) -> int:
    """Feed `data` as the wire does: what is left over again, until nothing is taken any more."""
    allowed = 0
    while step := scanner.feed(data[allowed:]):
        allowed += step
    return allowed


def scan(*frames: bytes, first_limit: int = LIMIT) -> Scan:
    return Scan(frames, first_limit)


# Any stream, however it is split


@st.composite
def frames(draw: st.DrawFn, opcodes: Iterable[int] = (*Opcode, *Opcode, 0x3, 0xF)) -> bytes:
    """Mostly sensible frames, and every way of getting one wrong."""
    return client_frame(
        draw(st.sampled_from(list(opcodes))),
        draw(st.binary(max_size=150)),
        final=draw(st.sampled_from([True, True, True, False])),
        reserved=draw(st.sampled_from([0] * 8 + [1, 2, 4])),
        masked=draw(st.sampled_from([True] * 8 + [False])),
        mask=draw(st.binary(min_size=4, max_size=4)),
        length_bytes=draw(st.sampled_from([None] * 8 + [8])),
    )


@st.composite
def orderly_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream that breaks no rule, and the payloads of its pongs."""
    control = st.tuples(
        st.sampled_from([Opcode.PING, Opcode.PONG]),
        st.binary(max_size=125),
    )
    stream, pongs = b"", []
    for size in draw(st.lists(st.integers(0, 90), max_size=5)):
        payload = draw(st.binary(min_size=size, max_size=size))
        cuts = sorted(draw(st.lists(st.integers(0, size), max_size=3)))
        opcode = Opcode.BINARY
        for start, end in zip([0, *cuts], [*cuts, size], strict=True):
            for kind, content in draw(st.lists(control, max_size=2)):
                stream += client_frame(kind, content)
                pongs += [content] * (kind is Opcode.PONG)
            stream += client_frame(opcode, payload[start:end], final=end == size)
            opcode = Opcode.CONTINUATION
            if end == size:
                break
    return stream, pongs


def split(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@given(st.data(), st.lists(frames(), max_size=8))
def test_how_a_stream_is_split_changes_nothing(data: st.DataObject, sent: list[bytes]) -> None:
    """D3: pongs, the violation and the place where it is found are the stream's own."""
    stream = b"".join(sent)
    assert Scan(split(data.draw, stream)).agrees_with(Scan([stream]))


@given(st.lists(frames(), max_size=8))
def test_byte_by_byte_is_the_same(sent: list[bytes]) -> None:
    """D3: a peer that drips single bytes gains nothing."""
    stream = b"".join(sent)
    assert Scan(bytes([byte]) for byte in stream).agrees_with(Scan([stream]))


@given(st.data(), orderly_streams())
def test_an_orderly_stream_passes_whole(
    data: st.DataObject, orderly: tuple[bytes, list[bytes]]
) -> None:
    """D32: nothing is withheld, and every pong is seen with its payload, whatever lies around it."""
    stream, pongs = orderly
    result = Scan(split(data.draw, stream))
    assert result.violation is None
    assert result.allowed == len(stream)
    assert result.pongs == pongs


@given(st.lists(frames((0x0, 0x2, 0x2, 0x9, 0xA, 0x3)), max_size=8))
def test_what_wsproto_would_refuse_is_refused_here_first(sent: list[bytes]) -> None:
    """D3: broken framing is found before the library drops the connection without a word."""
    stream = b"".join(sent)  # binary only: UTF-8 is the library's to judge
    result = Scan([stream], 1 << 20, 1 << 20)
    assert (result.violation is CloseCode.PROTOCOL_ERROR) == wsproto_refuses(stream)
    assert not wsproto_refuses(stream[: result.allowed])


def wsproto_refuses(stream: bytes) -> bool:
    protocol = FrameProtocol(client=False, extensions=[])
    protocol.receive_bytes(stream)
    try:
        list(protocol.received_frames())
    except ParseFailed:
        return True
    return False


@given(st.binary(max_size=400))
def test_noise_is_no_trouble(noise: bytes) -> None:
    """D3: whatever comes, the scanner only counts; all of it is in order or a violation is named."""
    result = Scan([noise])
    assert (result.allowed == len(noise)) or result.violation or result.close_seen


# The limits, to the byte


@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_the_limit_is_the_last_length_that_passes(opcode: Opcode) -> None:
    """D3: 1000 bytes of 1000 pass, 1001 do not, and are refused at their header."""
    assert scan(client_frame(opcode, bytes(LIMIT))).violation is None
    refused = scan(client_frame(opcode, bytes(LIMIT + 1)))
    assert refused.violation is CloseCode.REFUSED
    assert refused.allowed == 0


def test_a_length_beyond_the_limit_is_refused_before_its_payload() -> None:
    """D3: the header is enough, not a byte of payload is waited for."""
    for length in (LIMIT + 1, 1 << 16, 1 << 40, (1 << 64) - 1):
        assert scan(client_frame(Opcode.TEXT, length=length)).violation is CloseCode.REFUSED


def test_the_first_message_has_its_own_limit() -> None:
    """D6: the limit of the first message holds for that one alone, complete or not."""
    first, later = client_frame(Opcode.TEXT, bytes(100)), client_frame(Opcode.TEXT, bytes(LIMIT))
    assert Scan([first, later, later]).violation is None
    assert Scan([client_frame(Opcode.TEXT, bytes(101))]).violation is CloseCode.REFUSED
    half = client_frame(Opcode.TEXT, bytes(60), final=False)
    rest = client_frame(Opcode.CONTINUATION, bytes(41))
    assert Scan([half, rest]).violation is CloseCode.REFUSED


def test_fragments_add_up() -> None:
    """D3: the limit is of the message, whatever its fragmentation."""
    begin = client_frame(Opcode.TEXT, bytes(500), final=False)
    assert scan(begin, client_frame(Opcode.CONTINUATION, bytes(500))).violation is None
    too_much = scan(begin, client_frame(Opcode.CONTINUATION, bytes(501)))
    assert too_much.violation is CloseCode.REFUSED
    assert too_much.allowed == len(begin)


def test_control_frames_between_fragments_do_not_count() -> None:
    """D3: pings inside a message are no part of it."""
    begin = client_frame(Opcode.TEXT, bytes(500), final=False)
    pings = [client_frame(Opcode.PING, bytes(125))] * 1000
    end = client_frame(Opcode.CONTINUATION, bytes(500))
    assert scan(begin, *pings, end, begin, end).violation is None


def test_empty_fragments_without_end_are_a_message_beyond_the_limit() -> None:
    """D3: bytes on the wire count, so headers alone use the limit and one receive buffer up."""
    begin = client_frame(Opcode.TEXT, final=False)
    endless = client_frame(Opcode.CONTINUATION, final=False) * RECEIVE_BYTES
    result = scan(begin, endless)
    assert result.violation is CloseCode.REFUSED
    allowed_frames = (LIMIT + RECEIVE_BYTES) // 6
    assert result.allowed == allowed_frames * 6


def test_headers_of_a_finished_message_are_forgotten() -> None:
    """D3: the bytes of each message count for that message alone."""
    fragments = client_frame(Opcode.CONTINUATION, final=False) * 10_000
    message = client_frame(Opcode.TEXT, final=False) + fragments + client_frame(Opcode.CONTINUATION)
    assert scan(*[message] * 5).violation is None


# Texts that stand whole


@pytest.mark.parametrize(
    ("before", "what"),
    [
        (HI[:1], "a header"),
        (HI[:5], "a mask"),
        (client_frame(Opcode.PING, length=100), "a payload"),
        (client_frame(Opcode.TEXT, b"x", final=False), "a message in fragments"),
        (client_frame(Opcode.CLOSE), "nothing: the peer has said its last"),
        (client_frame(0x3), "nothing: framing is broken"),
    ],
)
def test_a_text_stands_only_where_a_message_begins(before: bytes, what: str) -> None:
    """What looks like a text amid something else is that thing's bytes."""
    scanner = FrameScanner(LIMIT, LIMIT, lambda _: None)
    assert scanner.whole_text(HI, 0) == ("hi", len(HI))
    scanner.feed(before)
    assert scanner.whole_text(HI, 0) is None, what
    assert scanner.missing_bytes(HI[:-1], 0) == 0, what


@pytest.mark.parametrize(
    "frame",
    [
        client_frame(Opcode.TEXT, b"not masked", masked=False),
        client_frame(Opcode.TEXT, b"x", reserved=4),
        client_frame(Opcode.TEXT, b"x", final=False),
        client_frame(Opcode.BINARY, b"x"),
        client_frame(Opcode.PING, b"x"),
        client_frame(Opcode.TEXT, bytes(125), length_bytes=2),
        client_frame(Opcode.TEXT, bytes(900), length_bytes=8),
        client_frame(Opcode.TEXT, bytes(LIMIT + 1)),
        client_frame(Opcode.TEXT, b"\xc3"),
    ],
)
def test_whatever_is_not_one_plain_text_is_to_be_fed(frame: bytes) -> None:
    """Other messages, and every way of getting a text wrong: there is one judge of them."""
    scanner = FrameScanner(LIMIT, LIMIT, lambda _: None)
    assert scanner.whole_text(frame, 0) is None
    assert scanner.missing_bytes(frame, 0) == 0


def test_texts_that_stand_whole_have_the_limits_of_all_messages() -> None:
    """D3, D6: the first one its own, and also when it came in fragments."""
    longest = {size: client_frame(Opcode.TEXT, b"x" * size) for size in (FIRST_LIMIT, LIMIT)}
    scanner = FrameScanner(FIRST_LIMIT, LIMIT, lambda _: None)
    for _ in range(2):
        assert scanner.whole_text(longest[LIMIT], 0) is None
        assert scanner.missing_bytes(longest[LIMIT][:-1], 0) == 0
    assert scanner.whole_text(longest[FIRST_LIMIT], 0) is not None
    assert scanner.missing_bytes(longest[LIMIT][:-3], 0) == 3
    assert scanner.whole_text(longest[LIMIT], 0) == ("x" * LIMIT, len(longest[LIMIT]))


# Broken framing


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (client_frame(Opcode.TEXT, b"x", masked=False), "not masked"),
        (client_frame(Opcode.TEXT, b"x", reserved=4), "compressed, which is never negotiated"),
        (client_frame(Opcode.TEXT, b"x", reserved=2), "a reserved bit"),
        (client_frame(Opcode.TEXT, b"x", reserved=1), "a reserved bit"),
        (client_frame(0x3, b"x"), "an unknown data opcode"),
        (client_frame(0xB, b"x"), "an unknown control opcode"),
        (client_frame(Opcode.CONTINUATION, b"x"), "a continuation of nothing"),
        (client_frame(Opcode.PING, b"x", final=False), "a control frame in fragments"),
        (client_frame(Opcode.PONG, bytes(126)), "a control frame above 125 bytes"),
        (client_frame(Opcode.CLOSE, length=1 << 40), "a control frame of any length"),
        (client_frame(Opcode.TEXT, bytes(125), length_bytes=2), "a length in too many bytes"),
        (client_frame(Opcode.TEXT, bytes(125), length_bytes=8), "a length in too many bytes"),
        (client_frame(Opcode.TEXT, bytes(900), length_bytes=8), "a length in too many bytes"),
    ],
)
def test_broken_framing_is_a_protocol_error(frame: bytes, what: str) -> None:
    """RFC 6455: what no client may send ends the connection, and no byte after it is let through."""
    before = client_frame(Opcode.TEXT, b"in order")
    result = scan(before + frame + before)
    assert result.violation is CloseCode.PROTOCOL_ERROR, what
    assert result.allowed == len(before)


def test_a_message_inside_a_message_is_a_protocol_error() -> None:
    """RFC 6455: a new message cannot begin before the last one has ended."""
    begin = client_frame(Opcode.TEXT, b"x", final=False)
    assert scan(begin, begin).violation is CloseCode.PROTOCOL_ERROR


def test_nothing_is_followed_after_a_violation() -> None:
    """D3: once broken, a stream stays broken: later bytes are neither allowed nor looked at."""
    result = scan(client_frame(0x3), client_frame(Opcode.PONG, b"1"))
    assert result.violation is CloseCode.PROTOCOL_ERROR
    assert (result.allowed, result.pongs) == (0, [])


def test_nothing_is_followed_after_a_close() -> None:
    """RFC 6455: a Close frame is the last a peer says; what comes behind it is withheld."""
    close = client_frame(Opcode.CLOSE, b"\x03\xe8bye")
    result = scan(close + client_frame(Opcode.PING), client_frame(Opcode.PONG, b"1"))
    assert result.close_seen
    assert result.violation is None
    assert (result.allowed, result.pongs) == (len(close), [])


def test_a_close_counts_when_it_is_complete() -> None:
    """A Close frame that is cut off within is none."""
    close = client_frame(Opcode.CLOSE, b"\x03\xe8bye")
    assert not scan(close[:-1]).close_seen
    assert scan(client_frame(Opcode.CLOSE)).close_seen


# Frames of the server


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65535, 65536, 100_000])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY, Opcode.PING])
def test_server_frames_are_what_wsproto_reads(opcode: Opcode, length: int) -> None:
    """The own framing of server frames is RFC 6455's: final, unmasked, the shortest length."""
    payload = bytes(ord("a") + i % 26 for i in range(length))
    framed = server_frame(opcode, payload)
    assert framed == frame_header(opcode, length) + payload
    if opcode is Opcode.PING and length > 125:
        return
    client = FrameProtocol(client=True, extensions=[])
    client.receive_bytes(framed)
    read = list(client.received_frames())
    content = "".join(frame.payload if isinstance(frame.payload, str) else "" for frame in read)
    assert all(frame.opcode.value == opcode for frame in read)
    assert read[-1].message_finished
    if opcode is Opcode.TEXT:
        assert content == payload.decode()
    else:
        assert b"".join(frame.payload for frame in read) == payload


def test_a_crowd_of_frames_is_followed_in_turns() -> None:
    """D3: 256 frames at once, however small, so that nobody else waits long for their turn."""
    scanner = FrameScanner(LIMIT, LIMIT, print)
    pings = client_frame(Opcode.PING) * 600
    assert scanner.feed(pings) == 256 * 6
    assert feed_all(scanner, pings[256 * 6 :]) == 344 * 6
