"""A service manager that only listens to what a service says of itself."""

from __future__ import annotations

import socket
from contextlib import suppress

import trio

from street import PATIENCE


class Manager:
    """Listens at `address`, a path or `@abstract`."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(address.replace("@", "\0", 1))
        self.environ = {"NOTIFY_SOCKET": address}

    def told(self) -> list[str]:
        """Every message since the last time."""
        messages = []
        with suppress(BlockingIOError):
            while True:
                messages.append(self.socket.recv(4096).decode())
        return messages

    async def hear(self) -> str:
        """The next message."""
        with trio.fail_after(PATIENCE):
            await trio.lowlevel.wait_readable(self.socket)
        return self.socket.recv(4096).decode()

    async def hear_until(self, assignment: str) -> list[str]:
        """The messages up to and with the first that says `assignment`."""
        messages = [await self.hear()]
        while assignment not in messages[-1].split("\n"):
            messages.append(await self.hear())
        return messages
