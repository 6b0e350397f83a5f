"""A listening Unix socket, which is also a file: who may connect is what the file permits.

It is made without a moment in which others might connect. One that a server left behind is replaced, one
that somebody listens on is not, and at the end it is removed, if it is still the same.
"""

from __future__ import annotations

import grp
import os
import socket
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BACKLOG: Final = 128


class SocketFileError(Exception):
    """The socket cannot be made: one line that says why, for behind the setting's name."""


@contextmanager
def open_socket_file(path: Path, mode: int, group: str = "") -> Iterator[socket.socket]:
    """Listen at `path`, a file with `mode`, of `group` if one is named, for the length of the block.

    *Errors*: SocketFileError.
    """
    group_id = _group_id(group)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        # Bound with no permissions for others, whatever the umask; nobody can connect before `listen`.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(str(path))
        made = _identity(path)
        if group_id is not None:
            os.chown(path, -1, group_id)
        path.chmod(mode)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise SocketFileError(f"cannot listen at {path}: {error.strerror}") from None
    except SocketFileError:
        sock.close()
        raise
    try:
        yield sock
    finally:
        with suppress(OSError):
            if _identity(path) == made:
                path.unlink()
        sock.close()


def _group_id(group: str) -> int | None:
    if not group:
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise SocketFileError(f"there is no group {group}") from None


def _remove_stale(path: Path) -> None:
    """Remove a socket that nobody listens on. *Errors*: OSError, SocketFileError."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketFileError(f"{path} is there already, and no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # somebody listens, and has more to do
    raise SocketFileError(f"{path} is taken: a server listens there")


def _identity(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    # The number of a file that is gone may be given to the next one.
    return found.st_dev, found.st_ino, found.st_mtime_ns
