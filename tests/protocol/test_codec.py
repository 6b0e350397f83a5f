"""What the codec promises for any input at all; single frames stand in `tests/vectors`."""

import json
from collections.abc import Callable

import orjson
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.codec import clean_filename, decode, decode_hello, encode
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.protocol.frames import (
    Ack,
    Audio,
    Avatar,
    AvatarState,
    ClientFrame,
    Deliver,
    Device,
    Error,
    Hello,
    MediaChunk,
    MediaOut,
    MediaPart,
    Message,
    Option,
    Ping,
    Pong,
    PromptAnswer,
    PromptCard,
    Text,
    Typing,
)
from hermes_mobile.protocol.limits import (
    MAX_AUDIO_BYTES,
    MAX_FILENAME_CHARS,
    MAX_HELLO_BYTES,
    MAX_ID_CHARS,
    MAX_TEXT_CHARS,
)

# Half of what is tried has the protocol's words in it, so that it gets past the first check.
TYPES = st.sampled_from(
    ["hello", "text", "audio", "media", "prompt", "typing", "ping", "ack", "deliver", "TEXT ", "x"]
)
VALUES = st.sampled_from(["wav", "image", "mobile:", "mobile:a", "once", "", " ", "QUJD", "Q UJD"])
NAMES = st.sampled_from(
    ["id", "text", "token", "device", "user", "receipts", "format", "data", "kind", "mime", "keep"]
) | st.sampled_from(
    ["part", "parts", "filename", "caption", "prompt_id", "option_id", "ts", "target", "media"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | VALUES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | NAMES, inner),
    max_leaves=8,
)
FRAMES = st.builds(
    lambda t, fields: {"t": t} | fields, TYPES | JSON, st.dictionaries(NAMES, JSON | VALUES)
)
ANY_TEXT = st.text(st.characters())  # lone surrogates too


def wire(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def refusal(data: str | bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode(data)
    return caught.value


def outcome(read: Callable[[str | bytes], ClientFrame], data: str | bytes) -> object:
    try:
        return read(data)
    except ProtocolError as refused:
        return refused


class TestAnyInput:
    @given(st.binary() | ANY_TEXT)
    def test_bytes_and_strings(self, data: str | bytes) -> None:
        """Whatever arrives is a frame or a refusal that leaves the connection alone (D2)."""
        match outcome(decode, data):
            case ProtocolError() as refused:
                assert not refused.fatal

    @given(JSON | FRAMES)
    def test_json_values(self, value: object) -> None:
        """Any JSON value is a frame, or is refused in one plain line for one of three reasons."""
        match outcome(decode, json.dumps(value)):
            case ProtocolError() as refused:
                assert not refused.fatal
                assert refused.message.isprintable()
                assert refused.code in {"bad_frame", "too_big", "unsupported_frame"}

    @given(st.binary() | ANY_TEXT | FRAMES.map(json.dumps))
    def test_first_frames(self, data: str | bytes) -> None:
        """A first frame is a hello, or a fatal `bad_frame` (D6)."""
        match outcome(decode_hello, data):
            case ProtocolError() as refused:
                assert (refused.code, refused.fatal) == ("bad_frame", True)
            case frame:
                assert isinstance(frame, Hello)

    @given(FRAMES)
    def test_text_and_bytes_are_one(self, value: object) -> None:
        """A binary message with the same JSON is the same frame, or the same refusal (D2)."""
        text = json.dumps(value)
        match outcome(decode, text), outcome(decode, text.encode()):
            case ProtocolError() as one, ProtocolError() as other:
                assert (one.code, one.message, one.id) == (other.code, other.message, other.id)
            case one, other:
                assert one == other

    @pytest.mark.parametrize("nesting", [255, 1_024, 100_000])
    def test_deep_nesting(self, nesting: int) -> None:
        """Nesting beyond the parser, or beyond what can be echoed, is `bad_frame` (D2, D24)."""
        deep = "[" * nesting + "]" * nesting
        assert refusal(f'{{"t":"ping","ts":{deep}}}').code is ErrorCode.BAD_FRAME


class TestIdentifiers:
    @given(st.text() | st.integers(-(2**53), 2**53))
    def test_an_identifier_is_stable(self, value: str | int) -> None:
        """What an id became is left alone when it is read again: acks and retries agree (D12)."""
        match outcome(decode, wire(t="ack", id=value)):
            case Ack(id) as first:
                assert len(id) <= MAX_ID_CHARS
                assert decode(wire(t="ack", id=id)) == first

    @given(st.text(min_size=1) | st.text(min_size=110), st.sampled_from(["", " ", "\n"]))
    def test_an_address_finds_its_device(self, name: str, before: str) -> None:
        """`mobile:<id>` names the device that said hello with that id, cut or not (D12, D25)."""
        match outcome(decode_hello, wire(t="hello", token="x", device={"id": name})):
            case Hello(device=Device(id)) if id:
                delivery = wire(t="deliver", id="d", text="x", target=f"{before}mobile:{id}")
                assert decode(delivery).target == id

    def test_the_id_is_echoed_where_it_is_valid(self) -> None:
        """A refusal carries the frame's id as the server understands it, else none (D25)."""
        assert refusal(wire(t="text", id=" m1 ")).id == "m1"
        assert refusal(wire(t="text", id=7)).id == "7"
        assert refusal(wire(t=None, id="m1")).id == "m1"
        assert refusal(wire(t="text", id=[], text="x")).id is None
        assert refusal(wire(t="text", id="a\x00b", text="x")).id is None


class TestFilenames:
    @given(st.text())
    def test_a_clean_name_is_harmless_and_stable(self, name: str) -> None:
        """No directory, no control character, no leading dot, at most 200, twice the same (D18)."""
        clean = clean_filename(name)
        assert len(clean) <= MAX_FILENAME_CHARS
        assert not clean.startswith(".")
        assert not set(clean) & {"/", "\\", *map(chr, range(32)), *map(chr, range(127, 160))}
        assert clean_filename(clean) == clean

    @pytest.mark.parametrize(
        ("name", "clean"),
        [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\me\\photo.jpg", "photo.jpg"),
            (".bashrc", "bashrc"),
            (" ..\x00. hidden", "hidden"),
            ("a\nb.txt", "ab.txt"),
            ("folder/", ""),
            ("..", ""),
            ("d" * 300 + "/kept.txt", "kept.txt"),
            ("x" * 300, "x" * 200),
        ],
    )
    def test_examples(self, name: str, clean: str) -> None:
        """Each kind of name that could do harm, and one that does none (D18)."""
        assert clean_filename(name) == clean


class TestBase64:
    @given(st.binary(min_size=1), st.data())
    def test_white_space_is_tolerated_anywhere(self, data: bytes, draw: st.DataObject) -> None:
        """Lines may be wrapped, as Android's encoder does (D16)."""
        encoded = pybase64.b64encode_as_string(data)
        spots = st.lists(st.integers(0, len(encoded)), max_size=5)
        for spot in sorted(draw.draw(spots), reverse=True):
            encoded = encoded[:spot] + draw.draw(st.sampled_from(" \r\n\t")) + encoded[spot:]
        frame = decode(wire(t="audio", id="a", format="wav", data=encoded))
        assert isinstance(frame, Audio)
        assert frame.data == data

    @given(st.binary(min_size=1).filter(lambda data: len(data) % 3))
    def test_padding_is_required(self, data: bytes) -> None:
        """Without its padding a payload may be half of something (D16)."""
        encoded = pybase64.b64encode_as_string(data).rstrip("=")
        frame = wire(t="audio", id="a", format="wav", data=encoded)
        assert refusal(frame).code is ErrorCode.BAD_FRAME

    @pytest.mark.parametrize(("excess", "code"), [(0, None), (1, "too_big"), (2, "too_big")])
    def test_the_limit_is_exact(self, excess: int, code: str | None) -> None:
        """8 MiB are taken, one byte more is not, wrapped lines or none (D16)."""
        encoded = pybase64.b64encode_as_string(bytes(MAX_AUDIO_BYTES + excess))
        for data in (encoded, encoded + "\n" * 1_000):
            frame = wire(t="audio", id="a", format="wav", data=data)
            if code is None:
                assert len(decode(frame).data) == MAX_AUDIO_BYTES
            else:
                assert refusal(frame).code == code


class TestLengths:
    def test_characters_are_code_points(self) -> None:
        """12,000 emoji are a text, whatever their bytes; one more is `too_big` (D15)."""
        assert decode(wire(t="text", id="m", text="🙂" * MAX_TEXT_CHARS)) == Text(
            "m", "🙂" * MAX_TEXT_CHARS
        )
        error = refusal(wire(t="text", id="m", text="🙂" * (MAX_TEXT_CHARS + 1)))
        assert (error.code, error.message) == ("too_big", "text: at most 12000 characters")

    @pytest.mark.parametrize("data", ["é", "x"])
    def test_the_first_frame_counts_bytes(self, data: str) -> None:
        """A hello of 64 KiB is read; a byte more, in a string or in bytes, is not (D6)."""
        room = MAX_HELLO_BYTES - len('{"t":"hello","token":""}')
        token = data * (room // len(data.encode()))
        fits = json.dumps({"t": "hello", "token": token}, ensure_ascii=False, separators=(",", ":"))
        assert decode_hello(fits).token == token
        for too_long in (fits + "  ", fits.encode() + b"  "):
            with pytest.raises(ProtocolError) as caught:
                decode_hello(too_long)
            assert (caught.value.code, caught.value.fatal) == ("too_big", True)

    def test_a_lone_surrogate_in_the_first_frame(self) -> None:
        """Even a string that UTF-8 cannot write is refused in order (D6)."""
        with pytest.raises(ProtocolError, match="not JSON"):
            decode_hello('{"t":"hello","token":"\ud800"}')


class TestSecrets:
    def test_what_was_said_stays_out_of_reprs(self) -> None:
        """A frame in a log or a traceback shows no token, text, name or payload (D39)."""
        secret = "s3cret"
        encoded = pybase64.b64encode_as_string(secret.encode())
        frames = [
            decode(wire(t="hello", token=secret)),
            decode(wire(t="text", id="1", text=secret)),
            decode(wire(t="audio", id="1", format="ogg", data=encoded, text=secret)),
            decode(wire(t="media", id="1", kind="x", data=encoded, filename=secret)),
            decode(wire(t="prompt", prompt_id="1", text=secret)),
            decode(wire(t="deliver", id="1", text=secret)),
        ]
        assert not [frame for frame in frames if secret in repr(frame)]


class TestEncoding:
    @given(st.integers(-(2**53), 2**53) | st.text(max_size=50) | st.booleans() | st.none())
    def test_a_ping_is_echoed(self, ts: object) -> None:
        """`pong.ts` is the value of `ping.ts`, null included; without one there is none (D24)."""
        ping = decode(wire(t="ping", ts=ts))
        assert isinstance(ping, Ping)
        assert orjson.loads(encode(Pong(ping.ts))) == {"t": "pong", "ts": ts}
        assert encode(Pong(decode(wire(t="ping")).ts)) == b'{"t":"pong"}'

    @given(ANY_TEXT)
    def test_any_text_can_be_sent(self, text: str) -> None:
        """A lone surrogate is replaced by U+FFFD, and everything else arrives as it was."""
        sent = orjson.loads(encode(Message("m", text)))["text"]
        replaced = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert sent == replaced
        assert len(sent) <= len(text)

    def test_surrogates_in_every_corner(self) -> None:
        """Cards, files and errors survive them too, also inside their lists."""
        bad = "\ud800"
        card = PromptCard(bad, "clarify", bad, (Option("c0", bad),), bad, 300, bad, bad)
        assert orjson.loads(encode(card))["options"] == [
            {"id": "c0", "label": "\ufffd", "style": ""}
        ]
        part = MediaPart("f", MediaOut.IMAGE, "m", bad, 1, data=b"x", url=bad, caption=bad)
        assert orjson.loads(encode(part))["filename"] == "\ufffd"
        assert orjson.loads(encode(Error("internal_error", bad)))["message"] == "\ufffd"

    @given(st.binary(), st.booleans(), st.sampled_from(["", "m1"]), st.sampled_from(["", "u:"]))
    def test_a_chunk_arrives(self, data: bytes, view: bool, reply_to: str, url: str) -> None:
        """A chunk's bytes are the same on the other side, from bytes or from a view of a file."""
        chunk = memoryview(data) if view else data
        part = MediaPart(
            "f", MediaOut.IMAGE, "image/png", "a.png", 9, data=chunk, url=url, reply_to=reply_to
        )
        sent = orjson.loads(encode(part))
        assert pybase64.b64decode(sent["data"], validate=True) == data
        assert (sent.get("url", ""), sent.get("reply_to", "")) == (url, reply_to)

    def test_a_link_needs_no_data(self) -> None:
        """A file behind a `url` goes as one frame without `data` (D31)."""
        part = MediaPart("f", MediaOut.VIDEO, "video/mp4", "a.mp4", 9, url="https://x/a.mp4")
        assert "data" not in orjson.loads(encode(part))

    def test_constant_frames_are_encoded_once(self) -> None:
        """Avatar and typing frames are the same bytes each time."""
        for frame in [*map(Avatar, AvatarState), Typing(), Typing(stop=True)]:
            assert encode(frame) is encode(frame)


def test_a_second_hello_is_read() -> None:
    """A hello after the first frame is a `Hello`: the server refuses it, not the codec (D6)."""
    assert isinstance(decode(wire(t="hello", token="x")), Hello)


def test_shape_only() -> None:
    """Kinds, options and targets are judged by those who know them (D17, D21, D25)."""
    assert decode(wire(t="media", id="f", kind=" NEW ", data="QQ==")) == MediaChunk(
        "f", "new", b"A"
    )
    assert decode(wire(t="prompt", prompt_id=1, option_id=" ONCE ")) == PromptAnswer("1", "once")
    assert decode(wire(t="deliver", id=1, text="x", keep=True)) == Deliver("1", "", "x", keep=True)
