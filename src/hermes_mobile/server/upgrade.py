"""The HTTP request that opens a WebSocket, as far as it decides who may go on (D1, D4, D26, D37).

It is validated and answered here: a refusal should say in words what this port is and end at once, and
a hostile head must not be a library's to stumble over.
"""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import suppress
from hashlib import sha1
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import trio
from attrs import field, frozen

from hermes_mobile.server.access import resolve_peer

if TYPE_CHECKING:
    from hermes_mobile.server.access import Peer
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.stream import SocketStream
    from hermes_mobile.server.throttle import PendingHellos

MAX_REQUEST_BYTES: Final = 16 * 1024
CONTROL_CHARACTER: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
END_OF_HEAD: Final = b"\r\n\r\n"
KEY_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What RFC 6455 appends to the peer's key before it is hashed."""
DISCARD_SECONDS: Final = 1.0
"""How long a refused peer is listened to, so that it can read the refusal."""


@frozen
class UpgradeRequest:
    """`headers` by lower-case name, each with all its values; `path` without its query.

    `rest` is what the peer sent behind its request.
    """

    method: bytes
    path: str = field(repr=False)
    headers: dict[bytes, list[bytes]] = field(repr=False)
    rest: bytes = field(repr=False)

    @property
    def wants_websocket(self) -> bool:
        """Whether it asks for the protocol that is spoken here."""
        return self._lists(b"upgrade", b"websocket") and self._lists(
            b"sec-websocket-version", b"13"
        )

    @property
    def well_formed(self) -> bool:
        """Whether it asks as RFC 6455 demands."""
        return (
            self.method == b"GET"
            and b"host" in self.headers
            and self._lists(b"connection", b"upgrade")
            and len(self.headers.get(b"sec-websocket-key", [])) == 1
        )

    @property
    def acceptance(self) -> bytes:
        """The whole HTTP answer that opens the WebSocket; compression is never negotiated."""
        key = self.headers[b"sec-websocket-key"][0]
        digest = b64encode(sha1(key + KEY_SUFFIX, usedforsecurity=False).digest())
        return (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %s\r\n\r\n" % digest
        )

    def _lists(self, name: bytes, token: bytes) -> bool:
        values = b",".join(self.headers.get(name, []))
        return token in (value.strip().lower() for value in values.split(b","))


class RefusedError(Exception):
    """There will be no WebSocket; `status` is the HTTP answer."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Place:
    """The place that a connection holds among those that have not said hello (D37)."""

    def __init__(self, pending: PendingHellos) -> None:
        self._pending = pending
        self._client: str | None = None
        self._held = False

    def take(self, peer: Peer) -> None:
        """Take a place for `peer`, instead of the one held. *Errors*: RefusedError (503)."""
        self.leave()
        if not self._pending.enter(peer.client):
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE)
        self._client = peer.client
        self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._pending.leave(self._client)


async def receive_upgrade(
    hub: Hub, stream: SocketStream, place: Place, peer: Peer
) -> tuple[UpgradeRequest, Peer] | None:
    """Read the request; returns it and the peer it speaks for, or None when the peer ends first.

    *Errors*: RefusedError for whatever gets no WebSocket here (D1, D37).
    """
    place.take(peer)
    request = await read_request(stream)
    if request is None:
        return None
    forwarded = resolve_peer(peer.address, request.headers, hub.settings.trusted_proxies)
    if forwarded.client != peer.client:
        place.take(forwarded)
    if request.path != hub.settings.path:
        raise RefusedError(HTTPStatus.NOT_FOUND)
    if not request.wants_websocket:
        raise RefusedError(HTTPStatus.UPGRADE_REQUIRED)
    if not request.well_formed:
        raise RefusedError(HTTPStatus.BAD_REQUEST)
    if hub.throttle.refuse_upgrade(forwarded.client, trio.current_time()):
        raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS)
    return request, forwarded


async def refuse(stream: SocketStream, status: HTTPStatus, path: str) -> None:
    """Answer in HTTP and let the peer read it; `path` is where the WebSocket is."""
    with trio.move_on_after(DISCARD_SECONDS), suppress(trio.BrokenResourceError):
        await stream.send_all(refusal(status, path))
        await stream.discard()


async def read_request(stream: SocketStream) -> UpgradeRequest | None:
    """Read one request head; None when the peer ends first.

    *Limits*: 16 KiB. *Errors*: RefusedError for what is no HTTP, TLS for instance.
    """
    received = b""
    while (end := received.find(END_OF_HEAD)) < 0 and len(received) < MAX_REQUEST_BYTES:
        data = await stream.receive_some()
        if not data:
            return None
        received += data
        if not received[:1].isalpha():
            raise RefusedError(HTTPStatus.BAD_REQUEST)
    head, rest = received[: end + len(END_OF_HEAD)], received[end + len(END_OF_HEAD) :]
    if end < 0 or len(head) > MAX_REQUEST_BYTES:
        raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    request_line, *lines = head[:end].split(b"\r\n")
    words = request_line.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):  # noqa: PLR2004 - method, target, version
        raise RefusedError(HTTPStatus.BAD_REQUEST)
    if any(CONTROL_CHARACTER.search(line) for line in lines):
        raise RefusedError(HTTPStatus.BAD_REQUEST)
    headers: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers.setdefault(name.strip().lower(), []).append(value.strip())
    path = words[1].partition(b"?")[0].decode("latin-1")
    return UpgradeRequest(words[0], path, headers, rest)


def refusal(status: HTTPStatus, path: str) -> bytes:
    """The whole HTTP answer to a request that gets no WebSocket: one line that says what this is."""
    reason = {
        HTTPStatus.TOO_MANY_REQUESTS: "too many failed attempts from this address, wait a minute",
        HTTPStatus.SERVICE_UNAVAILABLE: "too many connections that have not said hello, try later",
    }.get(status, f"this port speaks WebSocket, at {path}")
    body = f"hermes-mobile: {reason}\n".encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Connection: close",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
    ]
    if status is HTTPStatus.UPGRADE_REQUIRED:
        lines[1:1] = ["Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
