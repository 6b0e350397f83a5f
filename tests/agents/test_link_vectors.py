"""The agent link as data: every vector of both directions through the codec."""

import json
from pathlib import Path
from typing import Any

import attrs
import pybase64
import pytest

from hermes_mobile.agents import (
    DeviceState,
    FileInput,
    Mode,
    TextInput,
    User,
    VoiceInput,
)
from hermes_mobile.agents.link import messages
from hermes_mobile.agents.link.codec import RefusedError, UnreadableError, decode, encode
from hermes_mobile.conformance.vectors import read, spell_out
from hermes_mobile.protocol.frames import AudioFormat, MediaIn

FROM_AGENT: dict[type, str] = {
    messages.Hello: "hello",
    messages.End: "end",
    messages.Reply: "reply",
    messages.StreamState: "stream",
    messages.SendFile: "file",
    messages.Working: "working",
    messages.Ask: "ask",
    messages.Withdraw: "withdraw",
    messages.Unknown: "unknown",
}
TO_AGENT: dict[str, type] = {
    "ready": messages.Ready,
    "turn": messages.TurnBegin,
    "cancel": messages.Cancel,
    "done": messages.Done,
    "closed": messages.Closed,
    "error": messages.Refused,
    "device": DeviceState,
    "goodbye": messages.Goodbye,
}
INPUTS: dict[str, type] = {"text": TextInput, "voice": VoiceInput, "file": FileInput}


def each(name: str) -> Any:
    return pytest.mark.parametrize("vector", read(name), ids=lambda vector: vector["name"])


def described(value: object) -> Any:
    """A message as the vectors describe it: what differs from the default, by name."""
    match value:
        case messages.Place(turn, device):
            return {"turn": turn} if turn else {"device": device}
        case bytes():
            return pybase64.b64encode_as_string(value)
        case Mode():
            return value.name.lower()
        case frozenset():
            return sorted(value)
        case tuple():
            return list(value)
        case _ if attrs.has(type(value)):
            fields: dict[str, Any] = {}
            for field in attrs.fields(type(value)):
                inner = getattr(value, field.name)
                if field.name == "place":
                    fields |= described(inner)
                elif inner not in (field.default, ""):
                    fields[field.name] = described(inner)
            return fields
        case _:
            return value


def built(description: dict[str, Any]) -> messages.ServerMessage:
    """The message that a vector describes."""
    fields = dict(description)
    kind = TO_AGENT[fields.pop("type")]
    if kind is messages.TurnBegin:
        fields["input"] = built_input(fields["input"])
        fields.setdefault("user", {})
    for name, make in (("turns", tuple), ("asks", tuple), ("code", str)):
        if name in fields:
            fields[name] = make(fields[name])
    if "user" in fields:
        fields["user"] = User(**fields["user"])
    return kind(**fields)


def built_input(description: dict[str, Any]) -> Any:
    fields = dict(description)
    kind = INPUTS[fields.pop("type")]
    for name, make in (
        ("data", pybase64.b64decode),
        ("format", AudioFormat),
        ("kind", MediaIn),
        ("path", Path),
    ):
        if name in fields:
            fields[name] = make(fields[name])
    return kind(**fields)


@each("agent-link-from-agent.json")
def test_from_the_agent(vector: dict[str, Any]) -> None:
    """Each message of an agent is understood, or refused, as its vector says."""
    vector = spell_out(vector)
    data = vector["raw"] if "raw" in vector else json.dumps(vector["wire"])
    if "error" not in vector:
        message = decode(data)
        assert {"type": FROM_AGENT[type(message)], **described(message)} == vector["expect"]
        return
    expected = vector["error"]
    with pytest.raises(RefusedError) as refused:
        decode(data)
    assert refused.value.code == expected["code"]
    assert refused.value.id == expected.get("id")
    assert isinstance(refused.value, UnreadableError) == expected.get("ends", False)
    assert refused.value.message.startswith(f"{expected.get('says', 'message')}:")


@each("agent-link-to-agent.json")
def test_to_the_agent(vector: dict[str, Any]) -> None:
    """Each message to an agent is written as its vector says, in one line."""
    vector = spell_out(vector)
    wire = encode(built(vector["message"]))
    assert wire == json.dumps(vector["wire"], separators=(",", ":")).encode()
    assert b"\n" not in wire


def test_every_message_has_a_vector() -> None:
    """Every type of message, code and farewell stands in the vectors."""
    from_agent = [each for each in read("agent-link-from-agent.json") if "expect" in each]
    assert {each["expect"]["type"] for each in from_agent} == set(FROM_AGENT.values())
    to_agent = read("agent-link-to-agent.json")
    assert {each["message"]["type"] for each in to_agent} == set(TO_AGENT)
    wires = [each["wire"] for each in to_agent]
    assert {wire["code"] for wire in wires if wire["t"] == "error"} == set(messages.Code)
    assert {wire["code"] for wire in wires if wire["t"] == "goodbye"} == set(messages.Farewell)
