"""What is said to a device, in whole units: a message, a file, a card, a card's end (D32).

A unit knows how to become frames; the mailbox keeps it until the device confirmed it, and an outbox
carries it to the writer of the connection that is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import trio

from hermes_mobile.protocol.codec import encode
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.protocol.frames import Error, MediaPart, Message, PromptDone
from hermes_mobile.protocol.slicing import parts, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes_mobile.agents import OutgoingFile
    from hermes_mobile.protocol.cards import Card


class Unit(ABC):
    """One unit and where it stands. Identity counts: equal texts are different units."""

    __slots__ = (
        "_settled",
        "confirmed_by",
        "frame_count",
        "id",
        "made_at",
        "on_confirmed",
        "outstanding",
        "queued",
        "shown",
        "size",
        "written",
    )

    frame_name: ClassVar[str]
    """What its frames count as in the metrics."""

    def __init__(self, id: str, made_at: float, *, size: int, frame_count: int = 1) -> None:
        self.id = id
        self.made_at = made_at
        self.size = size
        """Bytes that it costs to keep."""
        self.frame_count = frame_count
        self.queued = False
        """It waits in the outbox of the connection that is there."""
        self.outstanding = True
        """Its newest state is not confirmed yet."""
        self.shown = False
        """The writer took it up, on some connection: the device may have seen it."""
        self.written = False
        """Its last frame went to the kernel, on some connection."""
        self.confirmed_by: int | None = None
        """The number of the ping whose pong confirms what was written on this connection."""
        self.on_confirmed: Callable[[], None] | None = None
        self._settled: trio.Event | None = None

    @property
    def complete(self) -> bool:
        """Nothing more will be added to it."""
        return True

    @property
    def may_be_dropped(self) -> bool:
        """Whether it may be given up to keep within the bounds (D32): not while it grows."""
        return self.complete

    @abstractmethod
    def frames(self, now: float) -> Iterator[bytes]:
        """Encode the unit's newest state, one frame at a time."""

    def take_up(self) -> None:
        """The writer begins with its newest state: an older one's pong does not confirm that."""
        self.queued = False
        self.shown = True
        self.confirmed_by = None

    def mark_written(self, confirmed_by: int) -> None:
        self.written = True
        self.confirmed_by = confirmed_by
        self.settle()

    def mark_seen(self) -> None:  # noqa: B027 - only what grows has to know
        """Take note that the device confirmed a state of it."""

    def leave_connection(self) -> None:
        """Forget what belongs to a connection that is gone."""
        self.queued = False
        self.confirmed_by = None

    def settle(self) -> None:
        """Let the one who waits see what became of it: written, or given up."""
        if self._settled is not None:
            self._settled.set()

    @property
    def awaited(self) -> bool:
        """Someone waits to be told whether it was written: it is theirs to send again (D25)."""
        return self._settled is not None

    async def wait_settled(self) -> bool:
        """Wait until it was written or given up; returns whether it was written."""
        if self._settled is None:
            self._settled = trio.Event()
        if not self.written:
            await self._settled.wait()
        return self.written


class MessageUnit(Unit):
    """A reply, cut into pieces."""

    __slots__ = ("_pieces",)

    frame_name = "message"

    def __init__(self, id: str, made_at: float, text: str) -> None:
        self._pieces = pieces(text)
        super().__init__(id, made_at, size=text_size(text), frame_count=len(self._pieces))

    def frames(self, now: float) -> Iterator[bytes]:  # noqa: ARG002 - the port of all units
        total = len(self._pieces)
        for index, piece in enumerate(self._pieces):
            yield encode(
                Message(self.id, piece, index=index, total=total, final=index == total - 1)
            )


class StreamUnit(Unit):
    """A reply that grows within one frame (D29); only its newest state is ever sent."""

    __slots__ = ("_complete", "_seen", "_sent_here", "_text")

    frame_name = "message"

    def __init__(self, id: str, made_at: float) -> None:
        super().__init__(id, made_at, size=text_size(""))
        self._text = ""
        self._complete = False
        self._seen = False  # the device confirmed some state of it
        self._sent_here = False  # this connection got some state of it

    @property
    def complete(self) -> bool:
        return self._complete

    def update(self, text: str, *, final: bool) -> None:
        self._text = text
        self.size = text_size(text)
        self._complete = final
        self.outstanding = True
        self.confirmed_by = None

    def mark_seen(self) -> None:
        self._seen = True

    def leave_connection(self) -> None:
        super().leave_connection()
        self._sent_here = False

    def frames(self, now: float) -> Iterator[bytes]:  # noqa: ARG002 - the port of all units
        # What an app is told to edit it must have seen (D29).
        edit = self._sent_here or self._seen
        self._sent_here = True
        yield encode(Message(self.id, self._text, final=self._complete, edit=edit))


class FileUnit(Unit):
    """A file in chunks, or a link to one (D31); chunks are encoded one at a time."""

    __slots__ = ("_chunk_bytes", "_file", "_mime")

    frame_name = "media"

    def __init__(
        self, id: str, made_at: float, file: OutgoingFile, mime: str, chunk_bytes: int
    ) -> None:
        self._file = file
        self._mime = mime
        self._chunk_bytes = chunk_bytes
        super().__init__(
            id,
            made_at,
            size=len(file.data) + text_size(file.caption),
            frame_count=parts(len(file.data), chunk_bytes),
        )

    def frames(self, now: float) -> Iterator[bytes]:  # noqa: ARG002 - the port of all units
        file = self._file
        data = memoryview(file.data)
        for part in range(self.frame_count):
            start = part * self._chunk_bytes
            yield encode(
                MediaPart(
                    self.id,
                    kind=file.kind,
                    mime=self._mime,
                    filename=file.filename,
                    size=len(data),
                    part=part,
                    parts=self.frame_count,
                    final=part == self.frame_count - 1,
                    caption=file.caption if part == 0 else "",
                    data=data[start : start + self._chunk_bytes] or None,
                    url=file.url,
                    reply_to=file.reply_to,
                )
            )


class CardUnit(Unit):
    """A card, shown with the time that it still has."""

    __slots__ = ("card", "closed")

    frame_name = "prompt"
    may_be_dropped = False

    def __init__(self, made_at: float, card: Card) -> None:
        super().__init__(card.id, made_at, size=text_size(card.text + card.command))
        self.card = card
        self.closed = False
        """It ended before it was sent: there is nothing left to show."""

    def frames(self, now: float) -> Iterator[bytes]:
        if not self.closed:
            yield encode(self.card.frame(now))


class CardEndUnit(Unit):
    """The end of a card that was shown."""

    __slots__ = ("_done",)

    frame_name = "prompt_done"

    def __init__(self, made_at: float, done: PromptDone) -> None:
        super().__init__(done.id, made_at, size=text_size(done.option_id))
        self._done = done

    def frames(self, now: float) -> Iterator[bytes]:  # noqa: ARG002 - the port of all units
        yield encode(self._done)


class NoticeUnit(Unit):
    """Tells that `count` units were dropped: said again until it is confirmed (D32)."""

    __slots__ = ("count",)

    frame_name = ErrorCode.INTERNAL_ERROR
    may_be_dropped = False

    def __init__(self, made_at: float, count: int) -> None:
        super().__init__("", made_at, size=text_size(""))
        self.count = count

    def frames(self, now: float) -> Iterator[bytes]:  # noqa: ARG002 - the port of all units
        yield encode(
            Error(ErrorCode.INTERNAL_ERROR, f"{self.count} messages could not be kept while away")
        )


def text_size(text: str) -> int:
    """Bytes that a text may cost, without encoding it: the frame around it is allowed for."""
    return 4 * len(text) + 64
