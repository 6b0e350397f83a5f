"""When silence is answered, and when it ends a connection (T5)."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.client.keep_alive import KeepAlive, Verdict


def test_silence_is_asked_about_after_25_seconds_and_given_up_45_later() -> None:
    """T5: to the moment, and not before."""
    keep_alive = KeepAlive(25.0, 45.0, now=100.0)
    assert keep_alive.deadline == 125.0
    assert keep_alive.check(124.9) is Verdict.WAIT
    assert keep_alive.check(125.0) is Verdict.ASK
    assert keep_alive.deadline == 170.0
    assert keep_alive.check(169.9) is Verdict.WAIT
    assert keep_alive.check(170.0) is Verdict.GIVE_UP


def test_anything_received_is_life() -> None:
    """T5: it puts off the question, and it is the answer."""
    keep_alive = KeepAlive(25.0, 45.0, now=0.0)
    keep_alive.received(20.0)
    assert keep_alive.deadline == 45.0
    assert keep_alive.check(45.0) is Verdict.ASK
    keep_alive.received(80.0)
    assert keep_alive.deadline == 105.0
    assert keep_alive.check(105.0) is Verdict.ASK


def test_bytes_that_move_put_off_the_end_but_not_the_question() -> None:
    """T5: a dead link takes bytes for a while, too; a long upload delays the pong."""
    keep_alive = KeepAlive(25.0, 45.0, now=0.0)
    keep_alive.moved(24.0)
    assert keep_alive.check(25.0) is Verdict.ASK
    keep_alive.moved(60.0)
    assert keep_alive.deadline == 105.0
    assert keep_alive.check(105.0) is Verdict.GIVE_UP


def test_zero_asks_never() -> None:
    """T5: `keep_alive=0` turns it off."""
    keep_alive = KeepAlive(0.0, 45.0, now=0.0)
    assert keep_alive.deadline == inf
    assert keep_alive.check(1e9) is Verdict.WAIT


@given(st.lists(st.tuples(st.floats(0.0, 70.0), st.sampled_from(["received", "moved"]))))
def test_a_live_connection_is_never_given_up(steps: list[tuple[float, str]]) -> None:
    """T5: as long as something arrives at least every 70 s, or moves every 45 s, nothing ends."""
    keep_alive, now = KeepAlive(25.0, 45.0, 0.0), 0.0
    for pause, life in steps:
        until = now + (pause if life == "received" else min(pause, 44.0))
        while keep_alive.deadline < until:
            now = keep_alive.deadline
            verdict = keep_alive.check(now)
            if verdict is Verdict.GIVE_UP:
                assert until - now <= 25.0 + 45.0
                return  # only what moved before the question can have been so long ago
        now = until
        getattr(keep_alive, life)(now)
    assert keep_alive.check(now) in {Verdict.WAIT, Verdict.ASK}
