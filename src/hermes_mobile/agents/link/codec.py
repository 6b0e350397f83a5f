"""JSON to messages of the agent link and back. What comes in is checked here, once.

*Errors*: RefusedError, whose message names the field and the limit.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, assert_never

import orjson
import pybase64

from hermes_mobile.agents import DeviceState, FileInput, Mode, OutgoingFile, TextInput, VoiceInput
from hermes_mobile.agents.link.messages import (
    Ask,
    Cancel,
    Closed,
    Code,
    Done,
    End,
    Goodbye,
    Hello,
    Place,
    Ready,
    Refused,
    Reply,
    SendFile,
    StreamState,
    TurnBegin,
    Unknown,
    Withdraw,
    Working,
)
from hermes_mobile.protocol import fields as field
from hermes_mobile.protocol.compact import compact_json, present
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError, bad_frame
from hermes_mobile.protocol.frames import CardKind, MediaIn, MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES

if TYPE_CHECKING:
    from hermes_mobile.agents import Input, User
    from hermes_mobile.agents.link.messages import AgentMessage, ServerMessage
    from hermes_mobile.protocol.fields import Fields

VERSION: Final = 1
MOST_TURNS: Final = 10_000
"""What an agent may want to work on at once."""


class RefusedError(Exception):
    """A message of the agent cannot be taken."""

    def __init__(self, code: Code, message: str, *, id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id


class UnreadableError(RefusedError):
    """It is no message at all: nothing can follow it."""

    def __init__(self) -> None:
        super().__init__(Code.BAD_MESSAGE, "message: one JSON object in UTF-8 is expected")


def decode(data: bytes | str) -> AgentMessage:
    """Read one message of the agent; an unknown type is `Unknown`.

    *Errors*: RefusedError, with the message's own `id` where that is valid; UnreadableError.
    """
    try:
        fields = orjson.loads(data)
    except ValueError:
        raise UnreadableError from None
    if not isinstance(fields, dict):
        raise UnreadableError
    try:
        return _any_message(fields)
    except ProtocolError as error:
        code = Code.TOO_BIG if error.code is ErrorCode.TOO_BIG else Code.BAD_MESSAGE
        raise RefusedError(code, error.message, id=_echo(fields)) from None


def _echo(fields: Fields) -> str | None:
    try:
        return field.required_identifier(fields.get("id"), "id")
    except ProtocolError:
        return None


# From the agent


def _any_message(fields: Fields) -> AgentMessage:
    match field.keyword(fields.get("t"), "t"):
        case "hello":
            return _hello(fields)
        case "end":
            return _end(fields)
        case "reply":
            return Reply(_id(fields), _place(fields), _text(fields, "text"))
        case "stream":
            return StreamState(
                _id(fields),
                _place(fields),
                stream=field.required_identifier(fields.get("stream"), "stream"),
                text=_text(fields, "text"),
                final=field.flag(fields.get("final"), "final"),
            )
        case "file":
            return SendFile(_id(fields), _place(fields), _file(fields))
        case "working":
            return _working(fields)
        case "ask":
            return _ask(fields)
        case "withdraw":
            ask = field.required_identifier(fields.get("ask"), "ask")
            return Withdraw(_id(fields), ask)
        case _:
            return Unknown()


def _hello(fields: Fields) -> Hello:
    if fields.get("v") != VERSION or isinstance(fields.get("v"), bool):
        raise bad_frame(f"v: {VERSION} is spoken here")
    token = fields.get("token")
    turns = field.integer(fields.get("turns"), "turns", default=Hello().turns)
    if not 1 <= turns <= MOST_TURNS:
        raise bad_frame(f"turns: from 1 to {MOST_TURNS}")
    takes = fields.get("takes")
    return Hello(
        token=token if isinstance(token, str) else "",
        name=field.short_name(fields.get("name"), "name"),
        version=field.short_name(fields.get("version"), "version"),
        takes=frozenset(MediaIn)
        if takes is None
        else frozenset(field.one_of(MediaIn, kind, "takes") for kind in _strings(takes, "takes")),
        mode=Mode.CONCURRENT if _word(fields, "mode", "serial", "concurrent") else Mode.SERIAL,
        turns=turns,
        resume=field.identifier(fields.get("resume"), "resume"),
    )


def _end(fields: Fields) -> End:
    turn = field.required_identifier(fields.get("turn"), "turn")
    return End(turn, failed=_word(fields, "outcome", "ok", "failed"))


def _word(fields: Fields, name: str, usual: str, other: str) -> bool:
    """Whether an optional field says `other`, not what it usually is."""
    value = fields.get(name)
    if value is None:
        return False
    if (word := field.keyword(value, name)) not in {usual, other}:
        raise bad_frame(f"{name}: one of {usual}, {other}")
    return word == other


def _id(fields: Fields) -> str:
    return field.required_identifier(fields.get("id"), "id")


def _place(fields: Fields) -> Place:
    turn = field.identifier(fields.get("turn"), "turn")
    device = field.device_address(fields.get("device"), "device")
    if bool(turn) == bool(device):
        raise bad_frame("turn, device: one of them, not both")
    return Place(turn, device)


def _working(fields: Fields) -> Working:
    place = _place(fields)
    if not place.turn:
        raise bad_frame("turn: missing")
    return Working(_id(fields), place)


def _file(fields: Fields) -> OutgoingFile:
    data, url = fields.get("data"), _text(fields, "url", required=False)
    if (data is None) == (not url):
        raise bad_frame("data, url: one of them, not both")
    return OutgoingFile(
        kind=field.one_of(MediaOut, fields.get("kind"), "kind"),
        data=b"" if data is None else field.binary(data, "data", MAX_MEDIA_BYTES),
        filename=field.filename(fields.get("filename"), "filename"),
        mime=field.short_name(fields.get("mime"), "mime"),
        caption=_text(fields, "caption", required=False),
        url=url,
        reply_to=field.identifier(fields.get("reply_to"), "reply_to"),
    )


def _ask(fields: Fields) -> Ask:
    kind = field.one_of(CardKind, fields.get("kind"), "kind")
    options = fields.get("options")
    return Ask(
        _id(fields),
        _place(fields),
        kind,
        text=_text(fields, "command" if kind is CardKind.EXEC_APPROVAL else "text"),
        description=_text(fields, "description", required=False),
        options=None if options is None else _strings(options, "options"),
        choices=_strings(fields.get("choices") or [], "choices"),
        ttl=_ttl(fields.get("ttl")),
    )


def _ttl(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_frame("ttl: a number is expected")
    if not (isfinite(value) and value > 0):
        raise bad_frame("ttl: a number of seconds above 0")
    return float(value)


def _text(fields: Fields, name: str, *, required: bool = True) -> str:
    value = fields.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise bad_frame(f"{name}: a string is expected")
    return value


def _strings(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise bad_frame(f"{name}: a list of strings is expected")
    return tuple(value)


# To the agent


def encode(message: ServerMessage) -> bytes:
    """Write a message as compact JSON in UTF-8, in one line. Never fails."""
    return compact_json(_fields(message))


def _fields(message: ServerMessage) -> Fields:
    match message:
        case Done(id, said):
            return {"t": "done", "id": id} | present({"message": said})
        case Closed(id, option, text, expired):
            optional = {"text": text, "expired": expired}
            return {"t": "done", "id": id, "option": option} | present(optional)
        case Refused(id, code, text):
            named = {} if id is None else {"id": id}
            return {"t": "error"} | named | {"code": code, "message": text}
        case TurnBegin():
            return {
                "t": "turn",
                "turn": message.turn,
                "device": message.device,
                "session": message.session,
                "user": _user(message.user),
                "input": _input(message.input),
            }
        case Cancel(turn):
            return {"t": "cancel", "turn": turn}
        case DeviceState():
            return {
                "t": "device",
                "device": message.device_id,
                "connected": message.connected,
                "name": message.name,
                "platform": message.platform,
                "user": _user(message.user),
            }
        case Ready():
            return {
                "t": "ready",
                "v": VERSION,
                "link": message.link,
                "resumed": message.resumed,
                "turns": message.turns,
                "asks": message.asks,
                "server": message.server,
            }
        case Goodbye(farewell, text):
            return {"t": "goodbye", "code": farewell, "message": text}
        case _:
            assert_never(message)


def _user(user: User) -> Fields:
    return {"id": user.id, "name": user.name}


def _input(message: Input) -> Fields:
    match message:
        case TextInput(id, text):
            return {"type": "text", "id": id, "text": text}
        case VoiceInput():
            return {
                "type": "voice",
                "id": message.id,
                "format": message.format,
                "data": _base64(message.data),
            } | present({"transcript": message.transcript, "path": _path(message)})
        case FileInput():
            return {
                "type": "file",
                "id": message.id,
                "kind": message.kind,
                "mime": message.mime,
                "filename": message.filename,
                "caption": message.caption,
                "data": _base64(message.data),
            } | present({"path": _path(message)})
        case _:
            assert_never(message)


def _path(message: VoiceInput | FileInput) -> str:
    return "" if message.path is None else str(message.path)


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)
