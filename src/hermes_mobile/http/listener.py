"""The sockets of the HTTP side, and Hypercorn's Trio worker on each connection.

Hypercorn could accept by itself, but its writes are shielded: a peer that asks and does not read would
hold up the end of the server (D35), and a fault in one connection would end all of them.
"""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from hermes_mobile.http.assets import load_assets
from hermes_mobile.http.lag import LoopLag
from hermes_mobile.http.site import build_site
from hermes_mobile.server.fault import where
from hermes_mobile.server.listeners import accept, open_tcp
from hermes_mobile.server.stream import SocketStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from ssl import SSLContext

    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.listeners import Passed
    from hermes_mobile.server.settings import Settings

log = structlog.get_logger()

MAX_CONNECTIONS: Final = 256
"""One more is closed at once: descriptors are for devices."""
CONNECTION_SECONDS: Final = 60.0
"""How long a connection may last, whatever its peer does, or does not."""
HANDSHAKE_SECONDS: Final = 5.0
"""How long TLS may take to begin."""
IDLE_SECONDS: Final = 2.0
"""How long it may wait for a request; Hypercorn keeps it as long when the peer has left."""


@asynccontextmanager
async def open_http(
    settings: Settings, passed: Passed = MappingProxyType({})
) -> AsyncIterator[HttpSide | None]:
    """Listen on what was `passed`, else as `settings` say; None when they say `off`.

    *Errors*: ListenError.
    """
    listeners = passed.get("http")
    if not listeners:
        if settings.http_port is None:
            yield None
            return
        listeners = await open_tcp("MOBILE_HTTP", settings.http_host, settings.http_port)
    try:
        yield HttpSide(listeners, secure=settings.tls is not None)
    finally:
        for listener in listeners:
            listener.close()


class HttpSide:
    """Listens already, and answers while it runs."""

    def __init__(self, listeners: Sequence[socket.socket], *, secure: bool) -> None:
        self._listeners = listeners
        self._secure = secure
        self._open = 0
        self._config = Config()
        self._config.errorlog = None  # what goes wrong is logged here, and in `site`
        self._config.include_server_header = False
        self._config.keep_alive_timeout = IDLE_SECONDS
        self._config.ssl_handshake_timeout = HANDSHAKE_SECONDS

    @property
    def url(self) -> str:
        """The console, as a browser on this host reaches it; empty on a Unix socket."""
        if self._listeners[0].family == socket.AF_UNIX:
            return ""
        host, port = self._listeners[0].getsockname()[:2]
        if ip_address(host).is_unspecified:
            host = "::1" if ":" in host else "127.0.0.1"
        if ":" in host:
            host = f"[{host}]"
        return f"{'https' if self._secure else 'http'}://{host}:{port}/"

    async def run(self, hub: Hub) -> None:
        """Answer for `hub`, until cancelled."""
        lag = LoopLag()
        app = ASGIWrapper(build_site(hub, lag, load_assets()))  # type: ignore[arg-type]
        hub.avatar_page = self.url and f"{self.url}avatar/"
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lag.measure)
                serve_peer = partial(self._serve, hub, app)
                open_stream = partial(SocketStream, write_timeout=CONNECTION_SECONDS)
                for listener in self._listeners:
                    nursery.start_soon(accept, listener, serve_peer, open_stream, nursery)
        finally:
            hub.avatar_page = ""

    async def _serve(self, hub: Hub, app: ASGIWrapper, stream: SocketStream, _: str) -> None:
        if self._open >= MAX_CONNECTIONS:
            stream.close()
            return
        self._open += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.cancel_scope.deadline = trio.current_time() + CONNECTION_SECONDS
                nursery.start_soon(close_when_cancelled, stream)
                context, state = WorkerContext(None), ConnectionState({})
                transport = secured(stream, hub.settings.tls)
                await TCPServer(app, self._config, context, state, transport)  # type: ignore[arg-type]
                nursery.cancel_scope.cancel()
        except* Exception as faults:  # noqa: BLE001 - no fault leaves its connection
            log.error("http connection fault", **where(faults))
        finally:
            self._open -= 1


def secured(stream: SocketStream, tls: SSLContext | None) -> trio.abc.Stream:
    """`stream` with TLS if it is set up, but not on this machine: as `Hub.open_stream`."""
    if tls is None or stream.socket.family == socket.AF_UNIX:
        return stream
    return trio.SSLStream(stream, tls, server_side=True, https_compatible=True)


async def close_when_cancelled(stream: SocketStream) -> None:
    """Close `stream` on cancellation: a write under a shield notices nothing else."""
    try:
        await trio.sleep_forever()
    finally:
        stream.close()
