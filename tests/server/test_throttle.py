"""Failures by address, and connections that have not said hello."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.server.settings import Settings
from hermes_mobile.server.throttle import MAX_ADDRESSES, MAX_HELLO_DELAY, PendingHellos, Throttle

ADDRESS = "192.0.2.1"
OTHER = "192.0.2.2"


def throttled(client: str | None = ADDRESS, now: float = 0.0) -> Throttle:
    throttle = Throttle(Settings())
    for _ in range(10):
        throttle.failed(client, now)
    return throttle


def test_ten_failures_refuse_upgrades_for_a_minute() -> None:
    """D37: the tenth failure within a minute closes the door for a minute, to that address."""
    throttle = Throttle(Settings())
    for second in range(9):
        throttle.failed(ADDRESS, float(second))
    assert not throttle.refuse_upgrade(ADDRESS, 9.0)
    throttle.failed(ADDRESS, 60.0)
    assert throttle.refuse_upgrade(ADDRESS, 60.0)
    assert throttle.refuse_upgrade(ADDRESS, 119.999)
    assert not throttle.refuse_upgrade(ADDRESS, 120.0)
    assert not throttle.refuse_upgrade(OTHER, 60.0)


def test_failures_beyond_a_minute_do_not_add_up() -> None:
    """D37: one failure every seven seconds is never too many."""
    throttle = Throttle(Settings())
    for count in range(100):
        throttle.failed(ADDRESS, count * 7.0)
        assert not throttle.refuse_upgrade(ADDRESS, count * 7.0)


def test_an_address_with_a_live_session_is_never_refused() -> None:
    """D37: while any session of the address lives, upgrades pass."""
    throttle = throttled()
    throttle.session_opened(ADDRESS)
    throttle.session_opened(ADDRESS)
    throttle.session_closed(ADDRESS)
    assert not throttle.refuse_upgrade(ADDRESS, 1.0)
    throttle.session_closed(ADDRESS)
    assert throttle.refuse_upgrade(ADDRESS, 1.0)


def test_hellos_of_a_slowed_address_queue_up() -> None:
    """D37: one hello at a time, a second each, until the minute is over."""
    throttle = throttled()
    throttle.session_opened(ADDRESS)
    assert [throttle.hello_delay(ADDRESS, 0.0) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert throttle.hello_delay(ADDRESS, 2.5) == 1.5
    assert throttle.hello_delay(ADDRESS, 10.0) == 1.0
    assert throttle.hello_delay(OTHER, 0.0) == 0.0
    assert throttle.hello_delay(ADDRESS, 60.0) == 0.0


def test_abandoned_hellos_do_not_lock_an_address_out() -> None:
    """D37: however many turns were taken, the next hello waits for a bounded time."""
    throttle = throttled()
    delays = [throttle.hello_delay(ADDRESS, 0.0) for _ in range(1000)]
    assert max(delays) == MAX_HELLO_DELAY


@pytest.mark.parametrize("client", [None, ADDRESS])
def test_who_is_exempt(client: str | None) -> None:
    """D37: a client that nobody named is not counted; a limit of 0 counts nobody."""
    throttle = Throttle(Settings(throttle_failures=0) if client else Settings())
    for _ in range(100):
        throttle.failed(client, 0.0)
    throttle.session_opened(client)
    throttle.session_closed(client)
    assert not throttle.refuse_upgrade(client, 0.0)
    assert throttle.hello_delay(client, 0.0) == 0.0


def test_ipv6_counts_by_network() -> None:
    """D37: all addresses of a /64 are one, the next /64 is another."""
    throttle = throttled("2001:db8::1")
    assert throttle.refuse_upgrade("2001:db8:0:0:ffff::2", 0.0)
    assert not throttle.refuse_upgrade("2001:db8:0:1::1", 0.0)


def test_memory_is_bounded_and_freed() -> None:
    """However many addresses fail, a fixed number is remembered, and none after a minute."""
    throttle = Throttle(Settings())
    for number in range(MAX_ADDRESSES + 100):
        throttle.failed(f"a{number}", 0.0)
    assert len(throttle._records) == MAX_ADDRESSES
    assert not throttle.refuse_upgrade(ADDRESS, 61.0)
    assert not throttle._records
    throttle.session_opened(ADDRESS)
    throttle.session_closed(ADDRESS)
    assert not throttle._sessions


@given(st.lists(st.floats(0.0, 20.0), max_size=60))
def test_refused_exactly_after_ten_failures_within_a_minute(gaps: list[float]) -> None:
    """D37, against the plain statement: some ten failures within a minute, less than one ago."""
    throttle = Throttle(Settings())
    now, failures = 0.0, list[float]()
    for gap in gaps:
        now += gap
        refused = any(
            failures[last] - failures[last - 9] <= 60.0 and now < failures[last] + 60.0
            for last in range(9, len(failures))
        )
        assert throttle.refuse_upgrade(ADDRESS, now) is refused
        throttle.failed(ADDRESS, now)
        failures.append(now)


def test_pending_hellos_per_address() -> None:
    """D37: 32 connections of an address may be silent at once; one that leaves makes room."""
    pending = PendingHellos(Settings())
    assert all(pending.enter("2001:db8::1") for _ in range(32))
    assert not pending.enter("2001:db8::2")
    assert pending.enter(ADDRESS)
    pending.leave("2001:db8::1")
    assert pending.enter("2001:db8::2")


def test_pending_hellos_in_all() -> None:
    """D37: 512 in all, those of exempt clients included."""
    pending = PendingHellos(Settings())
    assert all(pending.enter(None) for _ in range(512))
    assert not pending.enter(None)
    assert not pending.enter(ADDRESS)
    pending.leave(None)
    assert pending.enter(ADDRESS)
    assert not pending.enter(None)


def test_pending_hellos_without_limits() -> None:
    """D37: 0 turns either limit off."""
    pending = PendingHellos(Settings(max_pending=0, max_pending_per_address=0))
    assert all(pending.enter(ADDRESS) for _ in range(2000))


@given(st.lists(st.sampled_from([None, ADDRESS, "2001:db8::1", "2001:db8::2"]), max_size=40))
def test_pending_hellos_leave_nothing_behind(clients: list[str | None]) -> None:
    """Whoever entered and left is forgotten, and whoever was refused was never counted."""
    pending = PendingHellos(Settings(max_pending=12, max_pending_per_address=4))
    entered = [client for client in clients if pending.enter(client)]
    assert len(entered) <= 12
    for client in entered:
        pending.leave(client)
    assert pending._total == 0
    assert not pending._by_address
