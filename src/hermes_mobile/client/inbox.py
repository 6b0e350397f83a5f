"""Events on their way to the app."""

from __future__ import annotations

from collections import deque
from typing import Final

from hermes_mobile.client.events import Event, ReceivedFile
from hermes_mobile.protocol.limits import MIB

MAX_EVENTS: Final = 1024
MAX_BYTES: Final = 32 * MIB


class Inbox:
    """Events that the app has not taken yet, oldest first.

    *Limits*: 1,024 events and 32 MiB of files. An app that takes none at all keeps the newest ones;
    once it has begun to take them, nothing is dropped, and `full` means to read no further.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._size = 0
        self.taken_from = False

    def __len__(self) -> int:
        return len(self._events)

    @property
    def full(self) -> bool:
        """Whether the app is behind."""
        return self.taken_from and self._beyond_bounds(ahead=1)

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._size += size_of(event)
        while not self.taken_from and self._beyond_bounds() and len(self._events) > 1:
            self._pop()

    def take(self) -> Event | None:
        """The oldest event; None while there is none."""
        self.taken_from = True
        return self._pop() if self._events else None

    def _pop(self) -> Event:
        event = self._events.popleft()
        self._size -= size_of(event)
        return event

    def _beyond_bounds(self, ahead: int = 0) -> bool:
        return len(self._events) + ahead > MAX_EVENTS or self._size + ahead > MAX_BYTES


def size_of(event: Event) -> int:
    return len(event.data) if isinstance(event, ReceivedFile) and event.data else 0
