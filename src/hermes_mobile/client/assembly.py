"""Files that arrive in chunks (T6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import Factory, define, evolve

from hermes_mobile.client.events import ReceivedFile
from hermes_mobile.protocol.limits import MAX_MEDIA_PARTS, MIB

if TYPE_CHECKING:
    from hermes_mobile.protocol.frames import MediaPart

MAX_FILES: Final = 16
MAX_BYTES: Final = 32 * MIB


@define(eq=False)
class _Unfinished:
    about: MediaPart
    """What is known of the file; grows with the chunks."""
    chunks: dict[int, bytes] = Factory(dict)
    size: int = 0

    def add(self, part: MediaPart, data: bytes) -> None:
        self.chunks[part.part] = data
        self.size += len(data)
        known = self.about
        self.about = evolve(  # each chunk may carry what the others lack
            known,
            mime=known.mime or part.mime,
            filename=known.filename or part.filename,
            caption=known.caption or part.caption,
            reply_to=known.reply_to or part.reply_to,
        )


class Assembly:
    """The unfinished files of one connection; chunks are placed by `part`.

    *Limits*: 16 files and 32 MiB; beyond them the oldest file is dropped.
    """

    def __init__(self) -> None:
        self._files: dict[str, _Unfinished] = {}
        self._size = 0

    @property
    def open_count(self) -> int:
        return len(self._files)

    @property
    def buffered_bytes(self) -> int:
        return self._size

    def add(self, part: MediaPart) -> ReceivedFile | None:
        """Take a chunk; the file, if this completes it. A chunk that makes no sense is ignored."""
        if part.data is None or part.parts == 1:
            self._drop(part.id)
            return _whole(part, part.data)
        if not 0 <= part.part < part.parts <= MAX_MEDIA_PARTS:
            return None
        file = self._open(part)
        if part.part in file.chunks:
            return None
        file.add(part, bytes(part.data))
        self._size += len(part.data)
        if len(file.chunks) == part.parts:
            self._drop(part.id)
            return _whole(file.about, b"".join(file.chunks[n] for n in range(part.parts)))
        self._keep_within_bounds()
        return None

    def clear(self) -> None:
        """Forget all: after a disconnect they come again from the first chunk."""
        self._files.clear()
        self._size = 0

    def _open(self, part: MediaPart) -> _Unfinished:
        known = self._files.get(part.id)
        if known is not None and known.about.parts == part.parts:
            return known
        self._drop(part.id)
        file = self._files[part.id] = _Unfinished(part)
        return file

    def _drop(self, id: str) -> None:
        file = self._files.pop(id, None)
        if file is not None:
            self._size -= file.size

    def _keep_within_bounds(self) -> None:
        while len(self._files) > MAX_FILES or self._size > MAX_BYTES:
            self._drop(next(iter(self._files)))


def _whole(about: MediaPart, data: bytes | memoryview | None) -> ReceivedFile:
    return ReceivedFile(
        id=about.id,
        kind=about.kind,
        mime=about.mime,
        filename=about.filename,
        size=about.size,
        data=None if data is None else bytes(data),
        caption=about.caption,
        url=about.url,
        reply_to=about.reply_to,
    )
