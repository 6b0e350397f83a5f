"""Latencies, and how they get from the workers to the parent."""

import pytest
from bench.histogram import Latencies, Recorder
from hypothesis import given
from hypothesis import strategies as st

DURATIONS = st.lists(st.floats(1e-6, 3000), min_size=1, max_size=50)


def latencies(*seconds):
    made = Latencies()
    made.record(seconds)
    return made


def test_percentiles_of_known_values():
    """Of 1 to 1000 ms the median is 500, the 99th percentile 990, and the greatest 1000 ms."""
    made = latencies(*(each / 1000 for each in range(1, 1001)))
    assert [made.percentile(each) for each in (50, 99, 100)] == pytest.approx(
        [0.5, 0.99, 1.0], rel=1e-3
    )
    assert made.summary()["count"] == 1000


def test_nothing_has_no_latency():
    """Where nothing was recorded, every percentile is 0."""
    assert Latencies().percentile(99) == 0.0


def test_what_is_out_of_range_is_kept_at_its_edge():
    """A duration of nothing counts as a microsecond: it is not lost."""
    assert len(latencies(0.0, -1.0)) == 2


@given(DURATIONS, DURATIONS)
def test_workers_add_up(first, second):
    """Two encoded distributions added are the distribution of both."""
    added = Latencies()
    for part in (first, second):
        added.add(latencies(*part).encode())
    assert added.summary() == latencies(*first, *second).summary()


def test_a_recorder_hands_over_once():
    """What was taken is not taken again, and the list to append to stays the same."""
    recorder = Recorder()
    times = recorder.series("turn")
    times.append(0.25)
    assert set(recorder.take()) == {"turn"}
    assert recorder.take() == {}
    times.append(0.5)
    again = Latencies()
    again.add(recorder.take()["turn"])
    assert again.percentile(50) == pytest.approx(0.5, rel=1e-3)


def test_a_curve_ascends_to_the_end():
    """The curve for the plot ascends in both directions and stays below the 100th percentile."""
    curve = latencies(*(each / 1000 for each in range(1, 1001))).curve()
    assert curve == sorted(curve)
    assert 99 < curve[-1][0] < 100
