"""One task, one deadline that moves."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.server.timer import Timer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock


class Alarm:
    """Something with a deadline: it notes when its timer fired and sets the next one."""

    def __init__(self, *deadlines: float) -> None:
        self._deadlines = [*deadlines, math.inf]
        self.fired: list[float] = []
        self.timer = Timer(lambda: self._deadlines[0], self.fire)

    def fire(self, now: float) -> None:
        self.fired.append(now)
        self._deadlines.pop(0)

    def move(self, deadline: float) -> None:
        self._deadlines[0] = deadline
        self.timer.touch(deadline)


@asynccontextmanager
async def running(alarm: Alarm) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(alarm.timer.run)
        await wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def test_it_fires_exactly_at_each_deadline(autojump_clock: MockClock) -> None:
    """D40: at the deadline, once, and then at the next; with none left it sleeps."""
    alarm = Alarm(3.0, 3.5, 100.0)
    async with running(alarm):
        await trio.sleep(1000)
    assert alarm.fired == [3.0, 3.5, 100.0]


async def test_a_deadline_moves_both_ways(autojump_clock: MockClock) -> None:
    """A touch is all it takes, earlier or later, before the first one too."""
    alarm = Alarm(math.inf, 50.0)
    alarm.move(10.0)
    async with running(alarm):
        alarm.move(5.0)
        await trio.sleep(5)
        await wait_all_tasks_blocked()
        assert alarm.fired == [5.0]
        alarm.move(70.0)
        await trio.sleep(60)
        assert alarm.fired == [5.0]
        await trio.sleep(1000)
    assert alarm.fired == [5.0, 70.0]


async def test_a_deadline_in_the_past_fires_at_once(autojump_clock: MockClock) -> None:
    """What is overdue is not put off."""
    await trio.sleep(7)
    alarm = Alarm(1.0)
    async with running(alarm):
        await wait_all_tasks_blocked()
        assert alarm.fired == [7.0]


async def test_an_hour_without_deadlines_wakes_nobody(autojump_clock: MockClock) -> None:
    """No deadline is kept by polling: a moved deadline does not run the task either."""
    alarm = Alarm(math.inf)
    async with running(alarm):
        for hour in range(10):
            alarm.move(1e6 + hour)
            await trio.sleep(3600)
    assert alarm.fired == []


async def test_firing_may_move_its_own_deadline(autojump_clock: MockClock) -> None:
    """A touch from within `fire` neither loses nor doubles a deadline."""

    class Restless(Alarm):
        def fire(self, now: float) -> None:
            super().fire(now)
            if now < 3:
                self.move(now + 1)

    alarm = Restless(1.0, 0.0, 0.0)
    async with running(alarm):
        await trio.sleep(100)
    assert alarm.fired == [1.0, 2.0, 3.0]
