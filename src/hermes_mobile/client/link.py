"""From a URL to a stream of bytes, which this client owns: whatever happens, it is closed."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import trio
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

SEND_BUFFER_BYTES: Final = 64 * 1024
"""What the kernel is asked to hold for us (it doubles that): little, so that what it takes from us
means that the peer's side took what was there before (T5)."""
SLICE_BYTES: Final = 64 * 1024
"""One send: small enough that the bytes of a large frame are seen to move."""


@frozen
class Endpoint:
    """Where a server listens.

    *Errors*: ValueError for what is no `ws://` or `wss://` URL.
    """

    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def of(cls, url: str) -> Endpoint:
        split = urlsplit(url)
        if split.scheme not in {"ws", "wss"} or not split.hostname:
            raise ValueError("url: ws://host:port/path or wss://host/path")
        if split.username is not None:
            raise ValueError("url: no user and no password; the token has an argument of its own")
        secure = split.scheme == "wss"
        port = split.port or (443 if secure else 80)
        path = (split.path or "/") + (f"?{split.query}" if split.query else "")
        return cls(split.hostname, port, path, secure)

    @property
    def header(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


OpenStream: TypeAlias = "Callable[[Endpoint], Awaitable[trio.abc.Stream]]"


def over_tcp(context: ssl.SSLContext | None) -> OpenStream:
    """Opens TCP connections, and TLS over them for `wss`; `context` is the system's by default."""

    async def open_stream(endpoint: Endpoint) -> trio.abc.Stream:
        try:
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        except OSError as error:
            where = f"{endpoint.host}, port {endpoint.port}"
            raise OSError(f"{where}: {_reason(error)}") from None
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if not endpoint.secure:
            return stream
        secured = trio.SSLStream(
            stream,
            context or ssl.create_default_context(),
            server_hostname=endpoint.host,
            https_compatible=True,
        )
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(secured)
            raise
        return secured

    return open_stream


def _reason(error: OSError) -> str | None:
    """Why no address could be connected to, or found: that of the first one stands for all."""
    match error.__cause__:
        case ExceptionGroup(exceptions=[OSError(errno=int(number)), *_]):
            return os.strerror(number)
        case _:
            return error.strerror


def over_unix(path: Path) -> OpenStream:
    """Opens connections to the Unix socket at `path`, whatever the URL says."""

    async def open_stream(_: Endpoint) -> trio.abc.Stream:
        try:
            stream = await trio.open_unix_socket(path)
        except OSError as error:
            raise OSError(f"{path}: {error.strerror}") from None
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        return stream

    return open_stream


class Link(trio.abc.Stream):
    """The stream under one WebSocket; tells when bytes move and when they can no more.

    `on_moved` is called when the kernel took bytes; `on_end` when the peer has ended or the stream
    broke, which the WebSocket library does not notice while it shakes hands.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._first = b""
        self.on_moved: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self.torn = False
        """A frame was begun and not finished: nothing can follow it, not even a Close."""

    @property
    def refusal(self) -> str:
        """What the server answered instead of the upgrade, in words for a person."""
        if not self._first:
            return "the connection was lost"
        protocol, _, status = self._first.partition(b" ")
        if protocol.startswith(b"HTTP/") and status.isdigit():
            return f"the server answered HTTP {status.decode()}"
        return "the server does not speak WebSocket"

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = b""
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        finally:
            if not data:
                self.on_end()
        self._first = self._first or data[:12]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self.torn:
            raise trio.ClosedResourceError
        self.torn = True
        with memoryview(data) as view:
            for start in range(0, len(view), SLICE_BYTES):
                await self._stream.send_all(view[start : start + SLICE_BYTES])
                self.on_moved()
        self.torn = False

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Let the library leave; the stream stays open for `close`."""
        self.on_end()
        await trio.lowlevel.checkpoint()

    async def close(self) -> None:
        """Close the stream at once: what was to be said was said by the WebSocket."""
        with suppress(trio.BrokenResourceError):
            await trio.aclose_forcefully(self._stream)
