"""When to ping, and when silence means death (D5); the same pings confirm what was written (D32).

Pings are numbered. A pong confirms every unit whose last frame was written before its ping.
"""

from __future__ import annotations

import math
from typing import Final

CONFIRM_AFTER: Final = 1.0
"""Seconds between the last write and the ping that asks for its confirmation."""


class Heartbeat:
    """Pure: time is an argument, in seconds. `interval` between pings, `timeout` for a sign of life.

    Signs of life are counters of bytes: `received`, and `taken`, what the peer's side took of ours.
    The latter counts only while something waits to be taken: a transfer that moves is alive however
    slow, but the kernel of a peer whose app hangs goes on taking pings.
    """

    __slots__ = (
        "_confirm_at",
        "_interval",
        "_judge_at",
        "_ping_at",
        "_received",
        "_taken",
        "_timeout",
        "sent",
    )

    def __init__(self, interval: float, timeout: float, now: float) -> None:
        self._interval = interval
        self._timeout = timeout
        self._ping_at = now + interval
        self._confirm_at = math.inf
        self._judge_at = math.inf
        self._received = 0
        self._taken: int | None = None
        self.sent = 0
        """How many pings were sent; the last one bears this number."""

    @property
    def due(self) -> float:
        return min(self._ping_at, self._confirm_at, self._judge_at)

    @property
    def next_ping(self) -> int:
        """The ping whose pong will confirm what is written now."""
        return self.sent + 1

    def wrote_unit(self, now: float, *, pressing: bool) -> None:
        """Ask for a confirmation soon, or, when much is unconfirmed, at once."""
        self._confirm_at = now if pressing else now + CONFIRM_AFTER

    def ping_due(self, now: float, received: int, taken: int | None) -> bool:
        """Whether to ping now. `taken` is None when nothing waits for the peer to take it."""
        regular = now >= self._ping_at
        if not regular and now < self._confirm_at:
            return False
        if regular:
            self._ping_at = now + self._interval
            if self._judge_at == math.inf:
                self._judge_at = now + self._timeout
                self._received, self._taken = received, taken
        self._confirm_at = math.inf
        self.sent += 1
        return True

    def dead(self, now: float, received: int, taken: int) -> bool:
        """Whether the peer showed no life since the ping that is to be judged now."""
        if now < self._judge_at:
            return False
        self._judge_at = math.inf
        # On a Unix socket what waits is counted with its overhead: a ping of ours makes `taken` fall.
        return received == self._received and (self._taken is None or taken <= self._taken)
