"""A connected socket that the server owns, as a stream.

It differs from `trio.SocketStream` in what the server needs to promise: a write goes to the kernel at
once where there is room (no checkpoint, no wake-up), a write without progress has a deadline (D33), and
one can ask whether the peer took anything (D5).
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

RECEIVE_BYTES: Final = 64 * 1024
"""One receive: large enough that a 3 MiB chunk is a few dozen of them."""
SEND_BUFFER_BYTES: Final = 256 * 1024
"""What the kernel may hold for us: small, so that bytes it took are bytes the peer's side takes (D5)."""

LOOKS: Final = 4
"""How often within the write timeout the kernel is asked whether the peer took anything; it tells
only then. So a peer that stalls is dropped a quarter late at most."""


class StalledPeerError(trio.BrokenResourceError):
    """The peer took nothing for the whole write timeout."""


class SocketStream(trio.abc.HalfCloseableStream):
    """`sock`: connected, of any family. `write_timeout`: seconds without progress before a write fails.

    *Cancellation*: a cancelled `send_all` may have sent a part; do not go on writing after it.
    """

    def __init__(self, sock: socket.socket, write_timeout: float) -> None:
        sock.setblocking(False)
        self.socket = sock
        self._write_timeout = write_timeout
        self.bytes_in = 0
        self.bytes_out = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            # Waiting first spares a receive that would almost always find nothing yet.
            self._check_open()
            await trio.lowlevel.wait_readable(self.socket)
            try:
                data = self.socket.recv(max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError from error
            self.bytes_in += len(data)
            return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send `data`, without a checkpoint when the kernel has room for all of it.

        *Errors*: StalledPeerError after `write_timeout` seconds in which the peer took nothing.
        """
        rest = self.send_now(data)
        if rest:
            await self.send_rest(rest)

    def send_now(self, data: bytes | bytearray | memoryview) -> bytes | memoryview:
        """Give the kernel what it has room for; what is returned is for `send_rest`, before all else.

        *Errors*: as of `send_all`.
        """
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            if self.socket.fileno() < 0:
                raise trio.ClosedResourceError from error
            raise trio.BrokenResourceError from error
        self.bytes_out += sent
        return b"" if sent == len(data) else memoryview(data)[sent:]

    async def send_rest(self, rest: bytes | bytearray | memoryview) -> None:
        """Send what `send_now` left. *Cancellation* and errors: as of `send_all`."""
        taken, quiet_since = self.taken_bytes(), trio.current_time()
        while rest:
            with trio.move_on_after(self._write_timeout / LOOKS):
                self._check_open()
                await trio.lowlevel.wait_writable(self.socket)
                rest = SocketStream.send_now(self, rest)  # as it is: encrypted, if it is to be
            now = trio.current_time()
            if taken != (taken := self.taken_bytes()):
                quiet_since = now
            elif now >= quiet_since + self._write_timeout:
                raise StalledPeerError

    async def wait_send_all_might_not_block(self) -> None:
        self._check_open()
        await trio.lowlevel.wait_writable(self.socket)

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close at once, whoever waits."""
        if self.socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self.socket)
            self.socket.close()

    def interrupt(self) -> None:
        """Wake who waits for the socket, with ClosedResourceError; it stays open."""
        trio.lowlevel.notify_closing(self.socket)

    async def discard(self, until: Callable[[bytes], bool] = lambda _: False) -> None:
        """Say that nothing more will be sent, and read on until the peer ends or `until` is true.

        Closing while bytes of the peer are unread would make the kernel send a reset, which can
        destroy what was written last on its way. Bound this by a deadline.
        """
        try:
            await self.send_eof()
            while data := await self.receive_some():
                if until(data):
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    def waiting_bytes(self) -> int:
        """What the kernel holds for the peer, which has not taken it yet."""
        if self.socket.fileno() < 0:
            return 0
        try:
            answer = fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            return 0
        return int(struct.unpack("i", answer)[0])

    def taken_bytes(self) -> int:
        """What the peer's side took of ours so far."""
        return self.bytes_out - self.waiting_bytes()

    def _check_open(self) -> None:
        """Trio takes it ill when it is asked to wait for a socket that is closed."""
        if self.socket.fileno() < 0:
            raise trio.ClosedResourceError
