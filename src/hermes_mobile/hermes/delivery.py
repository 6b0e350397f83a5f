"""What another process than the gateway sends, `hermes send` above all: a delivery to the server's door.

There is one agent link, and the gateway has it. So this is the device protocol's `deliver`, which the
server answers while the gateway is away, too.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import os
import secrets
from pathlib import Path
from typing import Any

from . import targets
from .files import FileRefusedError, read_file

MAX_TEXT_CHARS = 12_000
MAX_MESSAGE_BYTES = 16 << 20
PATIENCE = 40.0
"""Seconds that the server has to say how it went."""


class NotDeliveredError(Exception):
    """The message says why, in one line."""


async def deliver(
    pconfig: Any,
    chat_id: str,
    message: str,
    *,
    thread_id: str | None = None,
    media_files: list[tuple[str, bool]] | None = None,
    force_document: bool = False,
) -> dict[str, Any]:
    """Send a text and files to a device; what it is told is kept while it is away (D25)."""
    device = targets.device_id(chat_id)
    try:
        if targets.is_home(device, pconfig):
            await asyncio.to_thread(targets.check_home)
        files = [
            await asyncio.to_thread(read_file, path, _kind(path, is_voice, force_document))
            for path, is_voice in media_files or ()
        ]
        ids = await _deliver(device, message, files)
    except (targets.MisreadError, FileRefusedError, NotDeliveredError) as error:
        return {"error": str(error)}
    return {"success": True, "platform": "mobile", "chat_id": chat_id, "message_id": ids[-1]}


async def _deliver(device: str, text: str, files: list[dict[str, Any]]) -> list[str]:
    """The ids of what was delivered. Errors: NotDeliveredError."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    pieces = [text[at : at + MAX_TEXT_CHARS] for at in range(0, len(text), MAX_TEXT_CHARS)]
    said: list[dict[str, Any]] = [{"text": piece} for piece in pieces if piece.strip()]
    frames: list[dict[str, Any]] = [
        {"t": "deliver", "id": secrets.token_hex(8), "target": device, "keep": True, **what}
        for what in (*said, *({"media": file} for file in files))
    ]
    if not frames:
        raise NotDeliveredError("there is nothing to say")
    url = _url()
    try:
        async with (
            asyncio.timeout(PATIENCE),
            connect(url, max_size=MAX_MESSAGE_BYTES, compression=None, proxy=None) as server,
        ):
            name = f"send-{secrets.token_hex(4)}"
            await server.send(json.dumps({"t": "hello", "token": _token(), "device": {"id": name}}))
            await _answer(server, "ready")
            for frame in frames:
                await server.send(json.dumps(frame))
            # A pong comes after the outcome of every delivery before its ping (D25).
            await server.send(json.dumps({"t": "ping", "ts": name}))
            await _answer(server, "pong")
    except (OSError, TimeoutError, WebSocketException) as error:
        raise NotDeliveredError(f"no hermes-mobile server at {url}") from error
    return [frame["id"] for frame in frames]


async def _answer(server: Any, t: str) -> None:
    """Wait for a frame of type `t`. Errors: NotDeliveredError when an error comes first."""
    while True:
        match json.loads(await server.recv()):
            case {"t": "error", "code": code, "message": message}:
                raise NotDeliveredError(f"the hermes-mobile server says {code}: {message}")
            case {"t": answer} if answer == t:
                return
            case _:
                pass


def _kind(path: str, is_voice: bool, force_document: bool) -> str:
    if force_document:
        return "document"
    if is_voice:
        return "voice"
    if Path(path).suffix.lower() == ".gif":
        return "animation"
    family = (mimetypes.guess_type(path)[0] or "").partition("/")[0]
    return {"image": "image", "video": "video", "audio": "voice"}.get(family, "document")


def _url() -> str:
    """Where `hermes-mobile send` would look, too."""
    host = os.environ.get("MOBILE_HOST") or "127.0.0.1"
    port = os.environ.get("MOBILE_PORT") or "8787"
    path = os.environ.get("MOBILE_PATH") or "/ws"
    return f"ws://[{host}]:{port}{path}" if ":" in host else f"ws://{host}:{port}{path}"


def _token() -> str:
    """The first deliver token, else the app token."""
    first = os.environ.get("MOBILE_DELIVER_TOKENS", "").split(",")[0].strip()
    return first or os.environ.get("MOBILE_TOKEN", "")
