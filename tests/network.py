"""Two hosts and a cable between them, in network namespaces: what one sends can vanish on the way."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

SERVER, CLIENT = "198.18.0.1", "198.18.0.2"
"""Addresses for tests of networks (RFC 2544)."""
NOBODY = "02:00:00:00:00:01"
CLONE_NEWNET = 0x40000000


@attrs.frozen
class Network:
    """The host at `SERVER` and the one at `CLIENT`; each is a namespace of this name."""

    server: str
    client: str

    @property
    def within_server(self) -> tuple[str, ...]:
        """A command that runs another one on the host of the server."""
        return ("ip", "netns", "exec", self.server)

    def swallow(self) -> None:
        """From now on both send to a hardware address that nobody has: no answer, no error, no FIN."""
        ip("-n", self.server, "neigh", "replace", CLIENT, "lladdr", NOBODY, "dev", "eth")
        ip("-n", self.client, "neigh", "replace", SERVER, "lladdr", NOBODY, "dev", "eth")

    def heal(self) -> None:
        ip("-n", self.server, "neigh", "del", CLIENT, "dev", "eth")
        ip("-n", self.client, "neigh", "del", SERVER, "dev", "eth")

    def open_client_socket(self) -> trio.socket.SocketType:
        """A TCP socket of the host of the client."""
        made: list[socket.socket] = []

        def make() -> None:  # only of this thread is the namespace changed
            with Path(f"/run/netns/{self.client}").open() as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.socket())

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return trio.socket.from_stdlib_socket(made[0])


@contextmanager
def open_network():
    """Both hosts, until the block ends. The right to administer networks is needed."""
    network = Network(f"hermes-server-{os.getpid()}", f"hermes-client-{os.getpid()}")
    names = (network.server, network.client)
    try:
        for name in names:
            ip("netns", "add", name)
        link = ("link", "add", "name", "eth", "netns", network.server, "type", "veth")
        ip(*link, "peer", "name", "eth", "netns", network.client)
        for name, address in zip(names, (SERVER, CLIENT), strict=True):
            ip("-n", name, "address", "add", f"{address}/30", "dev", "eth")
            ip("-n", name, "link", "set", "eth", "up")
        yield network
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)  # noqa: S603, S607


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)  # noqa: S603, S607 - iproute2, wherever it is
