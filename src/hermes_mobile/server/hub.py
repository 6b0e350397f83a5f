"""What all connections of one server share."""

from __future__ import annotations

import secrets
import socket
from itertools import count
from typing import TYPE_CHECKING

import structlog
import trio
from attrs import frozen

from hermes_mobile.protocol.dedup import DedupWindow
from hermes_mobile.protocol.rate import MessageRate
from hermes_mobile.server import ending as endings
from hermes_mobile.server.access import Access
from hermes_mobile.server.devices import Devices
from hermes_mobile.server.fault import where
from hermes_mobile.server.metrics import Metrics
from hermes_mobile.server.registry import Registry
from hermes_mobile.server.stream import SocketStream
from hermes_mobile.server.throttle import PendingHellos, Throttle
from hermes_mobile.server.tls import TlsStream
from hermes_mobile.server.turn import Conversation
from hermes_mobile.server.wake import Wake

if TYPE_CHECKING:
    from hermes_mobile.agents import Agent, DeviceState
    from hermes_mobile.server.access import Peer
    from hermes_mobile.server.connection import Connection
    from hermes_mobile.server.received import Received
    from hermes_mobile.server.session import Session
    from hermes_mobile.server.settings import Settings

log = structlog.get_logger()


@frozen
class Address:
    """Where the server listens; a Unix socket is its file as `host`, and port 0."""

    host: str
    port: int
    path: str
    secure: bool = False

    @classmethod
    def of(cls, listener: socket.socket, settings: Settings) -> Address:
        if listener.family == socket.AF_UNIX:
            return cls(listener.getsockname(), 0, settings.path)
        host, port = listener.getsockname()[:2]
        return cls(host, port, settings.path, settings.tls is not None)

    @property
    def scheme(self) -> str:
        return "wss" if self.secure else "ws"

    @property
    def url(self) -> str:
        if not self.port:
            return f"unix:{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class Hub:
    """`turns` is the nursery in which agents work: it outlives every connection."""

    def __init__(
        self,
        settings: Settings,
        agent: Agent,
        turns: trio.Nursery,
        received: Received | None = None,
        devices: Devices | None = None,
    ) -> None:
        self.settings = settings
        self.agent = agent
        self.turns = turns
        self.received = received
        """Where files of devices are kept; None where none are."""
        self.devices = devices or Devices()
        self.access = Access(settings, self.devices)
        self.throttle = Throttle(settings)
        self.pending = PendingHellos(settings)
        self.registry = Registry(self)
        self.dedup = DedupWindow()
        self.rate = MessageRate()
        self.wake = Wake(self)
        self.card_sessions: dict[str, Session] = {}
        """Whose each open card is (D21)."""
        self.connections: set[Connection] = set()
        self.metrics = Metrics()
        self.address: Address | None = None
        """Where the server listens, once it does."""
        self.avatar_page = ""
        """The URL of the avatar page, as this host reaches it; empty while nothing serves it."""
        self.started_at = trio.current_time()
        self.stopping = False
        self.closing = trio.Event()
        """Turns are over, and every connection is to end."""
        self._quiet = trio.Event()
        self._run_id = secrets.token_hex(6)
        self._numbers = count(1)

    def open_stream(self, sock: socket.socket, *, secure: bool) -> SocketStream:
        """The stream on a socket that was accepted; a secure one has TLS, once that is set up.

        What comes by a Unix socket goes through no network, and needs none.
        """
        settings = self.settings
        if not secure or settings.tls is None or sock.family == socket.AF_UNIX:
            return SocketStream(sock, settings.write_timeout)
        return TlsStream(sock, settings.write_timeout, settings.tls)

    def apply(self, settings: Settings) -> None:
        """Go by other settings from now on; what has begun goes on as it was."""
        self.settings = settings
        self.access = Access(settings, self.devices)
        self.throttle.apply(settings)
        self.pending.apply(settings)
        for session in self.registry:
            session.apply(settings)

    def close_withdrawn(self) -> int:
        """Close every connection whose hello would be refused by now; returns how many they are."""
        closed = 0
        for connection in list(self.connections):
            if connection.admitted:
                refusal = self.access.refusal(connection.admission)
                if refusal is not None:
                    connection.end(endings.withdrawn(refusal))
                    closed += 1
        return closed

    async def revoke(self, device_id: str) -> None:
        """Shut a device out: end its connection and its work, and forget what was kept for it.

        *Errors*: AccessFileError; nothing has changed then.
        """
        await self.devices.revoke(device_id)
        log.info("device revoked", device=device_id, closed=self.close_withdrawn())
        session = self.registry.get(device_id)
        if session is not None:
            session.abandon()

    async def run(self) -> None:
        """Let go of what was kept long enough, units and files, and keep who was seen on disk."""
        async with trio.open_nursery() as janitors:
            janitors.start_soon(self.registry.run)
            janitors.start_soon(self.devices.run)
            if self.received is not None:
                janitors.start_soon(self.received.run)

    def make_id(self) -> str:
        """An id for a message, a file or a card: unlike any other, of this run or another."""
        return f"{self._run_id}-{next(self._numbers)}"

    def conversation(self, device_id: str) -> Conversation:
        """The port `hermes_mobile.agents.Conversations`, for what agents say outside a turn."""
        return Conversation(self, device_id)

    @property
    def connected_devices(self) -> list[DeviceState]:
        """The devices that are connected now, for agents."""
        return [session.device_state for session in self.registry if session.connection]

    def device_changed(self, device: DeviceState) -> None:
        """Tell the agent that a device connected, or left."""
        try:
            self.agent.device_changed(device)
        except Exception as error:  # noqa: BLE001 - an agent may raise anything
            log.error("agent failed", device=device.device_id, **where(error))

    def avatar_url_for(self, peer: Peer) -> str:
        """What `ready.avatar_url` tells a peer: a page of our own only helps on this host."""
        return self.settings.avatar_url or (self.avatar_page if peer.loopback else "")

    def turn_ended(self) -> None:
        if self.stopping and not self.running_turns:
            self._quiet.set()

    @property
    def running_turns(self) -> int:
        return sum(len(session.inbox.turns) for session in self.registry)

    @property
    def waiting_messages(self) -> int:
        """What people said and no agent has begun with."""
        return sum(len(session.inbox) for session in self.registry)

    async def wait_quiet(self) -> None:
        """Wait until no turn runs any more; none begins once the server stops."""
        if self.running_turns:
            await self._quiet.wait()
