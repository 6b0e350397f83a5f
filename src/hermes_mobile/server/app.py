"""The server as a whole: listeners inside, connections around them, turns around those.

Stopping is that order: nothing new comes in, then talk may finish within the grace period, then every
connection is closed in words, then whatever is left is cancelled (D35).
"""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
import trio

from hermes_mobile.server import ending as endings
from hermes_mobile.server.connection import serve_connection
from hermes_mobile.server.fault import where
from hermes_mobile.server.hub import Address, Hub
from hermes_mobile.server.stream import SEND_BUFFER_BYTES, SocketStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hermes_mobile.agents import Agent
    from hermes_mobile.server.settings import Settings

log = structlog.get_logger()

Companion: TypeAlias = Callable[[Hub], Awaitable[None]]
"""Something that runs beside the server, the HTTP side for one."""

BACKLOG: Final = 1024
"""Connections that the kernel may hold until they are accepted."""
CUT_SECONDS: Final = 0.4
"""After the grace period: what the turns that were cut have to unwind."""
CLOSE_SECONDS: Final = 4.5
"""After that: what all connections together have to drain and close."""
ACCEPT_PAUSE: Final = 0.1
"""Seconds without accepting when descriptors or memory have run out."""
SHORTAGE_SECONDS: Final = 1.0
"""Failures closer to each other than this are one shortage, and logged once."""
EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


async def serve(
    settings: Settings,
    agent: Agent,
    announce: Callable[[Address], None],
    beside: Sequence[Companion] = (),
) -> int:
    """Serve until SIGTERM or SIGINT; returns the signal. `announce` is told the first address.

    `beside` runs from before the first connection until after the last one.

    Errors: OSError when the address cannot be listened on.
    """
    listeners = await open_listeners(settings.host, settings.port)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as turns:
            hub = Hub(settings, agent, turns)
            turns.start_soon(hub.registry.run)
            turns.start_soon(run_agent, hub)
            for companion in beside:
                turns.start_soon(run_companion, companion, hub)
            async with trio.open_nursery() as connections:
                async with trio.open_nursery() as accepting:
                    serve_peer = partial(serve_connection, hub)
                    for listener in listeners:
                        accepting.start_soon(
                            accept, listener, serve_peer, settings.write_timeout, connections
                        )
                    host, port = listeners[0].getsockname()[:2]
                    hub.address = Address(host, port, settings.path)
                    announce(hub.address)
                    received = await anext(aiter(signals))
                    accepting.cancel_scope.cancel()
                turns.start_soon(ignore, signals)
                log.info("stopping", connections=len(hub.connections), turns=hub.running_turns)
                await wind_down(hub)
                connections.cancel_scope.deadline = trio.current_time() + CLOSE_SECONDS
            turns.cancel_scope.cancel()
        log.info("stopped", units_lost=sum(len(session.mailbox) for session in hub.registry))
    return received


async def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Listen on every address that `host` names. Errors: OSError."""
    listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    return [socket.socket(fileno=listener.socket.detach()) for listener in listeners]


async def accept(
    listener: socket.socket,
    serve_peer: Callable[[SocketStream, str], Awaitable[None]],
    write_timeout: float,
    connections: trio.Nursery,
) -> None:
    """Accept for ever; `serve_peer` runs in `connections`, with the stream and the peer's address.

    Closes `listener` when cancelled.
    """
    short_until = -inf
    with listener:
        listener.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                peer, address = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in EXHAUSTED:
                    if trio.current_time() > short_until:
                        log.error("cannot accept", error=error.strerror)
                    short_until = trio.current_time() + SHORTAGE_SECONDS
                    await trio.sleep(ACCEPT_PAUSE)
                continue  # else the peer left before it was accepted
            host = "unix"
            if peer.family != socket.AF_UNIX:
                host = address[0]
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The kernel doubles what it is told, for its own book-keeping.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)
            connections.start_soon(serve_peer, SocketStream(peer, write_timeout), host)


async def run_agent(hub: Hub) -> None:
    """Run the agent's background work; its failure ends that work, not the server."""
    try:
        await hub.agent.run(hub)
    except Exception as error:  # noqa: BLE001 - an agent may raise anything
        log.error("agent's background work failed", **where(error))


async def run_companion(companion: Companion, hub: Hub) -> None:
    """Run what stands beside the server; its failure ends it alone."""
    try:
        await companion(hub)
    except* Exception as errors:  # noqa: BLE001 - whatever it is, devices must not notice
        log.error("companion failed", **where(errors))


async def ignore(signals: AsyncIterator[int]) -> None:
    """Take further signals: what nobody took is raised anew when the receiver closes."""
    async for number in signals:
        log.info("stopping already", signal=number)


async def wind_down(hub: Hub) -> None:
    """Take nothing new, give turns the grace period, cut the rest, and close every connection.

    Returns when all connections were told to end, not when they have.
    """
    hub.stopping = True
    with trio.move_on_after(hub.settings.shutdown_grace):
        await hub.wait_quiet()
    for session in hub.registry:
        session.inbox.cut_short()
    with trio.move_on_after(CUT_SECONDS):  # a turn that was cut says so before its connection ends
        await hub.wait_quiet()
    for connection in list(hub.connections):
        connection.end(endings.SHUTDOWN)
