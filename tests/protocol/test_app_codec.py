"""The app's side of the wire: what it writes is what the server reads, and the other way round."""

import json
import re
from pathlib import Path
from typing import Any

import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.conformance.vectors import read, spell_out
from hermes_mobile.protocol import app_codec, codec, frames
from hermes_mobile.protocol.app_codec import Capabilities, Ready
from hermes_mobile.protocol.frames import (
    Ack,
    Audio,
    AudioFormat,
    Avatar,
    AvatarState,
    CardKind,
    Deliver,
    DeliverMedia,
    Device,
    Error,
    Hello,
    MediaChunk,
    MediaIn,
    MediaOut,
    MediaPart,
    Message,
    Option,
    Ping,
    Pong,
    PromptAnswer,
    PromptCard,
    Text,
    Unknown,
    User,
    UserTyping,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text()

TO_APP = {
    "message": frames.Message,
    "media": frames.MediaPart,
    "prompt": frames.PromptCard,
    "prompt_done": frames.PromptDone,
    "avatar": frames.Avatar,
    "typing": frames.Typing,
    "pong": frames.Pong,
    "error": frames.Error,
    "accepted": frames.Accepted,
    "delivered": frames.Delivered,
}
FROM_APP = {
    "hello": Hello,
    "text": Text,
    "audio": Audio,
    "media": MediaChunk,
    "prompt": PromptAnswer,
    "typing": UserTyping,
    "ping": Ping,
    "ack": Ack,
    "deliver": Deliver,
    "unknown": Unknown,
}


def named(name: str, *, understood: bool = False) -> Any:
    """The vectors of a file; only those whose frame is taken, where it must be `understood`."""
    chosen = [each for each in read(name) if not understood or "expect" in each]
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["name"])


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def told(described: dict[str, Any]) -> Any:
    """The frame that an app makes of what a vector describes."""
    fields = dict(described)
    kind = fields.pop("type")
    if kind == "ready":
        device = Device(fields["device"].get("id", ""), fields["device"].get("name", ""))
        capabilities = Capabilities(
            media_in=tuple(MediaIn(each) for each in fields.get("media_in", MediaIn)),
            receipts=fields.get("receipts", False),
        )
        return Ready(fields["session"], device, fields.get("avatar_url", ""), capabilities)
    if "ts" in fields:
        fields["ts"] = compact(fields["ts"]).encode()
    if "data" in fields:
        fields["data"] = pybase64.b64decode(fields["data"])
    if "options" in fields:
        fields["options"] = tuple(Option(**each) for each in fields["options"])
    if kind == "message":  # a lone surrogate never reaches the wire
        fields["text"] = fields["text"].replace("\ud83d", "\ufffd")
    return TO_APP[kind](**fields)


def meant(described: dict[str, Any]) -> Any:
    """The frame that an app sends to be understood as a vector describes."""
    fields = dict(described)
    kind = fields.pop("type")
    if "ts" in fields:
        fields["ts"] = compact(fields["ts"]).encode()
    if "data" in fields:
        fields["data"] = pybase64.b64decode(fields["data"])
    if "media" in fields:
        media = fields["media"]
        fields["media"] = DeliverMedia(**media | {"data": pybase64.b64decode(media["data"])})
    if kind == "hello":
        fields.setdefault("token", "")
        fields["device"] = Device(**fields.get("device", {}))
        fields["user"] = User(**fields.get("user", {}))
    return FROM_APP[kind](**fields)


@named("server-frames.json")
def test_what_a_server_sends(vector: dict[str, Any]) -> None:
    """Each vector of a frame to the app is read as the frame that it describes."""
    wire = compact(spell_out(vector["wire"]))
    assert app_codec.decode(wire) == told(spell_out(vector["frame"]))


@named("app-frames.json", understood=True)
def test_what_an_app_sends(vector: dict[str, Any]) -> None:
    """Each vector that a server takes can be sent, and is understood as its `expect` says."""
    frame = meant(spell_out(vector["expect"]))
    assert codec.decode(app_codec.encode(frame)) == frame


@named("hello.json", understood=True)
def test_what_an_app_says_first(vector: dict[str, Any]) -> None:
    """The same for the first frame; what is understood as 64 KiB may be longer with its `v` (D6)."""
    frame = meant(spell_out(vector["expect"]))
    assert codec.decode(app_codec.encode(frame)) == frame


@pytest.mark.parametrize(
    "example", re.findall(r"^```json app\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)
def test_what_an_app_writes(example: str) -> None:
    """Each example of docs/protocol.md is written as it stands there, but for a `v` and a bare id."""
    wire = json.loads(example)
    written = json.loads(app_codec.encode(codec.decode(example)))
    if wire["t"] == "hello":
        assert written.pop("v") == 1
    if wire["t"] == "deliver":
        wire["target"] = wire["target"].removeprefix("mobile:")
    assert written == wire


IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda text: text == text.strip() and text
)
PROSE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: not text.isspace()
)
DATA = st.binary(min_size=1)


@given(
    st.one_of(
        st.builds(Text, IDS, PROSE),
        st.builds(Audio, IDS, st.sampled_from(AudioFormat), DATA, PROSE | st.none()),
        st.builds(PromptAnswer, IDS, st.just("once") | st.just("c0"), PROSE | st.just("")),
        st.builds(Ack, IDS),
        st.builds(Ping, st.none() | st.integers(0, 2**53).map(lambda ts: str(ts).encode())),
        st.builds(
            Deliver,
            IDS,
            st.just("phone") | st.just(""),
            PROSE,
            st.none() | st.builds(DeliverMedia, st.sampled_from(MediaOut), DATA, st.just("a/b")),
            st.booleans(),
        ),
        st.builds(MediaChunk, IDS, st.sampled_from(MediaIn), DATA, st.just(1), st.just(3)),
    )
)
def test_the_server_reads_what_the_app_writes(frame: frames.ClientFrame) -> None:
    """Whatever a frame from the app holds, the server's codec gives it back."""
    cut = len(getattr(frame, "id", getattr(frame, "prompt_id", ""))) > 128
    if not cut:
        assert codec.decode(app_codec.encode(frame)) == frame


@given(
    st.one_of(
        st.builds(
            Message, IDS, st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)
        ),
        st.builds(Avatar, st.sampled_from(AvatarState)),
        st.builds(Error, IDS, IDS, st.booleans(), st.none() | IDS),
        st.builds(
            MediaPart,
            IDS,
            st.sampled_from(MediaOut),
            IDS,
            IDS,
            st.integers(0, 100),
            data=st.none() | st.binary(),
        ),
        st.builds(
            PromptCard,
            IDS,
            st.sampled_from(CardKind),
            IDS,
            st.lists(st.builds(Option, IDS, IDS)).map(tuple),
            IDS,
            st.integers(1, 300),
        ),
    )
)
def test_the_app_reads_what_the_server_writes(frame: frames.ServerFrame) -> None:
    """Whatever a frame to the app holds, the app's codec gives it back."""
    assert app_codec.decode(codec.encode(frame)) == frame


@pytest.mark.parametrize(
    "data",
    [
        "",
        "hello",
        "[]",
        "null",
        "{}",
        '{"t": 1}',
        '{"t": "hologram"}',
        '{"t": "message"',
        b"\xff",
        '{"t": "media", "id": "f1", "parts": 1, "data": "A"}',
    ],
)
def test_what_says_nothing_is_ignored(data: str | bytes) -> None:
    """T7: no JSON, no object, no known type, a chunk that cannot be decoded."""
    assert app_codec.decode(data) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = (
    "id text chunk final edit kind mime filename caption part parts size data url reply_to options "
    "command description session timeout_seconds option_id expired state stop ts code message fatal "
    "device v avatar_url capabilities index total label media_in max_media_bytes"
)


@given(
    st.sampled_from([*TO_APP, "ready"]),
    st.dictionaries(st.sampled_from(NAMES.split()), JSON),
)
def test_no_field_of_a_server_can_do_harm(kind: str, fields: dict[str, Any]) -> None:
    """T7: whatever stands in a frame, reading it raises nothing."""
    app_codec.decode(json.dumps({"t": kind, **fields}))


def test_unknown_words_count_as_the_most_general_ones() -> None:
    """T7: an avatar in a new state is idle, a new kind of file a document, of card a question."""
    assert app_codec.decode('{"t":"avatar","state":"juggling"}') == Avatar(AvatarState.IDLE)
    hologram = app_codec.decode('{"t":"media","id":"f1","kind":"hologram","data":"AA=="}')
    assert isinstance(hologram, MediaPart)
    assert hologram.kind is MediaOut.DOCUMENT
    card = app_codec.decode('{"t":"prompt","id":"p1","kind":"quiz","options":[{"id":"a"},7]}')
    assert isinstance(card, PromptCard)
    assert (card.kind, card.options) == (CardKind.CLARIFY, (Option("a", ""),))


def test_an_old_server_does_what_the_protocol_says() -> None:
    """A `ready` without capabilities has the defaults of version 1, and no receipts (D38)."""
    ready = app_codec.decode('{"t":"ready","session":"mobile:x","device":{"id":"x"}}')
    assert ready == Ready("mobile:x", Device("x"), "", Capabilities(), 1)


def test_a_pong_deeper_than_any_ping_is_a_pong() -> None:
    """D24: what nobody sent cannot come back, and does no harm."""
    deep = "[" * 300 + "]" * 300
    assert app_codec.decode(f'{{"t":"pong","ts":{deep}}}') == Pong()
