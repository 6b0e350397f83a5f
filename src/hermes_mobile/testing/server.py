"""The real server in memory, and clients of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hermes_mobile.agents.demo import DemoAgent
from hermes_mobile.client.background import open_background
from hermes_mobile.server.app import run_agent, wind_down
from hermes_mobile.server.connection import serve_connection
from hermes_mobile.server.hub import Hub
from hermes_mobile.server.received import open_received
from hermes_mobile.server.settings import Settings
from hermes_mobile.server.stream import SocketStream
from hermes_mobile.testing.network import Network

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    import trio

    from hermes_mobile.agents import Agent, Conversation


class MemoryServer(Network):
    """A server without listeners; made by `open_server`."""

    def __init__(self, hub: Hub, connections: trio.Nursery) -> None:
        super().__init__()
        self.token = hub.settings.token or ""
        self._hub = hub
        self._connections = connections

    def conversation(self, device_id: str = "phone") -> Conversation:
        """How an agent speaks to a device outside a turn."""
        return self._hub.conversation(device_id)

    async def stop(self) -> None:
        """Shut down as on SIGTERM: turns get their grace period, connections are closed (D35)."""
        await wind_down(self._hub)

    def _connected(self, sock: socket.socket) -> None:
        stream = SocketStream(sock, self._hub.settings.write_timeout)
        self._connections.start_soon(serve_connection, self._hub, stream, "127.0.0.1")


@asynccontextmanager
async def open_server(agent: Agent | None = None, **settings: Any) -> AsyncIterator[MemoryServer]:
    """Run the server with `agent`, the demo agent by default, and `settings`, as long as the block.

    `settings` are those of `MOBILE_...`, in lower case and as Python values: `prompt_ttl=60.0`.

    On trio.testing.MockClock(autojump_threshold=0), which pytest-trio has as the fixture
    `autojump_clock`, all of its hours pass in milliseconds.
    """
    settings.setdefault("token", "test-token")
    async with open_background() as turns:
        decided = Settings(**settings)
        hub = Hub(decided, agent or DemoAgent(), turns, await open_received(decided))
        turns.start_soon(hub.run)
        turns.start_soon(run_agent, hub)
        async with open_background() as connections:
            yield MemoryServer(hub, connections)
