"""When a silent connection is asked for a sign of life, and when it is given up (T5)."""

from __future__ import annotations

from enum import Enum, auto
from math import inf
from typing import Final


class Verdict(Enum):
    WAIT = auto()
    ASK = auto()
    """Send a `ping`."""
    GIVE_UP = auto()


class KeepAlive:
    """`interval`: seconds of silence until it asks, 0 for never. `timeout`: seconds after that.

    What arrives is life. What goes out is none, for the kernel takes it for a dead peer as well; but
    while an answer is due, bytes that move put off the end: a long upload delays the pong.
    """

    def __init__(self, interval: float, timeout: float, now: float) -> None:
        self._interval: Final = interval
        self._timeout: Final = timeout
        self._received = now
        self._asked = -inf
        self._moved = -inf

    def received(self, now: float) -> None:
        self._received = now
        self._asked = -inf

    def moved(self, now: float) -> None:
        """Take note that the peer's side took bytes."""
        self._moved = now

    @property
    def deadline(self) -> float:
        """When to look again."""
        if self._interval == 0:
            return inf
        if self._asked == -inf:
            return self._received + self._interval
        return max(self._asked, self._moved) + self._timeout

    def check(self, now: float) -> Verdict:
        """Say what to do at `now`; an `ASK` counts as done."""
        if now < self.deadline:
            return Verdict.WAIT
        if self._asked > -inf:
            return Verdict.GIVE_UP
        self._asked = now
        return Verdict.ASK
