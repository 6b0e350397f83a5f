"""The pause between attempts to connect: full jitter below a doubling ceiling (T2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_CEILING: Final = 0.5
"""Seconds."""
STABLE_SECONDS: Final = 10.0
"""Life after `ready` that makes a connection a good one: the pauses begin anew."""
DOUBLINGS: Final = 30
"""Beyond them the ceiling would be longer than a year."""


class Backoff:
    """`longest`: ceiling of all pauses, in seconds. `random`: the jitter, from 0 to 1."""

    def __init__(self, longest: float, random: Callable[[], float]) -> None:
        self._longest: Final = longest
        self._random: Final = random
        self.attempt = 0
        """The number of the attempt that the last pause leads to, from 1."""

    def pause(self, lived: float) -> float:
        """Seconds until the next attempt, after a connection that was ready for `lived` seconds."""
        if lived >= STABLE_SECONDS:
            self.attempt = 0
        ceiling = min(self._longest, FIRST_CEILING * 2.0 ** min(self.attempt, DOUBLINGS))
        self.attempt += 1
        return self._random() * ceiling
