"""JSON to frames and frames to JSON.

What comes in is checked here, once: a `ClientFrame` is valid, and every refusal is a
`ProtocolError` whose message names the field and the limit. What a frame asks for is judged
elsewhere.
"""

from collections.abc import Callable
from typing import TypeVar, assert_never

import orjson
import pybase64

from hermes_mobile.protocol import fields as field
from hermes_mobile.protocol.compact import compact_json, present
from hermes_mobile.protocol.errors import ProtocolError, bad_frame, too_big
from hermes_mobile.protocol.fields import Fields, clean_filename
from hermes_mobile.protocol.frames import (
    Accepted,
    Ack,
    Audio,
    AudioFormat,
    Avatar,
    AvatarState,
    CardKind,
    ClientFrame,
    Deliver,
    Delivered,
    DeliverMedia,
    Device,
    Error,
    Hello,
    MediaChunk,
    MediaOut,
    MediaPart,
    Message,
    Ping,
    Pong,
    PromptAnswer,
    PromptCard,
    PromptDone,
    Ready,
    ServerFrame,
    Text,
    Typing,
    Unknown,
    User,
    UserTyping,
)
from hermes_mobile.protocol.limits import (
    MAX_AUDIO_BYTES,
    MAX_HELLO_BYTES,
    MAX_ID_CHARS,
    MAX_MEDIA_BYTES,
    MAX_MEDIA_PARTS,
    MAX_NAME_CHARS,
    MAX_PING_TS_BYTES,
    MAX_TEXT_CHARS,
    PROTOCOL_VERSION,
)

__all__ = ["clean_filename", "decode", "decode_hello", "encode"]

Frame = TypeVar("Frame")


def decode(data: str | bytes) -> ClientFrame:
    """Read one frame from the app, whatever it sent; an unknown type is `Unknown` (D14).

    *Errors*: ProtocolError, never fatal, with the frame's own `id` where that is valid (D25).
    """
    return _decode(data, _any_frame)


def decode_hello(data: str | bytes) -> Hello:
    """Read the first frame of a connection.

    *Errors*: ProtocolError, always fatal: `too_big` above 64 KiB, else `bad_frame` (D6).
    """
    try:
        if _exceeds(data, MAX_HELLO_BYTES):
            raise too_big(f"hello: at most {MAX_HELLO_BYTES} bytes")
        return _decode(data, _first_frame)
    except ProtocolError as refusal:
        refusal.fatal = True
        raise


def _exceeds(data: str | bytes, limit: int) -> bool:
    if len(data) > limit or isinstance(data, bytes):
        return len(data) > limit
    return len(data.encode("utf-8", "surrogatepass")) > limit


def _decode(data: str | bytes, read: Callable[[Fields], Frame]) -> Frame:
    try:
        fields = orjson.loads(data)
    except ValueError:
        raise bad_frame("frame: not JSON in UTF-8") from None
    if not isinstance(fields, dict):
        raise bad_frame("frame: a JSON object is expected")
    try:
        return read(fields)
    except ProtocolError as refusal:
        refusal.id = _echo(fields)
        raise


def _echo(fields: Fields) -> str | None:
    try:
        return field.required_identifier(fields.get("id"), "id")
    except ProtocolError:
        return None


# From the app


def _first_frame(fields: Fields) -> Hello:
    if field.keyword(fields.get("t"), "t") != "hello":
        raise bad_frame("t: the first frame must be hello")
    return _hello(fields)


def _any_frame(fields: Fields) -> ClientFrame:
    match field.keyword(fields.get("t"), "t"):
        case "text":
            return _text(fields)
        case "media":
            return _media_chunk(fields)
        case "audio":
            return _audio(fields)
        case "typing":
            return UserTyping()
        case "ping":
            return _ping(fields)
        case "ack":
            return Ack(field.required_identifier(fields.get("id"), "id"))
        case "prompt":
            return _prompt_answer(fields)
        case "deliver":
            return _deliver(fields)
        case "hello":
            return _hello(fields)
        case other:
            return Unknown(other[:MAX_ID_CHARS])


def _hello(fields: Fields) -> Hello:
    device = field.record(fields.get("device"), "device")
    user = field.record(fields.get("user"), "user")
    token = fields.get("token")
    return Hello(
        token=token if isinstance(token, str) else "",
        device=Device(
            id=field.identifier(device.get("id"), "device.id", MAX_NAME_CHARS),
            name=field.short_name(device.get("name"), "device.name"),
            platform=field.short_name(device.get("platform"), "device.platform"),
            app_version=field.short_name(device.get("app_version"), "device.app_version"),
        ),
        user=User(
            id=field.identifier(user.get("id"), "user.id", MAX_NAME_CHARS),
            name=field.short_name(user.get("name"), "user.name"),
        ),
        receipts=field.flag(fields.get("receipts"), "receipts"),
    )


def _text(fields: Fields) -> Text:
    return Text(
        id=field.required_identifier(fields.get("id"), "id"),
        text=field.required_prose(fields.get("text"), "text"),
    )


def _audio(fields: Fields) -> Audio:
    return Audio(
        id=field.required_identifier(fields.get("id"), "id"),
        format=field.one_of(AudioFormat, fields.get("format"), "format"),
        data=field.binary(fields.get("data"), "data", MAX_AUDIO_BYTES),
        text=field.prose(fields.get("text"), "text") or None,
    )


def _media_chunk(fields: Fields) -> MediaChunk:
    parts = field.integer(fields.get("parts"), "parts", default=1)
    if not 1 <= parts <= MAX_MEDIA_PARTS:
        raise bad_frame(f"parts: from 1 to {MAX_MEDIA_PARTS}")
    part = field.integer(fields.get("part"), "part", default=0)
    if not 0 <= part < parts:
        raise bad_frame("part: from 0 to parts - 1")
    return MediaChunk(
        id=field.required_identifier(fields.get("id"), "id"),
        kind=field.keyword(fields.get("kind"), "kind"),
        data=field.binary(fields.get("data"), "data", MAX_MEDIA_BYTES),
        part=part,
        parts=parts,
        mime=field.short_name(fields.get("mime"), "mime"),
        filename=field.filename(fields.get("filename"), "filename"),
        caption=field.prose(fields.get("caption"), "caption"),
    )


def _prompt_answer(fields: Fields) -> PromptAnswer:
    prompt_id = field.required_identifier(fields.get("prompt_id"), "prompt_id")
    option_id = field.identifier(fields.get("option_id"), "option_id").lower()
    text = field.prose(fields.get("text"), "text")
    if not option_id and not text:
        raise bad_frame("option_id, text: one of them must not be empty")
    return PromptAnswer(prompt_id, option_id, text)


def _ping(fields: Fields) -> Ping:
    if "ts" not in fields:
        return Ping()
    try:
        ts = orjson.dumps(fields["ts"])
    except TypeError:
        raise bad_frame("ts: at most 254 levels deep") from None
    if len(ts) > MAX_PING_TS_BYTES:
        raise bad_frame(f"ts: at most {MAX_PING_TS_BYTES} bytes of JSON")
    return Ping(ts)


def _deliver(fields: Fields) -> Deliver:
    text = field.prose(fields.get("text"), "text")
    media = fields.get("media")
    if not text and media is None:
        raise bad_frame("text, media: one of them must be there and not empty")
    return Deliver(
        id=field.required_identifier(fields.get("id"), "id"),
        target=field.device_address(fields.get("target"), "target"),
        text=text,
        media=None if media is None else _deliver_media(field.record(media, "media")),
        keep=field.flag(fields.get("keep"), "keep"),
    )


def _deliver_media(fields: Fields) -> DeliverMedia:
    return DeliverMedia(
        kind=field.one_of(MediaOut, fields.get("kind"), "media.kind"),
        data=field.binary(fields.get("data"), "media.data", MAX_MEDIA_BYTES),
        mime=field.short_name(fields.get("mime"), "media.mime"),
        filename=field.filename(fields.get("filename"), "media.filename"),
    )


# To the app


def encode(frame: ServerFrame) -> bytes:  # noqa: C901 - one case per frame
    """Write a frame as compact JSON in UTF-8; optional fields only where they say something.

    Never fails: a lone surrogate, which UTF-8 has no bytes for, becomes U+FFFD.
    """
    match frame:
        case Message():
            return compact_json(_message_fields(frame))
        case Avatar(state):
            return _AVATAR[state]
        case Typing(stop):
            return _TYPING[stop]
        case MediaPart():
            return _media_part(frame)
        case Pong(ts):
            return compact_json(
                {"t": "pong"} if ts is None else {"t": "pong", "ts": orjson.Fragment(ts)}
            )
        case Accepted(id):
            return compact_json({"t": "accepted", "id": id})
        case Delivered(id, device):
            return compact_json({"t": "delivered", "id": id, "device": device})
        case PromptCard():
            return compact_json(_card_fields(frame))
        case PromptDone(id, option_id, expired):
            optional = {"option_id": option_id, "expired": expired}
            return compact_json({"t": "prompt_done", "id": id} | present(optional))
        case Error(code, message, fatal, id):
            error = {"t": "error", "code": code, "message": message, "fatal": fatal}
            return compact_json(error if id is None else error | {"id": id})
        case Ready():
            return compact_json(_ready_fields(frame))
        case _:
            assert_never(frame)


def _message_fields(frame: Message) -> Fields:
    fields = {
        "t": "message",
        "id": frame.id,
        "text": frame.text,
        "chunk": {"index": frame.index, "total": frame.total},
        "final": frame.final,
    }
    if frame.edit:
        fields["edit"] = True
    return fields


def _media_part(frame: MediaPart) -> bytes:
    head = compact_json(
        {"t": "media", "id": frame.id, "kind": frame.kind}
        | {"mime": frame.mime, "filename": frame.filename}
        | present({"caption": frame.caption})
        | {"part": frame.part, "parts": frame.parts, "final": frame.final, "size": frame.size}
    )
    tail = present({"url": frame.url, "reply_to": frame.reply_to})
    pieces = [head[:-1]]
    if frame.data is not None:
        # Joined, not serialized: orjson would copy the data once more to look for what to escape.
        pieces += [b',"data":"', pybase64.b64encode(frame.data), b'"']
    pieces += [b",", compact_json(tail)[1:]] if tail else [b"}"]
    return b"".join(pieces)


def _card_fields(frame: PromptCard) -> Fields:
    options = [{"id": each.id, "label": each.label, "style": each.style} for each in frame.options]
    return (
        {"t": "prompt", "id": frame.id, "kind": frame.kind, "text": frame.text, "options": options}
        | present({"command": frame.command, "description": frame.description})
        | {"session": frame.session, "timeout_seconds": frame.timeout_seconds}
    )


def _ready_fields(frame: Ready) -> Fields:
    capabilities = {
        "text": True,
        "voice": True,
        "typing": True,
        "avatar_states": list(AvatarState),
        "media_in": frame.media_in,
        "media_out": list(MediaOut),
        "prompts": list(CardKind),
        "edit": True,
        "max_media_bytes": MAX_MEDIA_BYTES,
        "max_text_chars": MAX_TEXT_CHARS,
    }
    return {
        "t": "ready",
        "v": PROTOCOL_VERSION,
        "session": frame.session,
        "device": {"id": frame.device.id, "name": frame.device.name},
        "avatar_url": frame.avatar_url,
        "capabilities": capabilities | present({"receipts": frame.receipts}),
    }


_AVATAR = {state: compact_json({"t": "avatar", "state": state}) for state in AvatarState}
_TYPING = {False: compact_json({"t": "typing"}), True: compact_json({"t": "typing", "stop": True})}
