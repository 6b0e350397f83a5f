"""What systemd passes to a service, and what it wants to be told (sd_listen_fds, sd_notify).

The variables are taken out of the environment, so that no child process believes that it is meant.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, Self

import structlog
import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, MutableMapping

log = structlog.get_logger()

FIRST_DESCRIPTOR: Final = 3
STATUS_SECONDS: Final = 10.0
"""How old the status may be that `systemctl status` shows."""
MICROSECONDS: Final = 1_000_000


class PassedSocketError(Exception):
    """A descriptor was passed that cannot be served: one line that says what to mend."""


def take_sockets(
    environ: MutableMapping[str, str], pid: int, names: Collection[str]
) -> dict[str, list[socket.socket]]:
    """The listening sockets that the process `pid` was started with, by name, one of `names`.

    *Errors*: PassedSocketError.
    """
    meant_for = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    labels = environ.pop("LISTEN_FDNAMES", "")
    if meant_for != str(pid):
        return {}
    if not count.isdecimal():
        raise PassedSocketError("LISTEN_FDS must be a number")
    descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
    given = labels.split(":") if labels else [""] * len(descriptors)
    if len(given) != len(descriptors):
        raise PassedSocketError(f"LISTEN_FDNAMES must name {len(descriptors)} sockets")
    sockets = defaultdict(list)
    for descriptor, name in zip(descriptors, given, strict=True):
        if name not in names:
            raise PassedSocketError(
                f"LISTEN_FDNAMES: a passed socket is called {name!r}; "
                f"FileDescriptorName= must be one of {', '.join(sorted(names))}"
            )
        sockets[name].append(_listening_socket(descriptor, name))
    return dict(sockets)


def _listening_socket(descriptor: int, name: str) -> socket.socket:
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        raise PassedSocketError(f"the passed {name} is no socket: {error.strerror}") from error
    sock.set_inheritable(False)
    listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if sock.type != socket.SOCK_STREAM or not listens:
        sock.close()
        raise PassedSocketError(f"the passed {name} must be a listening stream socket (Accept=no)")
    return sock


def take_notifier(environ: MutableMapping[str, str], pid: int) -> Notifier:
    """What tells the service manager of the process `pid`; it tells nobody where there is none."""
    address = environ.pop("NOTIFY_SOCKET", "")
    limit = environ.pop("WATCHDOG_USEC", "")
    meant_for = environ.pop("WATCHDOG_PID", "") or str(pid)
    watched = limit.isdecimal() and int(limit) > 0 and meant_for == str(pid)
    return Notifier(address, int(limit) / MICROSECONDS if watched else None)


class Notifier:
    """Tells the service manager at the Unix socket `address`, path or `@abstract`, how things are.

    `watchdog_seconds`: how long it waits for a sign of life, if it does. The server neither waits for
    it nor fails with it: what could not be sent goes with the next message.
    """

    def __init__(self, address: str, watchdog_seconds: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_seconds = watchdog_seconds
        self._unsent: deque[bytes] = deque(maxlen=8)
        self._failed = False
        # Held from the start: signs of life go on when descriptors have run out.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ready(self) -> None:
        """The server listens, or has reloaded."""
        self._send("READY=1")

    def reloading(self) -> None:
        """`ready` follows."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, within: float) -> None:
        """The process is about to end, `within` seconds: a shorter TimeoutStopSec= is extended."""
        self._send("STOPPING=1", f"EXTEND_TIMEOUT_USEC={round(within * MICROSECONDS)}")

    async def run(self, status: Callable[[], str]) -> None:
        """Give signs of life, twice as often as they are waited for, and keep the status true.

        It is a task of the event loop: while that is blocked, there is no sign.
        """
        interval, signs = STATUS_SECONDS, []
        if self._watchdog_seconds is not None:
            interval, signs = min(interval, self._watchdog_seconds / 2), ["WATCHDOG=1"]
        while self._address:
            self._send(*signs, f"STATUS={status()}")
            await trio.sleep(interval)

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        self._unsent.append("\n".join(assignments).encode())
        try:
            while self._unsent:
                self._socket.sendto(self._unsent[0], self._address)
                self._unsent.popleft()
        except OSError as error:
            if not self._failed:
                log.warning("cannot tell systemd", error=error.strerror)
            self._failed = True
        else:
            self._failed = False
