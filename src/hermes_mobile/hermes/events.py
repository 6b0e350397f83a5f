"""What a person says, as Hermes wants to be told."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from gateway.platforms.base import MessageEvent, MessageType, cache_media_bytes

FILE_TYPES = {
    "image": MessageType.PHOTO,
    "video": MessageType.VIDEO,
    "document": MessageType.DOCUMENT,
    "audio": MessageType.AUDIO,
}


class UnreadableError(Exception):
    """A file is not what it says it is."""


async def make_event(message: dict[str, Any], source: Any) -> MessageEvent:
    """The event for the `input` of a turn; a file is put where Hermes keeps received ones.

    Errors: UnreadableError.
    """
    event = MessageEvent(text="", source=source, message_id=message["id"])
    match message["type"]:
        case "text":
            event.text = message["text"]
        case "voice":
            event.message_type = MessageType.VOICE
            await _attach(event, message["data"], f"voice.{message['format']}", "", "audio")
            if transcript := message.get("transcript"):
                _transcribed(event, transcript)
        case "file":
            event.text = message.get("caption") or ""
            event.message_type = FILE_TYPES[message["kind"]]
            name = message.get("filename") or ""
            await _attach(event, message["data"], name, message["mime"], message["kind"])
        case _:
            raise UnreadableError("kind of message")
    return event


async def _attach(event: MessageEvent, data: str, filename: str, mime: str, kind: str) -> None:
    cached = await asyncio.to_thread(
        lambda: cache_media_bytes(
            base64.b64decode(data), filename=filename, mime_type=mime, default_kind=kind
        )
    )
    if cached is None:
        raise UnreadableError(kind)
    event.media_urls = [cached.path]
    event.media_types = [cached.media_type]


def _transcribed(event: MessageEvent, transcript: str) -> None:
    """Spare Hermes the listening: this is how it marks an event whose words it knows already."""
    event.text = transcript
    event._gateway_pending_stt_text = transcript
    event._gateway_pending_stt_transcripts = [transcript]
    event._gateway_pending_stt_echo_sent = True
