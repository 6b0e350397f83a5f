"""What devices sent as files, on disk for agents that want paths: `<state dir>/received/`.

A file's name begins with when it came (UTC) and a random number, and ends with what can be kept of
the name that the app gave it: `20261130T164912Z-4f1c9a2077ab-report.pdf`. So names sort by age, two
never meet, and none leads anywhere else. The files of earlier runs count; others are left alone.

All work on the disk is done in threads, at most `WRITERS` of them.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from collections import OrderedDict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import regex
import structlog
import trio
from attrs import evolve, frozen

from hermes_mobile.agents import FileInput, VoiceInput
from hermes_mobile.ops.whole_file import DRAFT_PREFIX, replace_file
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.protocol.uploads import guess_suffix
from hermes_mobile.server.settings import SettingsError
from hermes_mobile.server.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hermes_mobile.server.settings import Settings

log = structlog.get_logger()

WRITERS: Final = 4
"""Threads that may wait for the disk at a time."""
MAX_STEM_BYTES: Final = 80
MAX_SUFFIX_BYTES: Final = 20
"""Of UTF-8; with what goes before them a name stays far below the 255 that file systems take."""

_OURS = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{12}-.+")
_UNSAFE = regex.compile(r"[^\p{L}\p{M}\p{N}_.-]+")


@frozen
class _Kept:
    size: int
    expires_at: float


class Received:
    """The files of `directory`: at most `max_bytes`, each for at most `max_age` seconds.

    Where room is needed, the oldest go first. A file may go while an agent works on it: who wants it
    for longer copies it.
    """

    def __init__(self, directory: Path, max_bytes: int, max_age: float) -> None:
        self.directory = directory
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        """The oldest first, and so in the order of their expiry."""
        self._kept_bytes = 0
        self._writing_bytes = 0
        self._threads = trio.CapacityLimiter(WRITERS)
        self._janitor = Timer(self._next_expiry, self._expire)
        self._nursery: trio.Nursery

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        """Of all files, those that are being written included."""
        return self._kept_bytes + self._writing_bytes

    async def load(self) -> None:
        """Make the directory, and take stock of the files of earlier runs. *Errors*: OSError."""
        for path, size, age in await trio.to_thread.run_sync(_take_stock, self.directory):
            self._add(path, size, age)
        await self._in_thread(_remove, [*self._take_expired(), *self._take_oldest()])

    async def run(self) -> None:
        """Let files go when they are old enough."""
        async with trio.open_nursery() as self._nursery:
            await self._janitor.run()

    async def keep(self, message: FileInput | VoiceInput) -> FileInput | VoiceInput:
        """Write the file of `message`; returns the message with its path.

        *Cancellation*: waits until the disk has answered, and leaves nothing behind.
        *Errors*: ProtocolError `internal_error` when there is no room for it, or the disk fails.
        """
        size = len(message.data)
        if size > self._max_bytes:
            raise _refusal(message, f"data: files of at most {self._max_bytes} bytes are kept here")
        if size > self._max_bytes - self._writing_bytes:
            raise _refusal(message, "too many files at once: resend later")
        path = self.directory / _name(message)
        self._writing_bytes += size
        try:
            await self._in_thread(_replace, self._take_oldest(), path, message.data)
        except OSError as error:
            log.error("file not kept", bytes=size, error=error.strerror)
            raise _refusal(message, "the file could not be kept: resend later") from None
        finally:
            self._writing_bytes -= size
        self._add(path, size, 0.0)
        kept = evolve(message, path=path)
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            await self.discard(kept)
            raise
        return kept

    async def discard(self, message: FileInput | VoiceInput) -> None:
        """Remove the file of a message that came to nothing."""
        if message.path is not None and message.path in self._kept:
            self._kept_bytes -= self._kept.pop(message.path).size
            await self._in_thread(_remove, [message.path])

    def _add(self, path: Path, size: int, age: float) -> None:
        self._kept[path] = _Kept(size, trio.current_time() + self._max_age - age)
        self._kept_bytes += size
        self._janitor.touch(self._next_expiry())

    def _next_expiry(self) -> float:
        return next((kept.expires_at for kept in self._kept.values()), math.inf)

    def _expire(self, now: float) -> None:  # noqa: ARG002 - as timers fire
        self._nursery.start_soon(self._in_thread, _remove, self._take_expired())

    def _take_expired(self) -> list[Path]:
        """Forget the files that are old enough; returns them, to be removed."""
        now = trio.current_time()
        return self._take(lambda oldest: oldest.expires_at <= now)

    def _take_oldest(self) -> list[Path]:
        """Forget as many files as it takes to keep the quota; returns them, to be removed."""
        return self._take(lambda _: self.bytes > self._max_bytes)

    def _take(self, doomed: Callable[[_Kept], bool]) -> list[Path]:
        taken: list[Path] = []
        while self._kept:
            path, kept = next(iter(self._kept.items()))
            if not doomed(kept):
                break
            del self._kept[path]
            self._kept_bytes -= kept.size
            taken.append(path)
        return taken

    async def _in_thread(self, work: Callable[..., None], *arguments: object) -> None:
        """Let a thread work on the disk. It is waited for even by who was cancelled."""
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(work, *arguments, limiter=self._threads)


async def open_received(settings: Settings) -> Received | None:
    """The files of the state directory; None where none are to be kept. Old ones go at once.

    *Errors*: SettingsError when the directory cannot be used.
    """
    if settings.state_dir is None:
        return None
    directory = settings.state_dir / "received"
    received = Received(directory, settings.received_bytes, settings.received_seconds)
    try:
        await received.load()
    except OSError as error:
        raise SettingsError(
            f"MOBILE_STATE_DIR: {directory} cannot be used: {error.strerror}"
        ) from None
    return received if settings.received_bytes and settings.received_seconds else None


def safe_name(name: str) -> str:
    """What can be kept of a file's name: letters and digits of any script, `-`, `_` and `.`."""
    path = PurePosixPath(_UNSAFE.sub("_", name).rstrip("._"))
    stem = _cut(path.stem.strip("._"), MAX_STEM_BYTES) or "file"
    return stem + _cut(path.suffix, MAX_SUFFIX_BYTES)


def _name(message: FileInput | VoiceInput) -> str:
    match message:
        case VoiceInput():
            given = f"voice.{message.format}"
        case FileInput(filename=""):
            given = f"{message.kind}{guess_suffix(message.mime)}"
        case FileInput():
            given = message.filename
    came_at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{came_at}-{secrets.token_hex(6)}-{safe_name(given)}"


def _refusal(message: FileInput | VoiceInput, reason: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INTERNAL_ERROR, reason, id=message.id)


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode(errors="ignore")


# What threads do


def _take_stock(directory: Path) -> list[tuple[Path, int, float]]:
    """Path, size and age of the files that are there, the oldest first; half files are removed."""
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    now = time.time()
    found: list[tuple[Path, int, float]] = []
    for path in directory.iterdir():
        if path.name.startswith(DRAFT_PREFIX):
            path.unlink()
        elif _OURS.fullmatch(path.name) and not path.is_symlink() and path.is_file():
            stat = path.stat()
            found.append((path, stat.st_size, max(0.0, now - stat.st_mtime)))
    return sorted(found, key=lambda each: each[2], reverse=True)


def _replace(oldest: Iterable[Path], path: Path, data: bytes) -> None:
    """Remove files, and write another one: all of it, or nothing."""
    _remove(oldest)
    replace_file(path, data)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.error("file not removed", error=error.strerror)
