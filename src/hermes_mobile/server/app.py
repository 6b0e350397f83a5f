"""The server as a whole: listeners inside, connections around them, turns around those.

Stopping is that order: nothing new comes in, then talk may finish within the grace period, then every
connection is closed in words, then whatever is left is cancelled (D35).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
import trio

from hermes_mobile.server import ending as endings
from hermes_mobile.server.access_file import open_devices
from hermes_mobile.server.fault import where
from hermes_mobile.server.hub import Address, Hub
from hermes_mobile.server.listeners import accept, open_listeners
from hermes_mobile.server.received import open_received

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hermes_mobile.agents import Agent
    from hermes_mobile.server.listeners import Listener, Passed
    from hermes_mobile.server.settings import Settings

log = structlog.get_logger()

Companion: TypeAlias = Callable[[Hub], Awaitable[None]]
"""Something that runs beside the server, the HTTP side for one."""

CUT_SECONDS: Final = 0.4
"""After the grace period: what the turns that were cut have to unwind."""
CLOSE_SECONDS: Final = 4.0
"""After that: what all connections together have to drain and close."""
AGENT_SECONDS: Final = 0.5
"""After that: what an agent that is a program has to end."""
OVERDUE_SECONDS: Final = CUT_SECONDS + CLOSE_SECONDS + AGENT_SECONDS + 0.05
"""After the grace period: when all of it has had its time (D35)."""


class Phase(Enum):
    """What the server says of itself to whoever started it."""

    LISTENING = auto()
    RELOADING = auto()
    RELOADED = auto()
    STOPPING = auto()


async def serve(
    settings: Settings,
    agent: Agent,
    announce: Callable[[Phase, Hub], None],
    *,
    passed: Passed = MappingProxyType({}),
    reload: Callable[[Hub], Awaitable[None]] | None = None,
    beside: Sequence[Companion] = (),
) -> int:
    """Serve until SIGTERM or SIGINT; returns the signal. `announce` is told every phase.

    `passed` are sockets that stand in for those that the settings name. SIGHUP calls `reload`.
    `beside` runs from before the first connection until after the last one.

    *Errors*: ListenError; SettingsError when the state directory cannot be used.
    """
    async with (
        open_devices(settings.state_dir) as devices,
        open_listeners(settings, passed) as listeners,
    ):
        files = await open_received(settings)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with trio.open_nursery() as last_resorts:
                async with trio.open_nursery() as turns:
                    hub = Hub(settings, agent, turns, files, devices)
                    turns.start_soon(hub.run)
                    turns.start_soon(run_agent, hub)
                    for companion in beside:
                        turns.start_soon(run_companion, companion, hub)
                    async with trio.open_nursery() as connections:
                        received = await accept_until_told(
                            hub, listeners, connections, signals, announce, reload
                        )
                        last_resorts.start_soon(end_at_once, hub, signals)
                        last_resorts.start_soon(end_overdue, hub)
                        announce(Phase.STOPPING, hub)
                        await wind_down(hub)
                        closed_by = trio.current_time() + CLOSE_SECONDS
                        connections.cancel_scope.deadline = closed_by
                    with trio.CancelScope(deadline=closed_by):
                        await hub.devices.save()
                    turns.cancel_scope.cancel()
                last_resorts.cancel_scope.cancel()
            log.info("stopped", units_lost=hub.registry.units)
    return received


async def accept_until_told(
    hub: Hub,
    listeners: Sequence[Listener],
    connections: trio.Nursery,
    signals: AsyncIterator[int],
    announce: Callable[[Phase, Hub], None],
    reload: Callable[[Hub], Awaitable[None]] | None,
) -> int:
    """Let peers in, and reload when told to, until a signal ends it; returns the signal."""
    async with trio.open_nursery() as accepting:
        for listener in listeners:
            accepting.start_soon(run_listener, listener, hub, connections)
        hub.address = Address.of(listeners[0].sockets[0], hub.settings)
        announce(Phase.LISTENING, hub)
        hangups, told = trio.open_memory_channel[None](1)
        accepting.start_soon(run_reloads, hub, told, reload, announce)
        received = await wait_for_end(signals, hangups)
        accepting.cancel_scope.cancel()
    return received


async def run_listener(listener: Listener, hub: Hub, connections: trio.Nursery) -> None:
    """Accept on every socket of a listener, until cancelled."""
    serve_peer = partial(listener.serve_peer, hub)
    open_stream = partial(hub.open_stream, secure=listener.secure)
    async with trio.open_nursery() as accepting:
        for sock in listener.sockets:
            accepting.start_soon(accept, sock, serve_peer, open_stream, connections)


async def wait_for_end(signals: AsyncIterator[int], hangups: trio.MemorySendChannel[None]) -> int:
    """Pass SIGHUP on to `hangups`, until a signal comes that ends the server; returns it."""
    async for number in signals:
        if number != signal.SIGHUP:
            return number
        with suppress(trio.WouldBlock):  # one that is asked for and has not begun covers this
            hangups.send_nowait(None)
    raise AssertionError  # the receiver has no end


async def run_reloads(
    hub: Hub,
    told: trio.MemoryReceiveChannel[None],
    reload: Callable[[Hub], Awaitable[None]] | None,
    announce: Callable[[Phase, Hub], None],
) -> None:
    """Reload each time that one is told to; what goes wrong changes nothing else."""
    async for _ in told:
        announce(Phase.RELOADING, hub)
        if reload is None:
            log.info("nothing to reload")
        else:
            try:
                await reload(hub)
            except Exception as error:  # noqa: BLE001 - the settings before it stay in force
                log.error("reload failed", **where(error))
        announce(Phase.RELOADED, hub)


async def end_at_once(hub: Hub, signals: AsyncIterator[int]) -> None:
    """While the server stops: a second signal that ends it does so as if nobody had taken it.

    So nothing can hold it up, and the exit status tells that the stop was not orderly.
    """
    async for number in signals:
        if number != signal.SIGHUP:
            log.warning("ended at once", signal=number, **losses(hub))
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


async def end_overdue(hub: Hub) -> None:
    """While the server stops: end the process when its time is over, whoever refuses to (D35).

    An agent can shield itself from being cancelled, or wait for a thread that does not return.
    """
    await trio.sleep(hub.settings.shutdown_grace + OVERDUE_SECONDS)
    log.error("ended overdue", **losses(hub))
    os._exit(0)


def losses(hub: Hub) -> dict[str, int]:
    """What is lost if the process ends now."""
    return {
        "connections": len(hub.connections),
        "turns_lost": hub.running_turns,
        "messages_lost": hub.waiting_messages,
        "units_lost": hub.registry.units,
    }


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


def stop_seconds(settings: Settings) -> float:
    """How long stopping takes at most (D35)."""
    return settings.shutdown_grace + OVERDUE_SECONDS


async def wind_down(hub: Hub) -> None:
    """Take nothing new, give turns the grace period, cut the rest, and close every connection.

    Returns when all connections were told to end, not when they have.
    """
    hub.stopping = True
    log.info("stopping", connections=len(hub.connections), turns=hub.running_turns)
    with trio.move_on_after(hub.settings.shutdown_grace):
        await hub.wait_quiet()
    turns, messages = hub.running_turns, hub.waiting_messages
    if turns or messages:
        log.warning("cut short", turns=turns, messages=messages)
    for session in hub.registry:
        session.inbox.cut_short()
    with trio.move_on_after(CUT_SECONDS):  # a turn that was cut says so before its connection ends
        await hub.wait_quiet()
    hub.closing.set()
    for connection in list(hub.connections):
        connection.end(endings.SHUTDOWN)
