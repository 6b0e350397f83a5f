"""All that takes part: the model, the server, the gateway."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.gateway import Gateway
from hermes.model import Model
from hermes.phone import Phone
from street import ServerProcess

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator

HOME_DEVICE = "home-phone"
DELIVER_TOKEN = "a-token-that-only-delivers"


class Stage:
    """Below `directory`. The server keeps its port when it is started anew."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.directory = directory
        self.port = free_port()
        self.settings = {
            "MOBILE_PORT": self.port,
            "MOBILE_AGENT_SOCKET": directory / "agent.sock",
            "MOBILE_DELIVER_TOKENS": DELIVER_TOKEN,
            "MOBILE_SHUTDOWN_GRACE": 1,
            "MOBILE_PING_INTERVAL": 600,  # a phone that waits for a command answers no pings
            "MOBILE_LOG_LEVEL": "debug",
            **settings,
        }
        self.model = Model()
        shared = ("MOBILE_PORT", "MOBILE_AGENT_SOCKET", "MOBILE_DELIVER_TOKENS")
        hermes = {name: self.settings[name] for name in shared}
        hermes["MOBILE_HOME_DEVICE"] = HOME_DEVICE
        self.gateway = Gateway(directory / "home", self.model, hermes)
        self.server: ServerProcess | None = None

    def start(self) -> None:
        """Everything; a phone may connect at once, and wait for the gateway."""
        self.start_server()
        self.gateway.install_plugin()
        self.gateway.start()

    def start_server(self) -> None:
        self.server = ServerProcess(self.directory, "--agent", "link", **self.settings)

    def stop_server(self, by: signal.Signals) -> None:
        assert self.server is not None
        self.server.terminate(by)
        self.server.wait()
        self.server.process.stdout.close()
        self.server = None

    def close(self) -> None:
        self.gateway.close()
        self.model.close()
        if self.server is not None:
            self.server.close()

    @asynccontextmanager
    async def phone(self, device: str) -> AsyncIterator[Phone]:
        """A device that is connected."""
        assert self.server is not None
        async with self.server.connect(device) as caller:
            yield Phone(caller)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
