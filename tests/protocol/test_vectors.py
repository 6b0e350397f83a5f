"""The wire as data: every vector of `tests/vectors` through the codec. The schema: README there."""

import json
from typing import Any

import attrs
import pybase64
import pytest

from hermes_mobile.conformance.vectors import read, spell_out
from hermes_mobile.protocol import frames, limits
from hermes_mobile.protocol.codec import decode, decode_hello, encode
from hermes_mobile.protocol.errors import CloseCode, ErrorCode, ProtocolError

FROM_APP: dict[type, str] = {
    frames.Hello: "hello",
    frames.Text: "text",
    frames.Audio: "audio",
    frames.MediaChunk: "media",
    frames.PromptAnswer: "prompt",
    frames.UserTyping: "typing",
    frames.Ping: "ping",
    frames.Ack: "ack",
    frames.Deliver: "deliver",
    frames.Unknown: "unknown",
}
TO_APP: dict[str, type] = {
    "ready": frames.Ready,
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


SERVER_FRAMES = read("server-frames.json")


def each(name: str) -> Any:
    return pytest.mark.parametrize("vector", read(name), ids=lambda vector: vector["name"])


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def sent(vector: dict[str, Any]) -> str | bytes:
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    if "raw" in vector:
        return str(spell_out(vector["raw"]))
    return as_json(spell_out(vector["wire"])).decode()


def normalised(frame: Any) -> Any:
    """A frame from the app as the vectors write it: no field that has its default."""
    named = {
        field.name: getattr(frame, field.name)
        for field in attrs.fields(type(frame))
        if getattr(frame, field.name) != field.default
    }
    if isinstance(frame, frames.Hello) and not frame.token:
        del named["token"]
    if isinstance(frame, frames.Ping) and frame.ts is not None:
        return {"type": "ping", "ts": json.loads(frame.ts)}
    for name, value in named.items():
        if isinstance(value, bytes):
            named[name] = pybase64.b64encode_as_string(value)
        elif attrs.has(type(value)):
            named[name] = normalised(value)
    return ({"type": FROM_APP[type(frame)]} if type(frame) in FROM_APP else {}) | named


def built(described: dict[str, Any]) -> Any:
    """The frame to the app that a vector describes."""
    named = dict(described)
    kind = named.pop("type")
    if kind == "pong" and "ts" in named:
        named["ts"] = as_json(named["ts"])
    if "data" in named:
        named["data"] = pybase64.b64decode(named["data"], validate=True)
    if "device" in named and kind == "ready":
        named["device"] = frames.Device(**named["device"])
    if "options" in named:
        named["options"] = tuple(frames.Option(**option) for option in named["options"])
    if "state" in named:
        named["state"] = frames.AvatarState(named["state"])
    return TO_APP[kind](**named)


def sent_in_exchange(frame: Any) -> str | bytes:
    """A frame of an exchange, any name in it replaced by an example."""
    if isinstance(frame, dict) and set(frame) & {"$repeat", "$join"}:
        return sent({"raw": frame})
    if isinstance(frame, str):
        return frame
    example = {
        name: "x" if isinstance(value, dict) and "$name" in value else value
        for name, value in frame.items()
    }
    return sent({"wire": example})


def check(vector: dict[str, Any], reader: Any) -> None:
    if "expect" in vector:
        assert normalised(reader(sent(vector))) == spell_out(vector["expect"])
        return
    with pytest.raises(ProtocolError) as caught:
        reader(sent(vector))
    refused, expected = caught.value, vector["error"]
    assert (refused.code, refused.fatal, refused.id) == (
        expected["code"],
        expected["fatal"],
        expected.get("id"),
    )
    assert [word for word in expected["says"] if word not in refused.message] == []


@each("hello.json")
def test_first_frame(vector: dict[str, Any]) -> None:
    """Each first frame is read, or refused fatally, as its vector says (D6, D7, D12)."""
    check(vector, decode_hello)


@each("app-frames.json")
def test_frame_from_the_app(vector: dict[str, Any]) -> None:
    """Each later frame is read, or refused, as its vector says (D2, D12, D14 to D25)."""
    check(vector, decode)


@each("server-frames.json")
def test_frame_to_the_app(vector: dict[str, Any]) -> None:
    """Each frame to the app has exactly its vector's bytes, the order of fields included."""
    assert encode(built(spell_out(vector["frame"]))) == as_json(spell_out(vector["wire"]))


@each("exchanges.json")
def test_exchange(vector: dict[str, Any]) -> None:
    """Each exchange sends what an app could send, and expects what the server can encode."""
    for step in vector["steps"]:
        match {name: value for name, value in step.items() if name != "on"}:
            case {"connect": first}:
                assert first is None or sent_in_exchange(first)
            case {"send": frame}:
                assert sent_in_exchange(frame)
            case {"expect": {"t": kind, **fields}}:
                known = [set(one["wire"]) for one in SERVER_FRAMES if one["wire"]["t"] == kind]
                assert set(fields) <= set().union(*known)
            case {"pass": seconds}:
                assert seconds > 0
            case {"close": code} | {"closed": code, "reason": _}:
                assert code in list(CloseCode)
            case other:
                pytest.fail(f"unknown step: {other}")


@pytest.mark.parametrize(
    "name", ["hello.json", "app-frames.json", "server-frames.json", "exchanges.json"]
)
def test_names_are_unique(name: str) -> None:
    """A vector is known by its name, in every language's report."""
    names = [vector["name"] for vector in read(name)]
    assert sorted(set(names)) == sorted(names)


def test_every_type_has_a_vector() -> None:
    """No frame of either direction is without one."""
    from_app = {
        vector["expect"]["type"] for vector in read("app-frames.json") if "expect" in vector
    }
    assert from_app == set(FROM_APP.values())
    assert {vector["frame"]["type"] for vector in read("server-frames.json")} == set(TO_APP)


def test_limits() -> None:
    """limits.json holds every number of limits.py, and no other."""
    ours = {name: value for name, value in vars(limits).items() if name.isupper()}
    del ours["KIB"], ours["MIB"]
    assert {row["name"]: row["value"] for row in read("limits.json")} == ours


def test_codes() -> None:
    """codes.json holds every error code and every close code, and no other."""
    codes = read("codes.json")
    assert [row["code"] for row in codes["errors"]] == list(ErrorCode)
    assert {row["name"]: row["code"] for row in codes["closes"]} == dict(CloseCode.__members__)
