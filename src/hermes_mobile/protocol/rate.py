"""How many messages a minute a device may send: a token bucket for each."""

from collections import OrderedDict
from typing import Final

WINDOW: Final = 60.0
"""Seconds in which an empty bucket fills."""
ROUNDING: Final = 1e-6
"""Seconds that sums of fractions may be wrong by."""


class MessageRate:
    """Buckets of `per_minute` messages, which fill evenly; a device that is quiet costs nothing.

    So that many may come at once, and in any stretch of time no more than that many and the
    stretch's share. `now` is monotonic seconds and never goes back. `per_minute`, above 0, may differ
    from call to call: a bucket that is half full stays so.
    """

    def __init__(self) -> None:
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When each bucket that is not full will be, the one that was used longest ago first."""

    def __len__(self) -> int:
        return len(self._full_at)

    def wait(self, device: str, now: float, per_minute: int) -> float:
        """Seconds until `device` may send a message; 0 when it may now."""
        full_at = self._full_at.get(device, now)
        wait = full_at + WINDOW / per_minute - (now + WINDOW)
        return wait if wait > ROUNDING else 0.0

    def take(self, device: str, now: float, per_minute: int) -> None:
        """Count a message."""
        self._full_at[device] = max(now, self._full_at.get(device, now)) + WINDOW / per_minute
        self._full_at.move_to_end(device)
        while next(iter(self._full_at.values())) <= now:
            self._full_at.popitem(last=False)
