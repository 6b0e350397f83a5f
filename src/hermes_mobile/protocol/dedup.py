"""The idempotency window: what was accepted lately is not accepted again (D19)."""

from collections import OrderedDict
from math import inf
from typing import Final

from hermes_mobile.protocol.limits import DEDUP_IDS_PER_DEVICE, DEDUP_IDS_TOTAL, DEDUP_WINDOW


class DedupWindow:
    """The ids of all devices' accepted messages: for 600 s, 4,000 a device, 40,000 in all.

    The oldest go first, and a device without ids costs nothing. `now` is monotonic seconds and
    never goes back. Every method takes constant time, spread over many calls.
    """

    def __init__(
        self,
        window: float = DEDUP_WINDOW,
        per_device: int = DEDUP_IDS_PER_DEVICE,
        total: int = DEDUP_IDS_TOTAL,
    ) -> None:
        self._window: Final = window
        self._per_device: Final = per_device
        self._total: Final = total
        # Both oldest first. A plain dict would do, but finding its first key gets slower with every
        # first key taken away.
        self._accepted: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._ids: dict[str, OrderedDict[str, None]] = {}
        self._next_expiry = -inf  # nothing expires before it

    def __len__(self) -> int:
        return len(self._accepted)

    def seen(self, device: str, id: str, now: float) -> bool:
        """Whether `id` of `device` was recorded less than 600 s ago and is still remembered."""
        self._expire(now)
        return (device, id) in self._accepted

    def record(self, device: str, id: str, now: float) -> None:
        """Remember an accepted message; one already there counts as new again."""
        self._expire(now)
        self.forget(device, id)
        self._accepted[device, id] = now
        ids = self._ids.setdefault(device, OrderedDict())
        ids[id] = None
        if len(ids) > self._per_device:
            self.forget(device, next(iter(ids)))
        if len(self._accepted) > self._total:
            self.forget(*next(iter(self._accepted)))

    def forget(self, device: str, id: str) -> None:
        """Let the message be sent again: its turn failed. An unknown one is no error."""
        if self._accepted.pop((device, id), None) is None:
            return
        ids = self._ids[device]
        del ids[id]
        if not ids:
            del self._ids[device]

    def _expire(self, now: float) -> None:
        if now < self._next_expiry:
            return
        while self._accepted:
            oldest, recorded = next(iter(self._accepted.items()))
            self._next_expiry = recorded + self._window
            if now < self._next_expiry:
                return
            self.forget(*oldest)
        self._next_expiry = now + self._window
