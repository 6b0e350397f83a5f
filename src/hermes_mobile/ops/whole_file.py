"""A file that is written whole or not at all.

Whoever reads it, or loses power, finds what was there before or what is there now, and nobody else may
read it: its mode is 0600.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

DRAFT_PREFIX: Final = ".half-"
"""Begins the name under which a file is written; one that stays was left by a process that was killed."""


def replace_file(path: Path, content: bytes) -> None:
    """Write the file at `path`, in the place of one that is there.

    *Errors*: OSError; the file is as it was then, and nothing half written stays beside it.
    """
    draft = path.with_name(f"{DRAFT_PREFIX}{path.name}")
    draft.unlink(missing_ok=True)
    try:
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(file, "wb") as stream:  # noqa: PTH123 - a descriptor, made by nobody else
            give_to_owner(file, path.parent)
            stream.write(content)
            stream.flush()
            os.fsync(file)  # some file systems only find out now that they are full
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Make what was replaced in it outlast a loss of power: that is an entry of the directory.

    *Errors*: OSError.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_to_owner(file: int, directory: Path) -> None:
    """Let a file that root makes belong to whoever its directory belongs to. *Errors*: OSError."""
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(file, owner.st_uid, owner.st_gid)
