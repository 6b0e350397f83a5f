"""Where peers come in: the listening sockets, opened here or passed in, and the loop that accepts.

A socket that was passed in under a name, by systemd for one, takes the place of the one that the
settings name.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack, asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
import trio
from attrs import frozen

from hermes_mobile.server.access import DELIVER_SOCKET
from hermes_mobile.server.admin import AdminSide
from hermes_mobile.server.agent_line import AgentSide
from hermes_mobile.server.connection import serve_connection
from hermes_mobile.server.socket_file import SocketFileError, open_socket_file
from hermes_mobile.server.stream import SEND_BUFFER_BYTES
from hermes_mobile.server.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.settings import Settings
    from hermes_mobile.server.stream import SocketStream

log = structlog.get_logger()

Passed: TypeAlias = "Mapping[str, Sequence[socket.socket]]"
"""Listening sockets that this process was started with, by name."""

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 1024
"""Connections that the kernel may hold until they are accepted."""
ACCEPTS_AT_ONCE: Final = 64
"""Connections that are accepted before those that are there take their turn."""
ACCEPT_PAUSE: Final = 0.1
"""Seconds without accepting when descriptors or memory have run out."""
SHORTAGE_SECONDS: Final = 1.0
"""Failures closer to each other than this are one shortage, and logged once."""
EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class ListenError(Exception):
    """A listening socket cannot be had: one line that names the setting."""


@frozen
class Listener:
    """`sockets` listen; `serve_peer` serves who comes in, given the hub and the peer's address."""

    sockets: Sequence[socket.socket]
    serve_peer: Callable[[Hub, SocketStream, str], Awaitable[None]]
    secure: bool = False
    """Whether with TLS, once that is set up."""


@asynccontextmanager
async def open_listeners(settings: Settings, passed: Passed) -> AsyncIterator[list[Listener]]:
    """Every listener of the server but HTTP's; the first is the one that devices connect to.

    At the end of the block they are closed, and socket files that were made here are removed.

    *Errors*: ListenError.
    """
    with ExitStack() as opened:

        def open_local(
            name: str, path: Path | None, mode: int, group: str
        ) -> Sequence[socket.socket]:
            if name in passed or path is None:
                return passed.get(name, ())
            try:
                return [opened.enter_context(open_socket_file(path, mode, group))]
            except SocketFileError as error:
                raise ListenError(f"MOBILE_{name.upper()}_SOCKET: {error}") from None

        sockets = passed.get("ws") or await open_tcp("MOBILE", settings.host, settings.port)
        for sock in sockets:
            opened.enter_context(sock)
        mode, group = settings.deliver_socket_mode, settings.deliver_socket_group
        listeners = [
            Listener(sockets, serve_connection, secure=True),
            Listener(open_local("deliver", settings.deliver_socket, mode, group), serve_courier),
            Listener(open_local("admin", settings.admin_socket, 0o600, ""), AdminSide().serve),
        ]
        if settings.agent == "link":
            agents = list(open_local("agent", settings.agent_socket, 0o600, ""))
            if settings.agent_port is not None:
                agents.append(opened.enter_context(open_agent_port(settings.agent_port)))
            check_agent_sockets(agents, settings.agent_token)
            listeners.append(Listener(agents, AgentSide().serve))
        yield listeners


def passed_warnings(settings: Settings, passed: Passed) -> Iterator[str]:
    """What looks like a mistake in how passed sockets and settings go together, a line each."""
    chosen = {
        "ws": ("MOBILE_PORT", settings.port),
        "http": ("MOBILE_HTTP_PORT", settings.http_port),
    }
    addresses = {
        name: [s.getsockname() for s in passed.get(name, ()) if s.family != socket.AF_UNIX]
        for name in chosen
    }
    for name, (variable, port) in chosen.items():
        ports = [address[1] for address in addresses[name]]
        if name in passed and variable in settings.sources and port not in ports:
            yield f"{variable} has no effect: the socket {name} was passed in"
    hosts = [address[0] for address in addresses["ws"]]
    if not all(map(is_loopback, hosts)) and is_loopback(settings.host) and settings.tls is None:
        yield "the passed socket ws is unencrypted and open to other machines: put a TLS proxy before it"


def open_agent_port(port: int) -> socket.socket:
    """Listen for agents on this machine. *Errors*: ListenError."""
    try:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    except OSError as error:
        problem = (
            f"MOBILE_AGENT_PORT: cannot listen on port {port}: {os.strerror(error.errno or 0)}"
        )
        raise ListenError(problem) from error


def check_agent_sockets(sockets: Sequence[socket.socket], token: str | None) -> None:
    """*Errors*: ListenError when no agent could come, or any could."""
    if not sockets:
        raise ListenError("MOBILE_AGENT_SOCKET or MOBILE_AGENT_PORT must be set for --agent link")
    if token is None and any(sock.family != socket.AF_UNIX for sock in sockets):
        raise ListenError("MOBILE_AGENT_TOKEN must be set for an agent that comes by TCP")


async def serve_courier(hub: Hub, stream: SocketStream, _: str) -> None:
    """Serve a peer on the socket for deliveries, whose permissions are its credential (D26)."""
    await serve_connection(hub, stream, DELIVER_SOCKET)


async def open_tcp(prefix: str, host: str, port: int) -> list[socket.socket]:
    """Listen on every address that `host` names; `prefix` is that of the two settings.

    *Errors*: ListenError.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(f"{prefix}_PORT: port {port} of {host} is taken") from error
        problem = f"{prefix}_HOST, {prefix}_PORT: cannot listen there: {error.strerror}"
        raise ListenError(problem) from error
    return [socket.socket(fileno=listener.socket.detach()) for listener in listeners]


async def accept(
    listener: socket.socket,
    serve_peer: Callable[[SocketStream, str], Awaitable[None]],
    open_stream: Callable[[socket.socket], SocketStream],
    connections: trio.Nursery,
) -> None:
    """Accept for ever; `serve_peer` runs in `connections`, with the stream and the peer's address.

    Closes `listener` when cancelled.
    """
    short_until = -inf
    early = True  # they came before the listener had anything to hand on
    with listener:
        prepare(listener)
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                for _ in range(ACCEPTS_AT_ONCE):
                    peer, address = listener.accept()
                    if early:
                        prepare(peer)
                    host = "unix" if peer.family == socket.AF_UNIX else address[0]
                    connections.start_soon(serve_peer, open_stream(peer), host)
            except BlockingIOError:
                early = False
            except OSError as error:
                if error.errno in EXHAUSTED:
                    if trio.current_time() > short_until:
                        log.error("cannot accept", error=error.strerror)
                    short_until = trio.current_time() + SHORTAGE_SECONDS
                    await trio.sleep(ACCEPT_PAUSE)
                # Else the peer left before it was accepted.


def prepare(sock: socket.socket) -> None:
    """Set what connections take over from their listener: that is cheaper than to tell each."""
    sock.setblocking(False)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The kernel doubles what it is told, for its own book-keeping.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)
