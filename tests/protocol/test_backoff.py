"""The pause between attempts (T2)."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    """T2: without luck they are 0.5, 1, 2, 4 s and so on, and then `longest`; attempts count from 1."""
    backoff = Backoff(15.0, lambda: 1.0)
    assert [(backoff.pause(0.0), backoff.attempt) for _ in range(7)] == [
        (0.5, 1),
        (1.0, 2),
        (2.0, 3),
        (4.0, 4),
        (8.0, 5),
        (15.0, 6),
        (15.0, 7),
    ]


def test_the_jitter_is_full() -> None:
    """T2: a pause is anything between nothing and its ceiling."""
    luck = iter((0.0, 0.25, 0.5))
    backoff = Backoff(15.0, lambda: next(luck))
    assert [backoff.pause(0.0) for _ in range(3)] == [0.0, 0.25, 1.0]


def test_ten_seconds_of_life_make_a_new_beginning() -> None:
    """T2: a server that accepts and then drops is not hammered."""
    backoff = Backoff(15.0, lambda: 1.0)
    assert [backoff.pause(lived) for lived in (0.0, 9.9, 9.9, 10.0, 0.0)] == [
        0.5,
        1.0,
        2.0,
        0.5,
        1.0,
    ]


@given(st.floats(0.001, 3600.0), st.lists(st.floats(0.0, 60.0), max_size=100))
def test_no_pause_is_longer_than_the_longest(longest: float, lives: list[float]) -> None:
    """However long it goes on, the ceiling holds."""
    backoff = Backoff(longest, lambda: 1.0)
    assert all(0 < backoff.pause(lived) <= longest for lived in lives)


def test_it_goes_on_for_years() -> None:
    """The doubling overflows nothing."""
    backoff = Backoff(15.0, lambda: 1.0)
    assert {backoff.pause(0.0) for _ in range(2_000)} == {0.5, 1.0, 2.0, 4.0, 8.0, 15.0}
