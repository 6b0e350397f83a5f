"""Chunks into files, within the budget of a device (D17, D18)."""

from mimetypes import MimeTypes
from pathlib import PurePosixPath
from typing import Final

from attrs import Factory, define, field, frozen

from hermes_mobile.protocol.errors import ErrorCode, ProtocolError, bad_frame, too_big
from hermes_mobile.protocol.frames import MediaChunk, MediaIn
from hermes_mobile.protocol.limits import (
    MAX_MEDIA_BYTES,
    MAX_OPEN_UPLOADS,
    MAX_UPLOAD_BUFFER_BYTES,
)

REFUSED_UPLOADS_REMEMBERED: Final = 64
"""Ids whose further chunks are ignored; beyond it the oldest one's next chunk is judged anew."""

UNKNOWN_MIME: Final = "application/octet-stream"

# Python's own tables alone, so that a type does not depend on the machine; and what people send
# that its older releases do not know.
_COMMON, _REGISTERED = MimeTypes().types_map
_MIME_OF_SUFFIX: Final = {
    **_COMMON,
    **_REGISTERED,
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".mkv": "video/x-matroska",
    ".oga": "audio/ogg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".webp": "image/webp",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def guess_mime(filename: str) -> str:
    """The MIME type that the name's suffix stands for, else `application/octet-stream`."""
    return _MIME_OF_SUFFIX.get(PurePosixPath(filename).suffix.lower(), UNKNOWN_MIME)


def guess_suffix(mime: str) -> str:
    """The suffix that usually stands for a MIME type, with its dot; empty where none is known."""
    return next((suffix for suffix, known in _MIME_OF_SUFFIX.items() if known == mime), "")


@frozen
class UploadedFile:
    """A whole file from the app; `mime` is never empty."""

    id: str
    kind: MediaIn
    mime: str
    filename: str = field(repr=False)
    caption: str = field(repr=False)
    data: bytes = field(repr=False)


@define(eq=False)
class _Upload:
    """A file of which some parts are here."""

    kind: MediaIn
    parts: int
    mime: str = ""
    filename: str = ""
    caption: str = ""
    size: int = 0
    data: dict[int, bytes] = Factory(dict)

    def add(self, chunk: MediaChunk) -> None:
        self.data[chunk.part] = chunk.data
        self.size += len(chunk.data)
        self.mime = self.mime or chunk.mime
        self.filename = self.filename or chunk.filename
        self.caption = self.caption or chunk.caption

    def file(self, id: str) -> UploadedFile:
        return UploadedFile(
            id,
            self.kind,
            self.mime or guess_mime(self.filename),
            self.filename,
            self.caption,
            b"".join(self.data[part] for part in range(self.parts)),
        )


class Uploads:
    """The unfinished uploads of one connection.

    *Limits*: 8 open uploads, 8 MiB in all of them together, 8 MiB a file. A file of a single part
    is never open, and is measured by the last of these only.

    `takes`: the kinds of file that the agent can work with.
    """

    def __init__(self, takes: frozenset[MediaIn]) -> None:
        self._takes: Final = takes
        self._open: dict[str, _Upload] = {}
        self._refused: dict[str, None] = {}

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def buffered_bytes(self) -> int:
        return sum(upload.size for upload in self._open.values())

    def add(self, chunk: MediaChunk) -> UploadedFile | None:
        """Take a chunk, in any order; the file, once nothing is missing.

        A repeated part is ignored, and so is what follows of a refused upload, until its id starts
        again with part 0.

        *Errors*: ProtocolError with the chunk's id, never fatal, after which nothing of this upload
        is kept: `unsupported_frame` for a kind that is unknown or not taken, `bad_frame` for a kind
        or a count of parts that changes on the way, `too_big` beyond a limit.
        """
        if chunk.id in self._refused:
            if chunk.part > 0:
                return None
            del self._refused[chunk.id]
        try:
            return self._place(chunk)
        except ProtocolError:
            if self._open.pop(chunk.id, None) is not None or chunk.parts > 1:
                self._refuse(chunk.id)
            raise

    def release(self) -> None:
        """Drop everything: the connection has ended."""
        self._open.clear()
        self._refused.clear()

    def _place(self, chunk: MediaChunk) -> UploadedFile | None:
        upload = self._open.get(chunk.id) or self._begin(chunk)
        if chunk.kind != upload.kind:
            raise bad_frame(f"kind: must stay {upload.kind} for this id", id=chunk.id)
        if chunk.parts != upload.parts:
            raise bad_frame(f"parts: must stay {upload.parts} for this id", id=chunk.id)
        if chunk.part in upload.data:
            return None
        if upload.size + len(chunk.data) > MAX_MEDIA_BYTES:
            raise too_big(f"data: a file is at most {MAX_MEDIA_BYTES} bytes", id=chunk.id)
        if upload.parts > 1 and self.buffered_bytes + len(chunk.data) > MAX_UPLOAD_BUFFER_BYTES:
            raise too_big(
                f"data: open uploads together are at most {MAX_UPLOAD_BUFFER_BYTES} bytes",
                id=chunk.id,
            )
        upload.add(chunk)
        if len(upload.data) < upload.parts:
            return None
        self._open.pop(chunk.id, None)
        return upload.file(chunk.id)

    def _begin(self, chunk: MediaChunk) -> _Upload:
        kind = next((kind for kind in self._takes if kind == chunk.kind), None)
        if kind is None:
            allowed = ", ".join(kind for kind in MediaIn if kind in self._takes) or "none"
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_FRAME,
                f"kind: one of those taken here is expected: {allowed}",
                id=chunk.id,
            )
        upload = _Upload(kind, chunk.parts)
        if chunk.parts > 1:
            if len(self._open) >= MAX_OPEN_UPLOADS:
                raise too_big(
                    f"id: at most {MAX_OPEN_UPLOADS} uploads are open at a time",
                    id=chunk.id,
                )
            self._open[chunk.id] = upload
        return upload

    def _refuse(self, id: str) -> None:
        if len(self._refused) >= REFUSED_UPLOADS_REMEMBERED:
            del self._refused[next(iter(self._refused))]
        self._refused[id] = None
