"""The protocol work that the peers share: as much as ours does in the same turns."""

import base64
import hashlib
import json

import pytest
from bench.echo import fault_in
from bench.peers.work import Conversation, RefusedError, Service


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setenv("MOBILE_TOKEN", "secret")
    return Service()


@pytest.fixture
def conversation(service):
    made = Conversation(service)
    [ready] = say(made, t="hello", token="secret", device={"id": "phone"})
    assert ready["session"] == "mobile:phone"
    return made


def say(conversation, **frame):
    return [json.loads(answer) for answer in conversation.hear(json.dumps(frame))]


def media(part, parts, data):
    fields = {"t": "media", "id": "f", "kind": "document", "part": part, "parts": parts}
    return {**fields, "data": base64.b64encode(data).decode()}


def test_a_turn_has_the_same_five_frames(conversation):
    """A text is echoed in a turn that the generator finds no fault in (D30)."""
    frames = say(conversation, t="text", id="1", text="hello")
    assert len(frames) == 5
    assert fault_in(frames, "hello") is None


def test_a_repeat_is_dropped(conversation):
    """The same id again gets no answer (D19)."""
    say(conversation, t="text", id="1", text="hello")
    assert say(conversation, t="text", id="1", text="hello") == []


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"t": "text", "id": "", "text": "hello"}, "bad_frame"),
        ({"t": "text", "id": True, "text": "hello"}, "bad_frame"),
        ({"t": "text", "id": "\x00", "text": "hello"}, "bad_frame"),
        ({"t": "text", "id": "1", "text": " "}, "bad_frame"),
        ({"t": "text", "id": "1", "text": "a" * 12_001}, "too_big"),
        ({"t": "media", "id": "1", "kind": "song", "part": 0, "parts": 1}, "unsupported_frame"),
        ({**media(0, 1, b"a"), "data": "?"}, "bad_frame"),
        (media(1, 1, b"a"), "bad_frame"),
        (media(0, 2, bytes(8 * 1024**2 + 1)), "too_big"),
        ({"t": 1}, "bad_frame"),
    ],
)
def test_frames_are_checked(conversation, frame, code):
    """Ids, texts and chunks have the same limits as ours (D12, D15, D16, D17)."""
    with pytest.raises(RefusedError) as refused:
        say(conversation, **frame)
    assert refused.value.code == code
    assert not refused.value.fatal


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"t": "hello", "token": "wrong", "device": {"id": "phone"}}, "auth_failed"),
        ({"t": "text", "id": "1", "text": "hello"}, "bad_frame"),
    ],
)
def test_hello_is_checked(service, frame, code):
    """Without the token, or with another first frame, the connection ends (D6, D7)."""
    with pytest.raises(RefusedError) as refused:
        say(Conversation(service), **frame)
    assert (refused.value.code, refused.value.fatal) == (code, True)


def test_an_upload_is_put_together_and_hashed(conversation):
    """Chunks in any order make one file, whose digest is the answer (D17)."""
    assert say(conversation, **media(1, 2, b"world")) == []
    frames = say(conversation, **media(0, 2, b"hello "))
    digest = hashlib.sha256(b"hello world").hexdigest()
    assert fault_in(frames, f"size: 11 bytes\nsha256: {digest}") is None


def test_a_download_comes_in_chunks(conversation):
    """`/file N` sends N bytes, in chunks of 3 MiB, the last one final (D31)."""
    size = 7 * 1024**2
    frames = say(conversation, t="text", id="1", text=f"/file {size}")
    chunks = [frame for frame in frames if frame["t"] == "media"]
    assert [(chunk["part"], chunk["final"]) for chunk in chunks] == [
        (0, False),
        (1, False),
        (2, True),
    ]
    assert sum(len(base64.b64decode(chunk["data"])) for chunk in chunks) == size
