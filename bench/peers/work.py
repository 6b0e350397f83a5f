"""The protocol work that all peers do: bytes of an app's frame in, bytes of the answers out.

The libraries around it are all that differs. As in hermes-mobile: frames are parsed with orjson and
checked, ids are deduplicated, a text is echoed in a turn of five frames, an upload is put together
and hashed, `/file N` is answered in chunks of base64.
"""

from __future__ import annotations

import hmac
import os
import re
import time
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson
import pybase64

from hermes_mobile.protocol.limits import (
    DEDUP_IDS_TOTAL,
    DEDUP_WINDOW,
    MAX_ID_CHARS,
    MAX_MEDIA_BYTES,
    MAX_MEDIA_PARTS,
    MAX_OPEN_UPLOADS,
    MAX_TEXT_CHARS,
    MEDIA_CHUNK_BYTES,
    REPLY_PIECE_CHARS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Fields: TypeAlias = dict[str, Any]

HOST: Final = "127.0.0.1"
PATH: Final = "/ws"
PING_SECONDS: Final = 30
"""Between heartbeats, which the libraries do by themselves."""
POLICY_VIOLATION: Final = 1008

THINKING: Final = b'{"t":"avatar","state":"thinking"}'
SPEAKING: Final = b'{"t":"avatar","state":"speaking"}'
TYPING: Final = b'{"t":"typing"}'
TYPING_STOP: Final = b'{"t":"typing","stop":true}'
CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
KINDS: Final = {"image", "video", "document", "audio"}
CAPABILITIES: Final = {
    "text": True,
    "voice": False,
    "typing": True,
    "avatar_states": ["idle", "thinking", "speaking"],
    "media_in": sorted(KINDS),
    "media_out": ["document"],
    "prompts": [],
    "edit": False,
    "max_media_bytes": MAX_MEDIA_BYTES,
    "max_text_chars": MAX_TEXT_CHARS,
}
PROSE: Final = "Files are made of sentences like this one. "


class RefusedError(Exception):
    """A frame is refused; `fatal` ends the connection after `frame` was sent."""

    def __init__(self, code: str, message: str, *, fatal: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.fatal = fatal
        self.frame = orjson.dumps({"t": "error", "code": code, "message": message, "fatal": fatal})


class Service:
    """What all connections share."""

    def __init__(self) -> None:
        self.token = os.environ["MOBILE_TOKEN"].encode()
        self._seen: dict[tuple[str, str], float] = {}
        self._numbers = count(1)

    def is_new(self, device_id: str, message_id: str) -> bool:
        """Whether a message was not said before; it was, from now on."""
        now, seen = time.monotonic(), self._seen
        key = device_id, message_id
        if now - seen.get(key, -DEDUP_WINDOW) < DEDUP_WINDOW:
            return False
        seen.pop(key, None)
        seen[key] = now
        if len(seen) > DEDUP_IDS_TOTAL:
            del seen[next(iter(seen))]
        return True

    def make_id(self) -> str:
        return f"peer-{next(self._numbers)}"


class Conversation:
    """One connection. `hear` takes a frame and makes the answers, one after the other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._device_id = ""
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._uploaded = 0

    def hear(self, data: str | bytes | memoryview) -> Iterable[bytes]:
        """*Errors*: RefusedError, also while the answers are made."""
        try:
            fields = orjson.loads(data)
        except ValueError:
            raise self._refusal("frame: not JSON") from None
        if not isinstance(fields, dict) or not isinstance(fields.get("t"), str):
            raise self._refusal("t: a string is expected")
        t = fields["t"].strip().lower()
        if not self._device_id:
            return [self._hello(t, fields)]
        match t:
            case "text":
                return self._text(fields)
            case "media":
                return self._media(fields)
            case "ping":
                return [orjson.dumps({"t": "pong", "ts": fields.get("ts")})]
            case _:
                return []

    def _refusal(self, message: str) -> RefusedError:
        return RefusedError("bad_frame", message, fatal=not self._device_id)

    def _hello(self, t: str, fields: Fields) -> bytes:
        token, device = fields.get("token"), fields.get("device")
        if t != "hello" or not isinstance(device, dict):
            raise self._refusal("hello is expected, with a device")
        if not isinstance(token, str) or not hmac.compare_digest(
            token.encode(), self._service.token
        ):
            raise RefusedError("auth_failed", "token: not valid", fatal=True)
        self._device_id = identifier(device.get("id"))
        return orjson.dumps(
            {
                "t": "ready",
                "v": 1,
                "session": f"mobile:{self._device_id}",
                "device": {"id": self._device_id, "name": ""},
                "avatar_url": "",
                "capabilities": CAPABILITIES,
            }
        )

    def _text(self, fields: Fields) -> Iterator[bytes]:
        message_id, text = identifier(fields.get("id")), fields.get("text")
        if not isinstance(text, str) or not text.strip():
            raise RefusedError("bad_frame", "text: a string that is not empty")
        if len(text) > MAX_TEXT_CHARS:
            raise RefusedError("too_big", f"text: at most {MAX_TEXT_CHARS} characters")
        if not self._service.is_new(self._device_id, message_id):
            return
        yield THINKING
        yield TYPING
        if text.startswith("/file "):
            yield from self._file(int(text.removeprefix("/file ")))
        else:
            yield from self._message(text)
        yield SPEAKING
        yield TYPING_STOP

    def _message(self, text: str) -> Iterator[bytes]:
        reply_id = self._service.make_id()
        total = -(-len(text) // REPLY_PIECE_CHARS)
        for index in range(total):
            yield orjson.dumps(
                {
                    "t": "message",
                    "id": reply_id,
                    "text": text[index * REPLY_PIECE_CHARS : (index + 1) * REPLY_PIECE_CHARS],
                    "chunk": {"index": index, "total": total},
                    "final": index == total - 1,
                }
            )

    def _file(self, size: int) -> Iterator[bytes]:
        data = (PROSE * (size // len(PROSE) + 1))[:size].encode()
        file_id = self._service.make_id()
        parts = -(-size // MEDIA_CHUNK_BYTES)
        for part in range(parts):
            head = {
                "t": "media",
                "id": file_id,
                "kind": "document",
                "mime": "text/plain",
                "filename": "peer.txt",
                "part": part,
                "parts": parts,
                "final": part == parts - 1,
                "size": size,
            }
            chunk = data[part * MEDIA_CHUNK_BYTES : (part + 1) * MEDIA_CHUNK_BYTES]
            encoded = pybase64.b64encode(chunk)
            yield b"".join((orjson.dumps(head)[:-1], b',"data":"', encoded, b'"}'))

    def _media(self, fields: Fields) -> Iterator[bytes]:
        file_id = identifier(fields.get("id"))
        part, parts = fields.get("part"), fields.get("parts")
        if fields.get("kind") not in KINDS:
            raise RefusedError("unsupported_frame", "kind: not known")
        if not (isinstance(parts, int) and isinstance(part, int) and 0 <= part < parts):
            raise RefusedError("bad_frame", "part, parts: 0 <= part < parts")
        if parts > MAX_MEDIA_PARTS:
            raise RefusedError("bad_frame", f"parts: at most {MAX_MEDIA_PARTS}")
        try:
            data = pybase64.b64decode(fields.get("data") or "", validate=True)
        except ValueError:
            raise RefusedError("bad_frame", "data: not base64") from None
        if self._uploaded + len(data) > MAX_MEDIA_BYTES or len(self._uploads) > MAX_OPEN_UPLOADS:
            raise RefusedError("too_big", f"data: at most {MAX_MEDIA_BYTES} bytes")
        chunks = self._uploads.setdefault(file_id, {})
        chunks[part] = data
        self._uploaded += len(data)
        if len(chunks) < parts:
            return
        file = b"".join(chunks[part] for part in range(parts))
        self._uploaded -= len(file)
        del self._uploads[file_id], chunks
        if not self._service.is_new(self._device_id, file_id):
            return
        yield THINKING
        yield TYPING
        digest = sha256(file).hexdigest()
        yield from self._message(f"size: {len(file)} bytes\nsha256: {digest}")
        yield SPEAKING
        yield TYPING_STOP


def identifier(value: object) -> str:
    """*Errors*: RefusedError."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise RefusedError("bad_frame", "id: a string is expected")
    value = value.strip()[:MAX_ID_CHARS]
    if not value or CONTROL.search(value):
        raise RefusedError("bad_frame", "id: not empty, without control characters")
    return value


def announce(port: int) -> None:
    """Say where the peer listens, as the bench expects it."""
    print(f"listens on ws://{HOST}:{port}{PATH}", flush=True)  # noqa: T201 - to the parent process
