"""The app's side of the wire: frames of the app to JSON, JSON of a server to frames.

The mirror of `codec`, and as lenient as that one is strict (T7): a field of another type than expected
counts as absent, and an unknown word as the most general one of its vocabulary.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, assert_never

import orjson
import pybase64
from attrs import frozen

from hermes_mobile.protocol.compact import compact_json, present
from hermes_mobile.protocol.frames import (
    Accepted,
    Ack,
    Audio,
    Avatar,
    AvatarState,
    CardKind,
    ClientFrame,
    Deliver,
    Delivered,
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
    PromptDone,
    Text,
    Typing,
    Unknown,
    UserTyping,
)
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MAX_TEXT_CHARS, PROTOCOL_VERSION

if TYPE_CHECKING:
    from hermes_mobile.protocol.fields import Fields

Word = TypeVar("Word", bound=StrEnum)


@frozen
class Capabilities:
    """What a server says that it does; what it does not mention has the default of protocol v1."""

    avatar_states: tuple[AvatarState, ...] = tuple(AvatarState)
    media_in: tuple[MediaIn, ...] = tuple(MediaIn)
    """The kinds of file that the agent takes."""
    media_out: tuple[MediaOut, ...] = tuple(MediaOut)
    prompts: tuple[CardKind, ...] = tuple(CardKind)
    text: bool = True
    voice: bool = True
    typing: bool = True
    edit: bool = True
    max_media_bytes: int = MAX_MEDIA_BYTES
    max_text_chars: int = MAX_TEXT_CHARS
    receipts: bool = False


@frozen
class Ready:
    """`ready` as an app reads it. A connection that may only deliver has no session: `""` (D26)."""

    session: str
    device: Device
    avatar_url: str = ""
    capabilities: Capabilities = Capabilities()
    v: int = PROTOCOL_VERSION


AppFrame: TypeAlias = (
    Ready
    | Message
    | MediaPart
    | PromptCard
    | PromptDone
    | Avatar
    | Typing
    | Pong
    | Error
    | Accepted
    | Delivered
)
"""What an app is told."""


# From the app


def encode(frame: ClientFrame) -> str:  # noqa: C901 - one case per frame
    """Write a frame as compact JSON; optional fields only where they say something."""
    match frame:
        case Text(id, text):
            return _text({"t": "text", "id": id, "text": text})
        case MediaChunk():
            return _media_chunk(frame)
        case Audio(id, format, data, text):
            head = {"t": "audio", "id": id, "format": format} | present({"text": text})
            return _with_data(head, data)
        case UserTyping():
            return '{"t":"typing"}'
        case Ping(ts):
            return _text({"t": "ping"} if ts is None else {"t": "ping", "ts": orjson.Fragment(ts)})
        case Ack(id):
            return _text({"t": "ack", "id": id})
        case PromptAnswer(prompt_id, option_id, text):
            answer = present({"option_id": option_id, "text": text})
            return _text({"t": "prompt", "prompt_id": prompt_id} | answer)
        case Deliver():
            return _deliver(frame)
        case Hello():
            return _hello(frame)
        case Unknown(t):
            return _text({"t": t})
        case _:
            assert_never(frame)


def _hello(frame: Hello) -> str:
    device = {
        "id": frame.device.id,
        "name": frame.device.name,
        "platform": frame.device.platform,
        "app_version": frame.device.app_version,
    }
    user = present({"id": frame.user.id, "name": frame.user.name})
    return _text(
        {"t": "hello", "v": PROTOCOL_VERSION, "token": frame.token, "device": present(device)}
        | present({"user": user, "receipts": frame.receipts})
    )


def _media_chunk(frame: MediaChunk) -> str:
    head = {"t": "media", "id": frame.id, "kind": frame.kind}
    names = {"mime": frame.mime, "filename": frame.filename, "caption": frame.caption}
    return _with_data(
        head | present(names) | {"part": frame.part, "parts": frame.parts}, frame.data
    )


def _deliver(frame: Deliver) -> str:
    head = {"t": "deliver", "id": frame.id} | present(
        {"target": frame.target, "text": frame.text, "keep": frame.keep}
    )
    if frame.media is None:
        return _text(head)
    media = frame.media
    names = present({"mime": media.mime, "filename": media.filename})
    attachment = _with_data({"kind": media.kind} | names, media.data)
    return f'{_text(head)[:-1]},"media":{attachment}}}'


def _with_data(head: Fields, data: bytes | memoryview) -> str:
    # Joined, not serialized: orjson would copy the data once more to look for what to escape.
    return f'{_text(head)[:-1]},"data":"{pybase64.b64encode_as_string(data)}"}}'


def _text(fields: Fields) -> str:
    return compact_json(fields).decode()


# To the app


def decode(data: str | bytes) -> AppFrame | None:  # noqa: C901 - one case per frame
    """Read one frame of a server; None for one that says nothing to this version (T7)."""
    frame = _parse(data)
    match _string(frame, "t").strip().lower():
        case "message":
            return _message(frame)
        case "typing":
            return Typing(_flag(frame, "stop"))
        case "avatar":
            return Avatar(_word(AvatarState, frame.get("state"), AvatarState.IDLE))
        case "media":
            return _media_part(frame)
        case "pong":
            return _pong(frame)
        case "accepted":
            return Accepted(_string(frame, "id"))
        case "delivered":
            return Delivered(_string(frame, "id"), _string(frame, "device"))
        case "prompt":
            return _card(frame)
        case "prompt_done":
            expired = _flag(frame, "expired")
            return PromptDone(_string(frame, "id"), _string(frame, "option_id"), expired)
        case "error":
            message, fatal = _string(frame, "message"), _flag(frame, "fatal")
            return Error(_string(frame, "code"), message, fatal, _string(frame, "id") or None)
        case "ready":
            return _ready(frame)
        case _:
            return None


def _parse(data: str | bytes) -> Fields:
    """The fields of a JSON object; of anything else, none."""
    try:
        frame = orjson.loads(data)
    except ValueError:
        return {}
    return frame if isinstance(frame, dict) else {}


def _pong(frame: Fields) -> Pong:
    try:
        return Pong(orjson.dumps(frame["ts"]) if "ts" in frame else None)
    except TypeError:  # nested deeper than anything that this client sent
        return Pong()


def _ready(frame: Fields) -> Ready:
    device = _record(frame, "device")
    return Ready(
        session=_string(frame, "session"),
        device=Device(_string(device, "id"), _string(device, "name")),
        avatar_url=_string(frame, "avatar_url"),
        capabilities=_capabilities(_record(frame, "capabilities")),
        v=_integer(frame, "v", PROTOCOL_VERSION),
    )


def _capabilities(fields: Fields) -> Capabilities:
    return Capabilities(
        avatar_states=_words(AvatarState, fields, "avatar_states"),
        media_in=_words(MediaIn, fields, "media_in"),
        media_out=_words(MediaOut, fields, "media_out"),
        prompts=_words(CardKind, fields, "prompts"),
        text=fields.get("text") is not False,
        voice=fields.get("voice") is not False,
        typing=fields.get("typing") is not False,
        edit=fields.get("edit") is not False,
        max_media_bytes=_integer(fields, "max_media_bytes", MAX_MEDIA_BYTES),
        max_text_chars=_integer(fields, "max_text_chars", MAX_TEXT_CHARS),
        receipts=_flag(fields, "receipts"),
    )


def _message(frame: Fields) -> Message:
    chunk = _record(frame, "chunk")
    return Message(
        id=_string(frame, "id"),
        text=_string(frame, "text"),
        index=_integer(chunk, "index", 0),
        total=_integer(chunk, "total", 1),
        final=_flag(frame, "final"),
        edit=_flag(frame, "edit"),
    )


def _media_part(frame: Fields) -> MediaPart | None:
    data = None
    if isinstance(encoded := frame.get("data"), str):
        try:
            data = pybase64.b64decode(encoded)
        except ValueError:
            return None
    return MediaPart(
        id=_string(frame, "id"),
        kind=_word(MediaOut, frame.get("kind"), MediaOut.DOCUMENT),
        mime=_string(frame, "mime"),
        filename=_string(frame, "filename"),
        size=_integer(frame, "size", 0),
        part=_integer(frame, "part", 0),
        parts=_integer(frame, "parts", 1),
        final=_flag(frame, "final"),
        caption=_string(frame, "caption"),
        data=data,
        url=_string(frame, "url"),
        reply_to=_string(frame, "reply_to"),
    )


def _card(frame: Fields) -> PromptCard:
    options = frame.get("options")
    return PromptCard(
        id=_string(frame, "id"),
        kind=_word(CardKind, frame.get("kind"), CardKind.CLARIFY),
        text=_string(frame, "text"),
        options=tuple(
            Option(_string(each, "id"), _string(each, "label"), _string(each, "style"))
            for each in (options if isinstance(options, list) else ())
            if isinstance(each, dict)
        ),
        session=_string(frame, "session"),
        timeout_seconds=_integer(frame, "timeout_seconds", 0),
        command=_string(frame, "command"),
        description=_string(frame, "description"),
    )


def _string(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _integer(fields: Fields, name: str, absent: int) -> int:
    value = fields.get(name)
    return value if type(value) is int else absent


def _flag(fields: Fields, name: str) -> bool:
    return fields.get(name) is True


def _record(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _word(vocabulary: type[Word], value: Any, other: Word) -> Word:
    try:
        return vocabulary(value)
    except ValueError:
        return other


def _words(vocabulary: type[Word], fields: Fields, name: str) -> tuple[Word, ...]:
    """The known words of a list, in its order; all there are where there is no list."""
    value = fields.get(name)
    if not isinstance(value, list):
        return tuple(vocabulary)
    return tuple(vocabulary(word) for word in value if word in list(vocabulary))
