"""A device that speaks WebSocket and TLS by libraries of other people."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from websockets.sync.client import connect

from certificates import client_context
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES, MAX_MEDIA_BYTES
from street import PATIENCE, TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.client import ClientConnection


@contextmanager
def dial(url: str, **options: Any) -> Iterator[ClientConnection]:
    """A WebSocket at `url` that has said nothing yet."""
    with connect(url, ssl=client_context(), max_size=None, **options) as websocket:
        yield websocket


@contextmanager
def device(
    url: str, id: str = "phone", *, token: str = TOKEN, **options: Any
) -> Iterator[ClientConnection]:
    """A device that is ready."""
    with dial(url, **options) as websocket:
        send(websocket, "hello", token=token, device={"id": id})
        assert expect(websocket, "ready")["device"]["id"] == id
        yield websocket


def send(websocket: ClientConnection, t: str, **fields: Any) -> None:
    websocket.send(json.dumps({"t": t, **fields}))


def expect(websocket: ClientConnection, t: str) -> dict[str, Any]:
    """The first frame of this type; those before it are passed over."""
    while (frame := json.loads(websocket.recv(PATIENCE)))["t"] != t:
        pass
    return frame


def echo(websocket: ClientConnection, id: str) -> None:
    """Say something, and hear it."""
    send(websocket, "text", id=id, text=id)
    assert expect(websocket, "message")["text"] == id


def exchange_large(websocket: ClientConnection) -> None:
    """A short text, then the largest there is in each direction: a frame up, a file down."""
    echo(websocket, "m1")
    while not expect(websocket, "typing").get("stop"):
        pass  # a client that reads TLS in one thread while another writes is not to be relied on
    websocket.send("x" * MAX_FRAME_BYTES)
    assert expect(websocket, "error")["code"] == "bad_frame"
    send(websocket, "text", id="m2", text=f"/file {MAX_MEDIA_BYTES}")
    parts = [expect(websocket, "media")]
    while not parts[-1]["final"]:
        parts.append(expect(websocket, "media"))
    assert [part["part"] for part in parts] == [0, 1, 2]
