"""Memory that is free, given back to the kernel.

Large files come and go among small things that stay. The C library keeps the holes between them: a
server that once held a thousand uploads would stay that large, and grow to several times what is held.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

GIVE_BACK_SECONDS: Final = 10.0
"""Between two times: each takes a millisecond, and ten for every 100 MiB that it finds."""


async def give_back_memory(_: object) -> None:
    """Give it back every now and then, until cancelled; returns where the C library cannot."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while trim is not None:
        await trio.sleep(GIVE_BACK_SECONDS)
        trim(0)
