"""When things are due in an open loop."""

import asyncio
import time

import pytest
from bench.schedule import Alarm, arrivals
from hypothesis import given
from hypothesis import strategies as st

RATES = st.tuples(st.floats(0, 1000), st.floats(0, 1000)).filter(lambda rate: max(rate) > 0.01)
SECONDS = st.floats(0.1, 10)


def test_a_fixed_rate_is_even():
    """At 4 per second something is due every quarter of a second, the last at the end."""
    assert list(arrivals((4, 4), 1.5)) == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]


def test_a_rising_rate_gets_denser():
    """From 0 to 8 per second within a second four are due, where 4 t^2 is 1, 2, 3 and 4."""
    expected = [0.5, 0.5**0.5, 0.75**0.5, 1.0]
    assert list(arrivals((0, 8), 1.0)) == pytest.approx(expected)


def test_a_falling_rate_ends():
    """What a rate that falls to zero never reaches is never due."""
    assert list(arrivals((8, 0), 1.0)) == pytest.approx(
        [1 - each for each in (0.75**0.5, 0.5**0.5, 0.5, 0)]
    )


@given(RATES, SECONDS)
def test_as_many_as_the_rates_say(rate, seconds):
    """In all, as many are due as the mean of both rates says, in ascending order and in time."""
    moments = list(arrivals(rate, seconds))
    assert len(moments) == pytest.approx(sum(rate) / 2 * seconds, abs=1)
    assert moments == sorted(moments)
    assert all(0 < moment <= seconds for moment in moments)


@given(RATES, SECONDS, st.integers(1, 5))
def test_shares_are_the_whole(rate, seconds, of):
    """What the workers send between them is what one would have sent."""
    shares = [moment for share in range(of) for moment in arrivals(rate, seconds, share, of)]
    assert sorted(shares) == list(arrivals(rate, seconds))


def test_an_alarm_never_rings_early():
    """A moment has come when its alarm has rung, whether it was ahead or already past."""

    async def ring_twice():
        alarm = Alarm()
        moment = time.monotonic() + 0.002
        await alarm.wait_until(moment)
        rang = time.monotonic()
        await alarm.wait_until(moment)
        alarm.close()
        return rang - moment

    assert asyncio.run(ring_twice()) >= 0
