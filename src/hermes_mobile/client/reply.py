"""What the agent says to one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve, field, frozen

from hermes_mobile.client.events import ReceivedFile
from hermes_mobile.protocol.frames import Accepted, Error, Message, Typing
from hermes_mobile.protocol.limits import REPLY_PIECE_CHARS

if TYPE_CHECKING:
    from hermes_mobile.client.events import Event

CONTINUED_CHARS: Final = REPLY_PIECE_CHARS - REPLY_PIECE_CHARS // 5
"""A stream that ends with at least so many code points goes on under the next id (D28, D29)."""


@frozen
class Reply:
    """`messages` are the texts of one turn, each whole so far; `done` when the turn is over."""

    messages: tuple[str, ...] = field(default=(), repr=False)
    files: tuple[ReceivedFile, ...] = ()
    done: bool = False
    text: str = field(default="", repr=False)
    """All of it: messages on lines of their own, a stream that was cut put together again."""


class ReplyCollector:
    """Puts together what is said from the receipt of one message to the end of its turn."""

    def __init__(self, message_id: str) -> None:
        self._id: Final = message_id
        self._pieces: dict[str, dict[int, Message]] = {}
        self._streamed: set[str] = set()
        self.accepted = False
        """Whether what is said from now on belongs to it."""
        self.begun = False
        """Whether the agent was seen at work on it."""
        self.answered = False
        """Whether something of it is whole: a message or a file."""
        self.reply = Reply()
        self.error: Error | None = None
        """Why the turn came to nothing."""

    def take(self, event: Event | Accepted) -> None:
        match event:
            case Accepted(id):
                self.accepted = self.accepted or id == self._id
            case Error(id=id) if id == self._id:
                self.error = event
            case Typing(stop=False):
                self.begun = self.accepted
            case Message() if self.accepted:
                self._add(event)
            case ReceivedFile() if self.accepted:
                self.answered = True
                self.reply = evolve(self.reply, files=(*self.reply.files, event))

    def finish(self) -> None:
        self.reply = evolve(self.reply, done=True)

    def _add(self, message: Message) -> None:
        self.answered = self.answered or message.final
        if message.edit or (message.total == 1 and not message.final):
            self._streamed.add(message.id)
        self._pieces.setdefault(message.id, {})[message.index] = message
        texts = {
            message_id: "".join(pieces[index].text for index in sorted(pieces))
            for message_id, pieces in self._pieces.items()
        }
        self.reply = evolve(self.reply, messages=tuple(texts.values()), text=self._joined(texts))

    def _joined(self, texts: dict[str, str]) -> str:
        joined, glue = "", ""
        for message_id, text in texts.items():
            joined += glue + text
            cut = message_id in self._streamed and len(text) >= CONTINUED_CHARS
            glue = "" if cut else "\n"
        return joined
