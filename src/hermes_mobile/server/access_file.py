"""The access file: the known devices on disk, in the state directory.

It holds digests of tokens, no token. It is replaced as a whole or not at all. A lock beside it is held by
a server for as long as it runs, and by a command without a server for one change.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import orjson
import trio

from hermes_mobile.ops.whole_file import give_to_owner, replace_file, sync_directory
from hermes_mobile.server.devices import AccessFileError, Credential, Devices, KnownDevice
from hermes_mobile.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from pathlib import Path

NAME: Final = "devices.json"
LOCK_NAME: Final = "devices.lock"
VERSION: Final = 1
DIGEST_BYTES: Final = 32
FIELDS: Final[dict[str, tuple[type, ...]]] = {
    "id": (str,),
    "name": (str,),
    "platform": (str,),
    "last_seen": (int, type(None)),
    "revoked": (bool,),
}
"""Of a device, beside its tokens."""
LOCK_SECONDS: Final = 5.0
"""How long the lock is waited for: a command holds it for a moment, a server that stops for longer."""


class AccessFile:
    """The file in a directory whose lock is held."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writing = threading.Lock()
        self._numbers = count(1)
        self._newest = 0
        """The number of the last write that was made."""

    async def read(self) -> list[KnownDevice]:
        """*Errors*: AccessFileError."""
        return await trio.to_thread.run_sync(read, self._directory, abandon_on_cancel=True)

    async def write(self, known: Sequence[KnownDevice]) -> None:
        """Replace the file, unless that fails: then it is as it was.

        *Cancellation*: whether the write is made is not known; it never undoes a later one.

        *Errors*: AccessFileError.
        """
        write_it = partial(self._write, next(self._numbers), known)
        await trio.to_thread.run_sync(write_it, abandon_on_cancel=True)

    def _write(self, number: int, known: Sequence[KnownDevice]) -> None:
        with self._writing:
            if number > self._newest:
                write(self._directory, known)
                self._newest = number


@asynccontextmanager
async def open_access_file(directory: Path) -> AsyncIterator[AccessFile]:
    """The access file in `directory`, which is made when there is none, for nobody else meanwhile.

    *Errors*: AccessFileError; also when another process keeps it for 5 s.
    """
    lock = _open_lock(directory)
    try:
        await _lock(lock, directory)
        yield AccessFile(directory)
    finally:
        os.close(lock)


@asynccontextmanager
async def open_devices(state_dir: Path | None) -> AsyncIterator[Devices]:
    """The devices of a server; without `state_dir` they do not outlive it. *Errors*: SettingsError."""
    if state_dir is None:
        yield Devices()
        return
    async with AsyncExitStack() as stack:
        try:
            file = await stack.enter_async_context(open_access_file(state_dir))
            devices = Devices(await file.read(), file)
        except AccessFileError as error:
            raise SettingsError(f"MOBILE_STATE_DIR: {error}") from None
        yield devices


def _open_lock(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise AccessFileError(f"{directory} cannot be used: {error.strerror}") from None
    give_to_owner(lock, directory)
    return lock


async def _lock(lock: int, directory: Path) -> None:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    with trio.move_on_after(LOCK_SECONDS) as waiting:
        await trio.to_thread.run_sync(fcntl.flock, lock, fcntl.LOCK_EX, abandon_on_cancel=True)
    if waiting.cancelled_caught:
        raise AccessFileError(f"{directory} is in use by another hermes-mobile")


def read(directory: Path) -> list[KnownDevice]:
    """The devices in the file in `directory`, none where there is no file. *Errors*: AccessFileError."""
    path = directory / NAME
    try:
        content = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AccessFileError(f"{path} cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError:
        raise AccessFileError(f"{path} is damaged: no JSON") from None
    version = content.get("version") if isinstance(content, dict) else None
    if version != VERSION:
        raise AccessFileError(
            f"{path} is of a version that is not known here, this knows {VERSION}"
        )
    try:
        known = [_device(entry) for entry in content["devices"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise AccessFileError(f"{path} is damaged: its devices") from None
    tokens = [credential for device in known for credential in device.tokens]
    if len({device.id for device in known}) < len(known) or len(set(tokens)) < len(tokens):
        raise AccessFileError(f"{path} is damaged: a device or a token is there twice")
    return known


def write(directory: Path, known: Iterable[KnownDevice]) -> None:
    """Replace the file in `directory`. *Errors*: AccessFileError; the file is as it was then."""
    path = directory / NAME
    content = {"version": VERSION, "devices": [_entry(device) for device in known]}
    try:
        replace_file(path, orjson.dumps(content, option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise AccessFileError(f"{path} cannot be written: {error.strerror}") from None
    with suppress(OSError):  # it is replaced, and only a loss of power could still undo that
        sync_directory(directory)


def _entry(device: KnownDevice) -> dict[str, Any]:
    tokens = [credential.digest.hex() for credential in device.tokens]
    return {name: getattr(device, name) for name in FIELDS} | {"tokens": tokens}


def _device(entry: dict[str, Any]) -> KnownDevice:
    """*Errors*: AttributeError, KeyError, TypeError, ValueError for what is none."""
    digests = [bytes.fromhex(digest) for digest in entry["tokens"]]
    for name, kinds in FIELDS.items():
        if type(entry[name]) not in kinds:
            raise TypeError
    if not entry["id"] or any(len(digest) != DIGEST_BYTES for digest in digests):
        raise ValueError
    return KnownDevice(
        tokens=tuple(map(Credential, digests)), **{name: entry[name] for name in FIELDS}
    )
