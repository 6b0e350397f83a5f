"""The messages that Hermes works on, by device: what is said to a device is said in the first of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Turn:
    """`id` is the server's; `message` is the app's id of the message."""

    id: str
    device: str
    message: str
    taken: bool = False
    """Hermes has it."""


class Turns:
    """The open turns, oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, Turn] = {}

    def begin(self, turn: Turn) -> None:
        self._open[turn.id] = turn

    def __contains__(self, turn: Turn) -> bool:
        return turn.id in self._open

    def current(self, device: str) -> Turn | None:
        """The turn that Hermes is speaking in; None when it speaks by itself."""
        return next(iter(self.of(device)), None)

    def of(self, device: str) -> list[Turn]:
        return [turn for turn in self._open.values() if turn.device == device]

    def forget(self, id: str) -> Turn | None:
        """Take note that a turn is over; None when it was before."""
        return self._open.pop(id, None)

    def keep(self, ids: set[str]) -> set[str]:
        """Forget all but `ids`, and return those of them that nobody knows."""
        for gone in self._open.keys() - ids:
            del self._open[gone]
        return ids - self._open.keys()
