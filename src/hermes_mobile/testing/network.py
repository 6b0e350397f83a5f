"""A network in memory, which can fail as networks do."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any

import trio

from hermes_mobile.client import Device, HermesClient, open_client

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hermes_mobile.client.link import Endpoint


class FailingStream(trio.abc.Stream):
    """An app's end of a connection, which works until a test says otherwise."""

    def __init__(self, sock: socket.socket) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._deaf = False
        self._mute = False
        self._receiving = trio.CancelScope()
        self._bytes_left: int | None = None
        self.bytes_per_second = inf
        """How fast the app can send."""

    @property
    def closed(self) -> bool:
        """Whether the app has closed it, or the test."""
        return self._stream.socket.fileno() < 0

    def silence(self) -> None:
        """From now on nothing arrives, in either direction, and nobody is told."""
        self._mute = True
        self.deafen()

    def deafen(self) -> None:
        """From now on nothing arrives at the app; what it sends does arrive."""
        self._deaf = True
        self._receiving.cancel()

    def cut(self) -> None:
        """Break the connection: both sides see that it has ended, and were not told why."""
        self._stream.socket.close()

    def cut_after(self, sent: int) -> None:
        """Break the connection when the app has sent that many bytes more."""
        self._bytes_left = sent

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        with trio.CancelScope() as self._receiving:
            if not self._deaf:
                return await self._stream.receive_some(max_bytes)
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep(len(data) / self.bytes_per_second)
        if self._mute:
            return
        if self._bytes_left is None:
            await self._stream.send_all(data)
            return
        sent = memoryview(data)[: self._bytes_left]
        self._bytes_left -= len(sent)
        await self._stream.send_all(sent)
        if not self._bytes_left:
            self.cut()
            raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Network(ABC):
    """Where clients find a server.

    A connection is a pair of sockets, not of memory streams, for only they may take half of a write.
    """

    token: str

    def __init__(self) -> None:
        self.reachable = True
        """Whether new connections can be made; set it to what the test needs."""
        self.streams: list[FailingStream] = []
        """The app's end of every connection so far, the newest last."""

    @abstractmethod
    def _connected(self, sock: socket.socket) -> None:
        """Serve the other end of a new connection."""

    def open_client(
        self, device: str | Device = "phone", **options: Any
    ) -> AbstractAsyncContextManager[HermesClient]:
        """`hermes_mobile.client.open_client`, on this network; `options` are its own.

        There is no jitter, unless `random` says so: a pause is as long as it may be.
        """
        given = device if isinstance(device, Device) else Device(device, device.title())
        defaults: dict[str, Any] = {
            "token": self.token,
            "open_stream": self.open_stream,
            "random": lambda: 1.0,
        }
        return open_client("ws://memory.test/ws", device=given, **defaults | options)

    async def open_stream(self, endpoint: Endpoint) -> FailingStream:  # noqa: ARG002 - there is one
        """What clients open their streams with. *Errors*: OSError while not `reachable`."""
        await trio.lowlevel.checkpoint()
        if not self.reachable:
            raise ConnectionRefusedError("the server is not reachable")
        theirs, ours = socket.socketpair()
        self._connected(ours)
        self.streams.append(FailingStream(theirs))
        return self.streams[-1]
