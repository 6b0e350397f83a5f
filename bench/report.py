"""What a run tells: lines while it goes on, a table, JSON."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict

from bench.histogram import PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.run import Run, Second, Window
    from bench.scenario import Figure

MIB: Final = 1024**2
PACKAGES: Final = (
    *("hermes-mobile", "trio", "trio-websocket", "wsproto", "orjson", "pybase64"),
    *("aiohttp", "websockets", "picows", "uvloop"),
)
"""Whose versions matter to the figures."""


def progress(window: str, second: Second, unit: str) -> str:
    """One line for one second."""
    parts = [f"{window} {second.at:4.0f} s"]
    if unit:
        parts.append(f"{second.rate:9,.0f} {unit}s/s")
        parts.append(f"p50 {ms(second.p50)} p99 {ms(second.p99)} ms")
    parts.append(f"errors {second.errors}")
    if second.server_cpu is not None and second.server_rss is not None:
        parts.append(f"server {second.server_cpu:4.0%} {second.server_rss / MIB:,.0f} MiB")
    parts.append(f"generator {second.load_cpu:4.0%}")
    return "   ".join(parts)


def table(run: Run, figures: Sequence[Figure]) -> Iterator[str]:
    """The result, line by line."""
    names = [f"p{percent:g}" for percent in PERCENTILES]
    rows = [["window", "what", "count", "per s", *names, "max", "ms"]]
    for window in run.windows.values():
        for series, latencies in window.latencies.items():
            values = [latencies.percentile(percent) for percent in (*PERCENTILES, 100)]
            counts = [f"{len(latencies):,}", f"{window.rate(series):,.1f}"]
            rows.append([window.name, series, *counts, *map(ms, values), ""])
    if len(rows) > 1:
        yield from aligned(rows, left=2)
        yield ""
    yield from aligned([[name, value] for name, value in _facts(run, figures)], left=2)


def _facts(run: Run, figures: Sequence[Figure]) -> Iterator[tuple[str, str]]:
    for figure in figures:
        yield figure.name, f"{figure.value:,.2f} {figure.unit}"
    for window in run.windows.values():
        yield f"{window.name}: errors", _errors(window)
        if window.after is not None and window.server_cpu is not None:
            yield f"{window.name}: server CPU", _server_cpu(window, run.unit)
            memory = (
                f"{window.after.rss / MIB:,.1f} MiB, at most {window.after.peak_rss / MIB:,.1f}"
            )
            yield f"{window.name}: server memory", memory
        yield f"{window.name}: generator CPU", _generator(window)


def _errors(window: Window) -> str:
    if not window.errors:
        return "none"
    return ", ".join(f"{code} {count:,}" for code, count in window.errors.most_common())


def _server_cpu(window: Window, unit: str) -> str:
    share = f"{(window.server_cpu or 0) / window.seconds:.1%} of a core"
    each = window.cpu_per(unit)
    return share if each is None else f"{each * 1e6:,.1f} us per {unit}, {share}"


def _generator(window: Window) -> str:
    share = f"{window.load_cpu:.0%} of a core"
    if window.counts:
        return share
    return f"{share}: it may be what limits, so the server's CPU counts, not the rate (--processes)"


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.3f}" if seconds < 1 else f"{seconds * 1000:,.0f}"


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Columns, the first `left` of them aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def as_json(run: Run, figures: Sequence[Figure]) -> dict[str, Any]:
    """The result for machines: durations in seconds, sizes in bytes."""
    return {
        "scenario": run.scenario,
        "load": asdict(run.load),
        "machine": machine(),
        "versions": versions(),
        "figures": {each.name: {"value": each.value, "unit": each.unit} for each in figures},
        "windows": [_window_json(window, run.unit) for window in run.windows.values()],
    }


def _window_json(window: Window, unit: str) -> dict[str, Any]:
    return {
        "name": window.name,
        "seconds": window.seconds,
        "latencies": {
            series: {"per_second": window.rate(series), **latencies.summary()}
            for series, latencies in window.latencies.items()
        },
        "errors": dict(window.errors),
        "generator_cpu": window.load_cpu,
        "throughput_counts": window.counts,
        "server_cpu_per_unit": window.cpu_per(unit),
        "server_before": None if window.before is None else asdict(window.before),
        "server_after": None if window.after is None else asdict(window.after),
        "timeline": [asdict(second) for second in window.timeline],
    }


def machine() -> str:
    """What this machine is, in a line."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def versions() -> dict[str, str]:
    """What runs here, by name."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
