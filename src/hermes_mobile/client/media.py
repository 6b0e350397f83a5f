"""A file on its way to the agent: where it comes from, and the chunks that it goes in (D17, D18)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Protocol, TypeAlias, overload

import trio
from attrs import frozen

from hermes_mobile.client.errors import RefusedError
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.protocol.frames import MediaChunk, MediaIn, MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MAX_MEDIA_PARTS
from hermes_mobile.protocol.slicing import parts


class AsyncReadable(Protocol):
    """A file opened for bytes, by `trio.open_file` for one."""

    async def read(self, size: int, /) -> bytes: ...


MediaSource: TypeAlias = bytes | bytearray | memoryview | str | os.PathLike[str] | AsyncReadable
"""The bytes of a file, its path, or an open asynchronous file, which is read from where it stands."""


async def read_source(source: MediaSource, limit: int, name: str) -> bytes:
    """The whole file; `name` is what a refusal calls it.

    *Errors*: RefusedError `too_big` above `limit` bytes, of which it reads one more at most, and
    `bad_frame` for an empty file; OSError for a path that cannot be read.
    """
    match source:
        case bytes() | bytearray() | memoryview():
            await trio.lowlevel.checkpoint()
            return _within(bytes(source), len(source), limit, name)
        case str() | os.PathLike():
            size = (await trio.Path(source).stat()).st_size
            _within(b"?", size, limit, name)
            async with await trio.open_file(source, "rb") as file:
                return await read_source(file, limit, name)
        case _:
            data = bytearray()
            while len(data) <= limit and (read := await source.read(limit + 1 - len(data))):
                data += read
            return _within(bytes(data), len(data), limit, name)


def _within(data: bytes, size: int, limit: int, name: str) -> bytes:
    if size > limit:
        raise RefusedError(ErrorCode.TOO_BIG, f"{name}: at most {limit} bytes")
    if not data:
        raise RefusedError(ErrorCode.BAD_FRAME, f"{name}: an empty file")
    return data


def name_of(source: MediaSource) -> str:
    """The name of a path, or of a file that was opened by one; else empty."""
    path = source if isinstance(source, str | os.PathLike) else getattr(source, "name", "")
    return PurePath(path).name if isinstance(path, str | os.PathLike) else ""


@frozen
class MediaFrames(Sequence[MediaChunk]):
    """The `media` frames of a file, each cut out when it is asked for.

    *Errors*: ValueError for a `chunk_bytes` that makes no frames that a server takes.
    """

    id: str
    kind: MediaIn
    data: bytes
    mime: str
    filename: str
    caption: str
    chunk_bytes: int

    def __attrs_post_init__(self) -> None:
        if not 0 < self.chunk_bytes <= MAX_MEDIA_BYTES or len(self) > MAX_MEDIA_PARTS:
            raise ValueError(
                f"chunk_bytes: from 1 to {MAX_MEDIA_BYTES}, and at most {MAX_MEDIA_PARTS} chunks"
            )

    def __len__(self) -> int:
        return parts(len(self.data), self.chunk_bytes)

    @overload
    def __getitem__(self, part: int) -> MediaChunk: ...
    @overload
    def __getitem__(self, part: slice) -> list[MediaChunk]: ...
    def __getitem__(self, part: int | slice) -> MediaChunk | list[MediaChunk]:
        if isinstance(part, slice):
            return [self[each] for each in range(*part.indices(len(self)))]
        if not 0 <= part < len(self):
            raise IndexError(part)
        start = part * self.chunk_bytes
        return MediaChunk(
            id=self.id,
            kind=self.kind,
            data=self.data[start : start + self.chunk_bytes],
            part=part,
            parts=len(self),
            mime=self.mime,
            filename=self.filename,
            caption=self.caption,
        )


def kind_in(mime: str) -> MediaIn:
    """The kind that an app sends a file of this type as."""
    main = mime.partition("/")[0]
    return next((kind for kind in MediaIn if kind == main), MediaIn.DOCUMENT)


def kind_out(mime: str) -> MediaOut:
    """The kind that a service delivers a file of this type as."""
    match mime.partition("/"):
        case ("image", _, "gif"):
            return MediaOut.ANIMATION
        case ("audio", _, "ogg"):
            return MediaOut.VOICE
        case (main, _, _):
            return next((kind for kind in MediaOut if kind == main), MediaOut.DOCUMENT)
