"""What a run tells, in words and for machines."""

import json

import pytest
from bench.histogram import Latencies
from bench.plan import Load
from bench.process import Usage
from bench.run import Run, Second, Window
from bench.scenario import Figure
from bench.scenarios.soak import slope

from bench import report


@pytest.fixture
def run():
    latencies = Latencies()
    latencies.record([0.001] * 1000)
    window = Window("turns", seconds=2.0, latencies={"turn": latencies}, load_cpu=0.5)
    window.before, window.after = (Usage(1, cpu, 1, 1, 1, 1) for cpu in (1.0, 1.1))
    window.errors["too_big"] = 2
    return Run("turns", "turn", Load(), {"turns": window})


def second(at, rss):
    return Second(at, 0.0, 0.0, 0.0, 0, 0.0, None, rss)


def test_rates_and_cpu(run):
    """1,000 turns in 2 s with 0.1 s of CPU: 500 per second, 100 us each."""
    assert run.first.rate("turn") == 500.0
    assert run.first.cpu_per("turn") == pytest.approx(100e-6)
    assert run.first.cpu_per("hello") is None


def test_the_table_tells_everything(run):
    """Latencies, figures, errors by code and CPU stand in the table."""
    text = "\n".join(report.table(run, [Figure("throughput", 12.3456, "MB/s")]))
    for part in ("1,000", "500.0", "1.000", "12.35 MB/s", "too_big 2", "100.0 us per turn"):
        assert part in text


def test_a_busy_generator_is_told(run):
    """From 90 % of a core the table says that CPU counts, not the rate."""
    assert "it may be what limits" not in "\n".join(report.table(run, []))
    run.first.load_cpu = 0.9
    assert "it may be what limits" in "\n".join(report.table(run, []))
    assert not run.first.counts


def test_json_is_json(run):
    """The result for machines has figures by name, and says whether the throughput counts."""
    told = json.loads(json.dumps(report.as_json(run, [Figure("x", 1.0)])))
    assert told["figures"] == {"x": {"value": 1.0, "unit": ""}}
    assert told["windows"][0]["throughput_counts"] is True
    assert told["windows"][0]["latencies"]["turn"]["count"] == 1000


def test_columns_are_aligned():
    """Names to the left, numbers to the right."""
    assert list(report.aligned([["a", "1"], ["bbb", "22"]])) == ["a     1", "bbb  22"]


def test_a_slope_is_that_of_the_second_half():
    """What grows in the beginning only is no slope; a steady growth is told per second."""
    filling = [second(at, 1000 * min(at, 10)) for at in range(20)]
    growing = [second(at, 50 * at) for at in range(20)]
    assert slope(filling) == pytest.approx(0.0)
    assert slope(growing) == pytest.approx(50.0)
    assert slope([second(0, None)] * 9) is None
