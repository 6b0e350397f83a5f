"""Servers that the bench starts itself: hermes-mobile, and the peers that it is compared with."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from attrs import define, field

from bench.process import allow_descriptors, pin

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[1]
OURS: Final = "hermes-mobile"
PEERS: Final = ("aiohttp", "websockets", "picows")
STOP_SECONDS: Final = 20.0
QUIET: Final = {"MOBILE_HTTP_PORT": "off", "MOBILE_LOG_LEVEL": "warning"}
"""Peers log nothing and have no HTTP side; nor has ours beside them."""


class ServerError(Exception):
    """A server did not start; the message has what it said."""


@define
class LocalServer:
    """A server as a process of this machine, on a free port, kept on one core if `core` is given."""

    name: str
    settings: Mapping[str, object] = field(factory=dict)
    core: int | None = None
    token: str = field(factory=lambda: secrets.token_urlsafe(16), repr=False)
    url: str = ""
    http_url: str = ""
    """Of the HTTP side, where there is one."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Returns when it listens. *Errors*: ServerError."""
        allow_descriptors()
        port = self.url.rpartition(":")[2].partition("/")[0] or 0
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("MOBILE_")
        }
        settings = {"MOBILE_TOKEN": self.token, "MOBILE_PORT": port, **QUIET, **self.settings}
        environment = inherited | {name: str(value) for name, value in settings.items()}
        with tempfile.TemporaryFile("w+") as said:
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                [sys.executable, "-m", *self._command],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=said,
            )
            pin(self._process.pid, self.core)
            banner = self._read_banner()
            listens = re.search(r"ws://\S+", banner)
            if listens is None:
                self.stop()
                said.seek(0)
                raise ServerError(f"{self.name} did not start: {said.read() or banner}")
        self.url = listens[0]
        console = re.search(r"http://[^\s#]+", banner)
        self.http_url = console[0] if console else ""

    @property
    def _command(self) -> tuple[str, ...]:
        if self.name == OURS:
            return "hermes_mobile", "serve"
        return (f"bench.peers.{self.name}_peer",)

    def _read_banner(self) -> str:
        """What it says when it listens, in one write; empty when it ends without."""
        assert self._process is not None  # noqa: S101 - started
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        return os.read(self._process.stdout.fileno(), 1 << 16).decode()

    def stop(self) -> None:
        """End it in its own way, or in ours when that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def restart(self) -> None:
        """End it and start it again on the same port. *Errors*: ServerError."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
