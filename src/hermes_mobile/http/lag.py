"""How late the event loop is: what a blocking call, or too much work, does to everyone."""

from __future__ import annotations

from typing import Final

import trio

INTERVAL: Final = 1.0
"""Seconds between two measurements."""


class LoopLag:
    """Seconds by which the last measurement came too late, and the most since the start."""

    def __init__(self) -> None:
        self.last = 0.0
        self.most = 0.0

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            due = trio.current_time() + INTERVAL
            await trio.sleep_until(due)
            self.last = trio.current_time() - due
            self.most = max(self.most, self.last)
