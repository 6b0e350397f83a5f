"""When things are due in an open loop, and a clock that wakes up on time.

An open loop sends at moments that were fixed before, whether or not answers came. A latency counts
from such a moment: a server that stalls for a second makes all that was due in it late, and is not
spared by a generator that waits for it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOCK_MONOTONIC: Final = 1
TFD_NONBLOCK: Final = 0o4000
TFD_TIMER_ABSTIME: Final = 1


def arrivals(
    rate: tuple[float, float], seconds: float, share: int = 0, of: int = 1
) -> Iterator[float]:
    """The moments, in seconds from the begin, at which units are due.

    `rate` goes evenly from its first to its second value; share `share` of `of` has every
    `of`-th moment.
    """
    begin, end = rate
    slope = (end - begin) / seconds
    for number in count(share + 1, of):
        # The `number`-th is due when begin * t + slope * t**2 / 2 reaches it.
        under_root = begin * begin + 2 * slope * number
        if under_root < 0:
            return  # the rate falls to zero before it is due
        at = 2 * number / (begin + sqrt(under_root))  # without the difference of two near equals
        if at > seconds:
            return
        yield at


class Alarm:
    """Wakes at a moment of `time.monotonic()`; the event loop's own timers are a millisecond late."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._rang = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._fd, self._ring)

    def _ring(self) -> None:
        os.read(self._fd, 8)
        self._rang.set()

    async def wait_until(self, moment: float) -> None:
        self._rang.clear()
        seconds, rest = divmod(moment, 1)
        # Two timespecs: no interval, and the moment, which is never zero (that would disarm).
        setting = struct.pack("@4l", 0, 0, int(seconds), int(rest * 1e9) or 1)
        self._libc.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, setting, None)
        await self._rang.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
