"""Pictures of a run: latency by percentile, throughput over time, memory per connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from bench.run import Run

mpl.use("agg")  # no display is needed


def plot(run: Run, memory: dict[str, float], directory: Path) -> list[Path]:
    """Write the pictures that there is something to show in.

    `memory` is KiB per connection, by what the bar is to be called.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    if any(window.latencies for window in run.windows.values()):
        written.append(_latencies(run, directory))
    if run.unit:
        written.append(_timeline(run, directory))
    if memory:
        written.append(_memory(run.scenario, memory, directory))
    return written


def _latencies(run: Run, directory: Path) -> Path:
    figure, axes = _picture(f"{run.scenario}: latency by percentile")
    for window in run.windows.values():
        for series, latencies in window.latencies.items():
            curve = latencies.curve()
            nines = [1 / (1 - percent / 100) for percent, _ in curve]
            axes.plot(nines, [value * 1000 for _, value in curve], label=f"{window.name}: {series}")
    axes.set_xscale("log")
    ticks = {"0": 1, "50": 2, "90": 10, "99": 100, "99.9": 1000, "99.99": 10_000}
    axes.set_xticks(list(ticks.values()), list(ticks))
    axes.set_xlabel("percentile")
    axes.set_ylabel("ms")
    axes.set_ylim(bottom=0)
    axes.legend()
    return _save(figure, directory / f"{run.scenario}-latency.png")


def _timeline(run: Run, directory: Path) -> Path:
    figure, rates = _picture(f"{run.scenario}: {run.unit}s per second, and their 99th percentile")
    latencies = rates.twinx()
    for window in run.windows.values():
        at = [second.at for second in window.timeline]
        rates.plot(at, [second.rate for second in window.timeline], label=window.name)
        p99 = [second.p99 * 1000 for second in window.timeline]
        latencies.plot(at, p99, linestyle=":", label=f"{window.name}: p99")
    rates.set_xlabel("seconds")
    rates.set_ylabel(f"{run.unit}s per second")
    latencies.set_ylabel("ms, dotted")
    rates.set_ylim(bottom=0)
    latencies.set_ylim(bottom=0)
    rates.legend()
    return _save(figure, directory / f"{run.scenario}-throughput.png")


def _memory(name: str, memory: dict[str, float], directory: Path) -> Path:
    figure, axes = _picture(f"{name}: memory per connection")
    bars = axes.bar(list(memory), list(memory.values()))
    axes.bar_label(bars, fmt="%.1f")
    axes.set_ylabel("KiB")
    return _save(figure, directory / f"{name}-memory.png")


def _picture(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.grid(alpha=0.3)
    return figure, axes


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    return path
