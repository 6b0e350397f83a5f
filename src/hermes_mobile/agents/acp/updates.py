"""What an agent reports of its work on a prompt, in line for who shows it."""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

import trio

from hermes_mobile.agents import OutgoingFile
from hermes_mobile.agents.acp.content import said_by
from hermes_mobile.agents.acp.jsonrpc import as_object
from hermes_mobile.protocol.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_WAITING_BYTES: Final = 32 * MIB
"""Of what was reported and not shown yet: one file at its largest always fits."""
ITEM_BYTES: Final = 100
"""What a report costs, about, beside what it says: many small ones are much, too."""


class Pause(Enum):
    """What comes between texts: the message before it is whole."""

    NEXT_MESSAGE = auto()
    WORK = auto()
    """A tool, or a thought."""


class Mark:
    """A place among the reports, which is passed once all before it are shown."""

    def __init__(self) -> None:
        self.passed = trio.Event()


class TooMuchError(Exception):
    """The agent says more than is shown in time."""


class Updates:
    """Reports in their order, from the task that reads to the one that shows; texts grow together."""

    def __init__(self) -> None:
        self._items: deque[list[str] | OutgoingFile | Pause | Mark] = deque()
        self._waiting_bytes = 0
        self._overflow = False
        self._message_id: object = None
        self._closed = trio.Event()
        self._arrival = trio.Event()

    def take_note(self, update: Mapping[str, Any]) -> None:
        """Take a `session/update`; one that shows nothing is passed over."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                if (message_id := update.get("messageId")) != self._message_id:
                    self._message_id = message_id
                    self._add(Pause.NEXT_MESSAGE)
                match said_by(as_object(update.get("content"))):
                    case str() as text:
                        self._add(text)
                    case OutgoingFile() as file:
                        self._add(file)
                    case None:
                        pass
            case "agent_thought_chunk" | "tool_call":
                self._add(Pause.WORK)
            case _:  # plans, usage, modes, commands, tools that go on, and whatever comes to be
                pass

    async def wait_shown(self) -> None:
        """Wait until all that came so far is shown: a question comes behind what leads to it."""
        mark = Mark()
        self._add(mark)
        await mark.passed.wait()

    def close(self) -> None:
        """Say that nothing more comes."""
        self._closed.set()
        self._arrival.set()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    async def next(self) -> str | OutgoingFile | Pause | Mark | None:
        """Wait for the next report; None at the end. Errors: TooMuchError."""
        await self._wait()
        return self._take() if self._items else None

    async def next_text(self) -> str | None:
        """Wait for more text; None when something else comes, or nothing. Errors: TooMuchError."""
        await self._wait()
        if not self._items or not isinstance(self._items[0], list):
            return None
        text = self._take()
        assert isinstance(text, str)  # noqa: S101
        return text

    def _add(self, item: str | OutgoingFile | Pause | Mark) -> None:
        last = self._items[-1] if self._items else None
        if item == last and not isinstance(item, OutgoingFile):
            return  # a pause goes on
        size = ITEM_BYTES
        if isinstance(item, OutgoingFile):
            size += len(item.data)
        elif isinstance(item, str):
            size += len(item)
        if self._waiting_bytes + size > MAX_WAITING_BYTES:
            self._overflow = True
        elif isinstance(item, str) and isinstance(last, list):
            last.append(item)
        else:
            self._items.append([item] if isinstance(item, str) else item)
        self._waiting_bytes += size
        self._arrival.set()

    async def _wait(self) -> None:
        while not (self._items or self._overflow or self._closed.is_set()):
            self._arrival = trio.Event()
            await self._arrival.wait()
        if self._overflow:
            raise TooMuchError

    def _take(self) -> str | OutgoingFile | Pause | Mark:
        match self._items.popleft():
            case list() as chunks:
                text = "".join(chunks)
                self._waiting_bytes -= len(text) + ITEM_BYTES * len(chunks)
                return text
            case OutgoingFile() as file:
                self._waiting_bytes -= len(file.data) + ITEM_BYTES
                return file
            case pause_or_mark:
                self._waiting_bytes -= ITEM_BYTES
                return pause_or_mark
