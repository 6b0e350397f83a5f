"""How many messages a minute a device may send."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.rate import MessageRate

RATES = st.integers(1, 1_000)
MOMENTS = st.lists(st.integers(0, 60_000), min_size=1, max_size=200).map(sorted)
"""Milliseconds."""


def send(rate: MessageRate, now: float, per_minute: int, device: str = "phone") -> float:
    """Send a message if it may be sent; returns how long to wait if not."""
    wait = rate.wait(device, now, per_minute)
    if not wait:
        rate.take(device, now, per_minute)
    return wait


@pytest.mark.parametrize("per_minute", [1, 7, 30, 60, 999])
def test_as_many_may_come_at_once(per_minute: int) -> None:
    """A device that was quiet may send a minute's worth, to the last one; then it has to wait."""
    rate = MessageRate()
    assert [send(rate, 1e6, per_minute) for _ in range(per_minute)] == [0.0] * per_minute
    assert send(rate, 1e6, per_minute) == pytest.approx(60 / per_minute)


def test_the_bucket_fills_evenly() -> None:
    """Six a minute are one each ten seconds, once the first six were sent."""
    rate = MessageRate()
    for _ in range(6):
        assert not send(rate, 0.0, 6)
    assert send(rate, 9.0, 6) == pytest.approx(1.0)
    assert not send(rate, 10.0, 6)
    assert send(rate, 10.0, 6) == pytest.approx(10.0)
    assert not send(rate, 31.0, 6)
    assert not send(rate, 31.0, 6)
    assert send(rate, 31.0, 6) == pytest.approx(9.0)


def test_each_device_has_its_own() -> None:
    """One that sends too much takes nothing from another."""
    rate = MessageRate()
    assert not send(rate, 0.0, 1, "phone")
    assert not send(rate, 0.0, 1, "tablet")
    assert send(rate, 0.0, 1, "phone")


def test_quiet_devices_are_forgotten() -> None:
    """Whose bucket is full again costs nothing, however many there were, beside a busy one."""
    rate = MessageRate()
    send(rate, 0.0, 60)
    for number in range(1_000):
        send(rate, 0.0, 60, f"dev-{number}")
    send(rate, 0.5, 60)
    assert len(rate) == 1_001
    send(rate, 1.0, 60)
    assert len(rate) == 1


def test_a_new_rate_holds_at_once() -> None:
    """A bucket that is empty stays empty, and fills as the new rate says."""
    rate = MessageRate()
    for _ in range(10):
        send(rate, 0.0, 10)
    assert send(rate, 0.0, 60) == pytest.approx(1.0)
    assert not send(rate, 1.0, 60)


@given(RATES, MOMENTS)
def test_it_is_a_bucket_of_tokens(per_minute: int, moments: list[int]) -> None:
    """It decides as a bucket does that is counted in exact fractions of a token."""
    rate = MessageRate()
    tokens, counted_at = Fraction(per_minute), 0
    for moment in moments:
        earned = Fraction(per_minute * (moment - counted_at), 60_000)
        tokens, counted_at = min(Fraction(per_minute), tokens + earned), moment
        wait = send(rate, moment / 1000, per_minute)
        if tokens >= 1:
            assert wait == 0
            tokens -= 1
        else:
            assert wait == pytest.approx(float((1 - tokens) * 60 / per_minute), abs=1e-5)


@given(RATES, MOMENTS)
def test_who_waits_as_told_is_let_in(per_minute: int, moments: list[int]) -> None:
    """After the wait, and not before, there is room for one more."""
    rate = MessageRate()
    now = 0.0
    for moment in moments:
        now = max(now, moment / 1000)
        if wait := send(rate, now, per_minute):
            if wait > 0.01:
                assert rate.wait("phone", now + wait - 0.01, per_minute)
            now += wait
            assert not send(rate, now, per_minute)
