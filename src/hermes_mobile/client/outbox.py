"""Messages on their way to the server, until it has accepted them (T1, T9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import define, field

from hermes_mobile.client.errors import ClientError, OfflineError, RefusedError
from hermes_mobile.protocol.frames import Accepted, ClientFrame, Error, Pong, PromptAnswer
from hermes_mobile.protocol.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_MESSAGES: Final = 64
MAX_HELD_FRAMES: Final = 64
MAX_BYTES: Final = 16 * MIB

Receipt: TypeAlias = Accepted | Pong
"""The frame that says that a message has arrived."""


@define(eq=False)
class Outgoing:
    """What one call sends.

    `frames` are made one at a time, each time that they are written: a file is not held twice. `size`
    is in bytes, of what is held meanwhile. Without a `receipt` a message is done once it is written,
    and so is one whose receipt is `Accepted` where the server gives none.
    """

    frames: Sequence[ClientFrame]
    size: int
    receipt: Receipt | None = None
    id: str | None = None
    """What a refusal of it echoes (D25)."""
    lasting: bool = True
    """It outlives the connection that it was written to; if not, it then has an OfflineError."""
    written: int = field(default=0, init=False)
    """Frames of it that went out on this connection."""
    done: bool = field(default=False, init=False)
    error: ClientError | None = field(default=None, init=False)
    """Why it came to nothing."""


class Outbox:
    """Every message that is not done, oldest first; the first ones were begun on this connection.

    What a lost connection leaves unaccepted goes out again on the next one, in the same order and
    under the same ids; the server's deduplication makes that safe (D19).

    *Limits*: 64 messages and 16 MiB, while no connection was there yet 64 frames and 16 MiB. Whoever
    adds waits for room, so that nothing accepted here is given up later.
    """

    def __init__(self) -> None:
        self._messages: list[Outgoing] = []
        self._begun = 0
        self._size = 0
        self._receipts = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def size(self) -> int:
        return self._size

    def has_room(self, message: Outgoing) -> bool:
        """Whether it may be added; one message alone always may."""
        if not self._messages:
            return True
        return len(self._messages) < MAX_MESSAGES and self._size + message.size <= MAX_BYTES

    def may_hold(self, message: Outgoing) -> bool:
        """Whether it may wait for the first connection (T1)."""
        frames = sum(len(each.frames) for each in self._messages) + len(message.frames)
        return frames <= MAX_HELD_FRAMES and self._size + message.size <= MAX_BYTES

    def add(self, message: Outgoing) -> None:
        self._messages.append(message)
        self._size += message.size

    def withdraw(self, message: Outgoing) -> None:
        """Take back a message that was not begun; one that was, goes on to its end."""
        if message in self._messages[self._begun :]:
            self._remove(message)

    def begin_next(self) -> Outgoing | None:
        """The next message to write; None while there is none."""
        if self._begun == len(self._messages):
            return None
        message = self._messages[self._begun]
        self._begun += 1
        return message

    def written(self, message: Outgoing) -> None:
        """Take note that the last frame of a message went out."""
        match message.receipt:
            case None:
                self._end(message)
            case Accepted() if not self._receipts:
                self._end(message)

    def settle(self, receipt: Receipt) -> None:
        """The server says that a message has arrived: the oldest one that waits for that."""
        self._end(self._find(lambda message: message.receipt == receipt))

    def card_closed(self, card_id: str) -> None:
        """A card is done: that answers an answer, too."""
        self.settle(Accepted(card_id))

    def refuse(self, error: Error) -> bool:
        """Give the server's refusal to the message that it answers; whether there is one.

        The refusal of an answer to a card has no id; `forbidden` is the only one there is (D21).
        """
        if error.id is not None:
            message = self._find(lambda each: each.id == error.id)
        elif error.code == "forbidden" and not error.fatal:
            message = self._find(lambda each: isinstance(each.frames[0], PromptAnswer))
        else:
            message = None
        self._end(message, RefusedError(error.code, error.message, error.id))
        return message is not None

    def connection_opened(self, *, receipts: bool) -> None:
        self._receipts = receipts

    def connection_ended(self) -> None:
        """Owe anew what was not accepted; passing messages come to nothing."""
        self._begun = 0
        for message in list(self._messages):
            message.written = 0
            if not message.lasting:
                self._end(message, OfflineError("the connection was lost"))

    def give_up(self, reason: Callable[[], ClientError]) -> None:
        """There will be no connection any more."""
        self._begun = 0
        for message in list(self._messages):
            self._end(message, reason())

    def _find(self, fits: Callable[[Outgoing], bool]) -> Outgoing | None:
        """Only what was begun can have an answer."""
        return next((each for each in self._messages[: self._begun] if fits(each)), None)

    def _end(self, message: Outgoing | None, error: ClientError | None = None) -> None:
        if message is not None and not message.done:
            self._remove(message)
            message.done, message.error = True, error

    def _remove(self, message: Outgoing) -> None:
        index = self._messages.index(message)
        del self._messages[index]
        self._begun -= index < self._begun
        self._size -= message.size
