"""How late the event loop is, measured on a clock that jumps."""

from __future__ import annotations

import trio
import trio.testing

from hermes_mobile.http.lag import LoopLag


async def test_lateness_is_measured_and_the_worst_is_kept(mock_clock):
    """A loop that is held up for 3 s wakes the 1 s timer 2 s late; then it is on time again."""
    lag = LoopLag()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lag.measure)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(3)
        await trio.testing.wait_all_tasks_blocked()
        assert (lag.last, lag.most) == (2.0, 2.0)
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        assert (lag.last, lag.most) == (0.0, 2.0)
        nursery.cancel_scope.cancel()
