"""Memory that is free goes back to the kernel."""

from __future__ import annotations

import ctypes

import trio

from hermes_mobile.ops import memory
from hermes_mobile.ops.memory import GIVE_BACK_SECONDS, give_back_memory


class CLibrary:
    """Notes when it is asked to trim."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []

    def malloc_trim(self, pad: int) -> int:
        self.asked.append((trio.current_time(), pad))
        return 1


async def test_it_is_given_back_every_now_and_then(autojump_clock, monkeypatch):
    """All of it, at fixed intervals, and never at once."""
    library = CLibrary()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    with trio.move_on_after(2.5 * GIVE_BACK_SECONDS):
        await give_back_memory(None)
    assert library.asked == [(GIVE_BACK_SECONDS, 0), (2 * GIVE_BACK_SECONDS, 0)]


async def test_another_c_library_is_left_alone(autojump_clock, monkeypatch):
    """Where there is nothing to ask for, nothing runs."""
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    await give_back_memory(None)
    assert trio.current_time() == 0


def test_this_c_library_takes_the_call():
    """What the server calls is what the real library understands."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    assert trim is None or trim(0) in {0, 1}
