"""What systemd passes to a service, and what it wants to be told (sd_listen_fds, sd_notify).

The variables are taken out of the environment, so that no child process believes that it is meant.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, MutableMapping

FIRST_DESCRIPTOR: Final = 3


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
