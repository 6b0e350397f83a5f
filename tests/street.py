"""The house from the street: the server as a process, and peers on TCP that write bytes themselves.

`ServerProcess` runs `hermes-mobile serve` on a free port. `Caller` is one TCP connection to it that
knows just enough of WebSocket to be quick, and to be rude.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import trio

from frames import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TOKEN = "a-token-of-the-street"
PATIENCE = 20.0
"""Seconds after which a test that waits has failed: real ones."""
TESTS = Path(__file__).parent

UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PASS_ON = """
import os, sys
descriptors = sys.argv[1].split(",")
for number, descriptor in enumerate(descriptors, 3):
    os.dup2(int(descriptor), number)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(descriptors))}
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a command, with its descriptors where systemd puts them."""
TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A
"""First bytes of final frames."""


class ServerProcess:
    """`hermes-mobile serve` with `settings` in its environment; it listens when this returns.

    `passed` are listening sockets that it gets as systemd passes them, by their names; `within` is a
    command that runs it, such as `ip netns exec NAME`, and becomes it.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        passed: Mapping[str, socket.socket] = MappingProxyType({}),
        within: Sequence[str] = (),
        **settings: object,
    ) -> None:
        self.token = settings.setdefault("MOBILE_TOKEN", TOKEN)
        settings.setdefault("MOBILE_PORT", 0)
        settings.setdefault("MOBILE_HTTP_PORT", "off")
        self._log = directory / "server.log"
        command = [*within, sys.executable, "-m", "hermes_mobile", "serve", *arguments]
        descriptors = [sock.fileno() for sock in passed.values()]
        if passed:
            settings["LISTEN_FDNAMES"] = ":".join(passed)
            command = [sys.executable, "-c", PASS_ON, ",".join(map(str, descriptors)), *command]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                pass_fds=descriptors,
                cwd=TESTS,  # for agents that stand beside the tests
                env=environment(**settings),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.banner = self.process.stdout.readline()
        listens = re.search(r"wss?://(\S+):(\d+)/ws", self.banner)
        assert listens, self._log.read_text()
        self.url = listens[0]
        self.host, self.port = listens[1], int(listens[2])

    @property
    def log_text(self) -> str:
        return self._log.read_text()

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log so far; every line of it is JSON."""
        return [json.loads(line) for line in self.log_text.splitlines()]

    @property
    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    async def wait_logged(self, event: str, **fields: object) -> dict[str, Any]:
        """Wait for a line of the log with `fields`, unless there is one."""
        with trio.fail_after(PATIENCE):
            while True:
                for line in self.log:
                    if line["event"] == event and fields.items() <= line.items():
                        return line
                await trio.sleep(0.01)

    def terminate(self, by: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(by)

    def wait(self, timeout: float = PATIENCE) -> int:
        """The exit status, once it ended by itself."""
        return self.process.wait(timeout)

    def close(self) -> None:
        """End it, however it takes it."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()

    @asynccontextmanager
    async def call(
        self,
        source: str = "127.0.0.1",
        receive_buffer: int | None = None,
        open_socket: Callable[[], trio.socket.SocketType] = trio.socket.socket,
    ):
        """A TCP connection from the address `source`, closed with the block."""
        with open_socket() as sock:
            if receive_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            await sock.bind((source, 0))
            await sock.connect((self.host, self.port))
            yield Caller(sock)

    @asynccontextmanager
    async def connect(self, device: str | None = "phone", *, token: str | None = None, **how: Any):
        """A device that is ready; its token is the server's."""
        async with self.call(**how) as caller:
            await caller.upgrade()
            await caller.hello(token or self.token, device)
            ready = await caller.receive()
            assert ready is not None, caller.closed
            assert ready["t"] == "ready"
            yield caller


def free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def environment(**settings: object) -> dict[str, str]:
    """This process's environment, with these settings and no others."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("MOBILE_")
    }
    return inherited | {name: str(value) for name, value in settings.items()}


class Caller(FrameReader):
    """One TCP connection to the server; frames of the protocol are dictionaries."""

    def __init__(self, sock: trio.socket.SocketType) -> None:
        self.socket = sock
        self.closed: tuple[int, str] | None = None
        """The server's close code and reason."""
        self._received = bytearray()

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[await self.socket.send(view) :]

    async def send_frame(self, frame: dict[str, Any]) -> None:
        await self.send(masked(TEXT, json.dumps(frame).encode()))

    async def say(self, id: str, text: str) -> None:
        await self.send_frame({"t": "text", "id": id, "text": text})

    async def upgrade(self) -> None:
        status_line = await self.ask_upgrade()
        assert status_line.startswith(b"HTTP/1.1 101 "), status_line

    async def ask_upgrade(self) -> bytes:
        """The first line of the answer, a refusal for instance."""
        await self.send(UPGRADE)
        return (await self._take_until(b"\r\n\r\n")).partition(b"\r\n")[0]

    async def hello(self, token: object, device: str | None) -> None:
        await self.send_frame({"t": "hello", "token": token, "device": device and {"id": device}})

    async def receive(self) -> dict[str, Any] | None:
        """The next frame; None when the server ended the connection, in words or without."""
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    first, length = await self._take(2)
                    if length >= 126:
                        length = int.from_bytes(await self._take(2 if length == 126 else 8))
                    payload = await self._take(length)
                except EOFError:
                    return None
                if first == TEXT:
                    return json.loads(payload)
                if first == PING:
                    await self.send(masked(PONG, payload))
                elif first == CLOSE:
                    self.closed = (int.from_bytes(payload[:2]), payload[2:].decode())
                    with suppress(OSError):  # the server need not wait for it
                        await self.send(masked(CLOSE, payload[:2]))
                    return None

    async def wait_received(self, part: bytes) -> None:
        """Wait until `part` has come as far as this side's kernel, and leave it there."""
        with trio.fail_after(PATIENCE):
            while True:
                if part in await self.socket.recv(1 << 16, socket.MSG_PEEK):
                    return
                await trio.sleep(0.01)

    async def receive_rest(self) -> bytes:
        """All that still comes until the server closes; ConnectionResetError when it resets."""
        with trio.fail_after(PATIENCE):
            while data := await self.socket.recv(1 << 16):
                self._received += data
        return bytes(self._received)

    async def receive_end(self) -> tuple[int, str] | None:
        """The Close frame after whatever frames come before it."""
        while await self.receive() is not None:
            pass
        return self.closed

    async def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            await self._receive()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    async def _take_until(self, end: bytes) -> bytes:
        while (found := self._received.find(end)) < 0:
            await self._receive()
        return await self._take(found + len(end))

    async def _receive(self) -> None:
        data = await self.socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._received += data


def masked(first: int, payload: bytes = b"") -> bytes:
    """A client's frame, whose mask changes nothing: quick to make, and valid."""
    return header(first, len(payload)) + payload


def header(first: int, length: int) -> bytes:
    """The beginning of a client's frame of `length` bytes, which follow as they are."""
    if length < 126:
        return bytes((first, 0x80 | length)) + bytes(4)
    if length < 1 << 16:
        return bytes((first, 0x80 | 126)) + length.to_bytes(2) + bytes(4)
    return bytes((first, 0x80 | 127)) + length.to_bytes(8) + bytes(4)
