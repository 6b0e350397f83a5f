"""What people and agents say to each other, as content blocks of ACP."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never
from urllib.parse import quote, unquote, urlsplit

import pybase64
from attrs import frozen

from hermes_mobile.agents import FileInput, OutgoingFile, TextInput, VoiceInput
from hermes_mobile.agents.acp.jsonrpc import as_object
from hermes_mobile.protocol.frames import MediaIn, MediaOut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_mobile.agents import Input

Block: TypeAlias = dict[str, Any]

MAX_EMBEDDED_TEXT_BYTES: Final = 512 * 1024
"""A text file above it is given by its path, where it has one: few models read more at once."""
AUDIO_MIME: Final = {"wav": "audio/wav", "ogg": "audio/ogg"}


class RefusalError(Exception):
    """The agent cannot take this; the message tells the person why."""


@frozen
class PromptCapabilities:
    """What an agent takes beside texts and links, which each of them does."""

    image: bool = False
    audio: bool = False
    embedded: bool = False

    @classmethod
    def of(cls, capabilities: Mapping[str, Any]) -> PromptCapabilities:
        """Read `promptCapabilities`; what is not said to be true is not there."""
        said = (capabilities.get(name) is True for name in ("image", "audio", "embeddedContext"))
        return cls(*said)


def prompt_of(message: Input, can: PromptCapabilities) -> list[Block]:
    """The blocks that tell an agent what a person sent. Errors: RefusalError."""
    match message:
        case TextInput(text=text):
            return [text_block(text)]
        case VoiceInput(transcript=str(transcript)) if transcript.strip():
            return [text_block(transcript)]
        case VoiceInput():
            if can.audio:
                return [_inline("audio", message.data, AUDIO_MIME[message.format])]
            raise RefusalError(
                "This agent takes voice only as text, and this recording came without a transcript."
            )
        case FileInput():
            block = _file_block(message, can)
            if message.caption:
                return [text_block(message.caption), block]
            if block["type"] in {"resource", "resource_link"}:
                # Hermes takes a prompt without any text for an empty one.
                return [text_block(f"A file: {message.filename or message.id}"), block]
            return [block]
        case _:
            assert_never(message)


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _file_block(file: FileInput, can: PromptCapabilities) -> Block:
    """A file in the form that most agents can use.

    A file with a path is linked before it is embedded: agents announce that they take embedded
    files, and then drop the binary ones, but any agent can be told of a path.
    """
    if file.kind is MediaIn.IMAGE and can.image:
        return _inline("image", file.data, file.mime)
    if file.kind is MediaIn.AUDIO and can.audio:
        return _inline("audio", file.data, file.mime)
    uri = (
        f"attachment:///{quote(file.filename or file.id)}"
        if file.path is None
        else file.path.as_uri()
    )
    text = _as_text(file)
    if text is not None and can.embedded:
        return {"type": "resource", "resource": {"uri": uri, "mimeType": file.mime, "text": text}}
    if file.path is not None:
        name = file.filename or file.path.name
        link = {"type": "resource_link", "uri": uri, "name": name, "mimeType": file.mime}
        return link | {"size": len(file.data)}
    if can.embedded:
        blob = pybase64.b64encode_as_string(file.data)
        return {"type": "resource", "resource": {"uri": uri, "mimeType": file.mime, "blob": blob}}
    if text is not None:
        return text_block(f"{file.filename or file.id}:\n\n{text}")
    raise RefusalError(f"This agent cannot be given files of this kind ({file.kind}, {file.mime}).")


def _as_text(file: FileInput) -> str | None:
    """What stands in a text file, if it is one that may be embedded."""
    if len(file.data) > MAX_EMBEDDED_TEXT_BYTES or b"\0" in file.data:
        return None
    if not file.mime.startswith("text/") and not file.mime.endswith(("json", "xml", "yaml")):
        return None
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None


def _inline(type: str, data: bytes, mime: str) -> Block:
    return {"type": type, "data": pybase64.b64encode_as_string(data), "mimeType": mime}


def said_by(block: Mapping[str, Any]) -> str | OutgoingFile | None:
    """What a block of the agent's message says; None for one that says nothing we know."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "data": str(data), **rest}:
            return _outgoing(MediaOut.IMAGE, data, rest.get("mimeType"), rest.get("uri"))
        case {"type": "audio", "data": str(data), **rest}:
            return _outgoing(MediaOut.VOICE, data, rest.get("mimeType"), None)
        case {"type": "resource", "resource": {"text": str(text), **rest}}:
            return _document(text.encode(errors="replace"), rest.get("mimeType"), rest.get("uri"))
        case {"type": "resource", "resource": {"blob": str(blob), **rest}}:
            mime = rest.get("mimeType")
            is_image = isinstance(mime, str) and mime.startswith("image/")
            kind = MediaOut.IMAGE if is_image else MediaOut.DOCUMENT
            return _outgoing(kind, blob, mime, rest.get("uri"))
        case {"type": "resource_link", "uri": str(uri), **rest}:
            name = rest.get("title") or rest.get("name")
            return f"{name}: {uri}" if isinstance(name, str) and name != uri else uri
        case _:
            return None


def _outgoing(kind: MediaOut, data: str, mime: object, uri: object) -> OutgoingFile | None:
    try:
        decoded = pybase64.b64decode(data)
    except ValueError:
        return None
    return OutgoingFile(kind, decoded, _name_in(uri), mime if isinstance(mime, str) else "")


def _document(data: bytes, mime: object, uri: object) -> OutgoingFile:
    given = mime if isinstance(mime, str) else "text/plain"
    return OutgoingFile(MediaOut.DOCUMENT, data, _name_in(uri), given)


def _name_in(uri: object) -> str:
    """The file name at the end of a URI; empty where there is none."""
    if not isinstance(uri, str):
        return ""
    try:
        return PurePosixPath(unquote(urlsplit(uri).path)).name
    except ValueError:
        return ""


def texts_in(content: object) -> list[str]:
    """The texts and the diffs among what a tool call shows of itself."""
    found = []
    for item in content if isinstance(content, list) else ():
        match as_object(item):
            case {"type": "content", "content": {"type": "text", "text": str(text)}}:
                found.append(text)
            case {"type": "diff", "path": str(path), "newText": str(text), **rest}:
                old = rest.get("oldText")
                removed = "" if not isinstance(old, str) else _marked("-", old)
                found.append(f"{path}\n{removed}{_marked('+', text)}")
            case _:
                pass
    return found


def has_diff(content: object) -> bool:
    """Whether a tool call shows what it changes."""
    items = content if isinstance(content, list) else ()
    return any(as_object(item).get("type") == "diff" for item in items)


def _marked(mark: str, text: str) -> str:
    return "".join(f"{mark}{line}\n" for line in text.splitlines())
