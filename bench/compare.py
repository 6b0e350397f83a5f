"""`compare`: hermes-mobile and its peers on the same load, one after the other, again and again."""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import median
from typing import IO, TYPE_CHECKING, Final

import click
from attrs import evolve, frozen

from bench import page, report
from bench.page import choose_cores, measuring_options, placement
from bench.plan import Load, Target
from bench.run import WorkerFailedError, run
from bench.scenarios import SCENARIOS
from bench.servers import OURS, PEERS, LocalServer, ServerError
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.run import Run


@frozen
class Reading:
    """A figure of one run; `instead` is what decides when the generator was busy: CPU per unit."""

    value: float
    instead: float | None = None
    busy: bool = False


@frozen
class Row:
    """A figure to compare. `more_is_better` says which way."""

    name: str
    unit: str
    read: Callable[[Run], Reading]
    more_is_better: bool = True


@frozen
class Measurement:
    """A load, and the figures that are read from it."""

    name: str
    scenario: str
    load: Load
    rows: tuple[Row, ...]


def throughput(scale: float = 1.0) -> Callable[[Run], Reading]:
    def read(run: Run) -> Reading:
        window = run.first
        cpu = window.cpu_per(run.unit)
        return Reading(window.rate(run.unit) * scale, cpu, busy=not window.counts)

    return read


def p50(run: Run) -> Reading:
    return Reading(run.first.percentile(run.unit, 50) * 1e6)


def cpu_per_unit(run: Run) -> Reading:
    return Reading((run.first.cpu_per(run.unit) or 0.0) * 1e6)


def peak_memory(run: Run) -> Reading:
    after = run.first.after
    return Reading(0.0 if after is None else after.peak_rss / 1024**2)


def memory_per_connection(run: Run) -> Reading:
    before = run.first.after
    after = run.windows[str(run.load.connections)].after
    if before is None or after is None:
        return Reading(0.0)
    return Reading((after.rss - before.rss) / run.load.connections / 1024)


TURNS: Final = Load(connections=50, seconds=5.0)
FILES: Final = Load(connections=4, seconds=5.0, size=MAX_MEDIA_BYTES, sample=50)
MEASUREMENTS: Final = (
    Measurement(
        "turns-50x1",
        "turns",
        TURNS,
        (
            Row("turns/s, 50 connections, depth 1", "1/s", throughput()),
            Row("server CPU per turn, 50 x 1", "us", cpu_per_unit, more_is_better=False),
        ),
    ),
    Measurement(
        "turns-50x16",
        "turns",
        evolve(TURNS, depth=16),
        (Row("turns/s, 50 connections, depth 16", "1/s", throughput()),),
    ),
    Measurement(
        "turns-1x1",
        "turns",
        evolve(TURNS, connections=1),
        (Row("p50 of one connection", "us", p50, more_is_better=False),),
    ),
    Measurement(
        "storm",
        "storm",
        Load(connections=2000, depth=64, once=True),
        (Row("connect + hello per second", "1/s", throughput()),),
    ),
    Measurement(
        "upload",
        "upload",
        FILES,
        (
            Row("upload", "MB/s", throughput(MAX_MEDIA_BYTES / 1e6)),
            Row("peak memory in upload", "MiB", peak_memory, more_is_better=False),
        ),
    ),
    Measurement(
        "download",
        "download",
        FILES,
        (Row("download", "MB/s", throughput(MAX_MEDIA_BYTES / 1e6)),),
    ),
    Measurement(
        "idle",
        "idle",
        Load(connections=1000, seconds=1.0, warmup=2.0),
        (Row("memory per idle connection", "KiB", memory_per_connection, more_is_better=False),),
    ),
)


class Comparison:
    """All readings, by row and server, in the order in which they were taken."""

    def __init__(self) -> None:
        self.readings: dict[str, dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))

    def add(self, row: Row, server: str, reading: Reading) -> None:
        self.readings[row.name][server].append(reading)

    def median(self, row: Row, server: str) -> float:
        return median(reading.value for reading in self.readings[row.name][server])

    def ratio(self, row: Row, peer: str) -> tuple[float, bool]:
        """How far ours is ahead of a peer (above 1) or behind, and whether CPU decided it.

        CPU per unit decides a throughput once the generator was busy in any of the runs.
        """
        ours, theirs = self.readings[row.name][OURS], self.readings[row.name][peer]
        if any(reading.busy for reading in (*ours, *theirs)):
            return _cpu(theirs) / _cpu(ours), True
        a, b = self.median(row, OURS), self.median(row, peer)
        return (a / b if row.more_is_better else b / a), False


def _cpu(readings: Sequence[Reading]) -> float:
    return median(reading.instead or 0.0 for reading in readings)


def table(comparison: Comparison, rows: Sequence[Row], peers: Sequence[str]) -> list[list[str]]:
    """Cells: a row's name, the medians, then the ratio to each peer."""
    cells = [["", OURS, *peers, *(f"/ {peer}" for peer in peers)]]
    for row in rows:
        if not comparison.readings[row.name]:
            continue
        medians = [f"{comparison.median(row, server):,.1f}" for server in (OURS, *peers)]
        ratios = (comparison.ratio(row, peer) for peer in peers)
        told = [f"{ratio:.2f}{' (CPU)' if by_cpu else ''}" for ratio, by_cpu in ratios]
        cells.append([f"{row.name} ({row.unit})", *medians, *told])
    return cells


def take(
    measurement: Measurement,
    server: str,
    comparison: Comparison,
    *,
    seconds: float | None,
    cores: tuple[int | None, int | None],
) -> Iterator[str]:
    """Measure one server once, and say what came of it. *Errors*: ServerError, WorkerFailedError."""
    load = measurement.load if seconds is None else evolve(measurement.load, seconds=seconds)
    server_core, load_core = cores
    scenario = SCENARIOS[measurement.scenario]
    with LocalServer(server, core=server_core) as local:
        target = Target(local.url, local.token)
        made = run(scenario, target, load, pid=lambda: local.pid, core=load_core)
    for row in measurement.rows:
        reading = row.read(made)
        if not reading.value:
            raise ServerError(f"{server}: there is nothing to measure for {row.name!r}")
        comparison.add(row, server, reading)
        busy = f"generator {made.first.load_cpu:.0%}"
        yield f"{server:14} {row.name}: {reading.value:,.1f} {row.unit}   {busy}"
    for window in made.windows.values():
        if window.errors:
            yield f"{server:14} {window.name}: errors {dict(window.errors)}"


@click.command()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([each.name for each in MEASUREMENTS]),
    help="Measure these alone.",
)
@click.option("--against", multiple=True, type=click.Choice(PEERS), help="These peers alone.")
@measuring_options
@click.option("--json", "json_file", type=click.File("w"), help="Write all readings.")
def compare(
    only: tuple[str, ...],
    against: tuple[str, ...],
    repeats: int,
    seconds: float | None,
    server_core: int,
    load_core: int,
    json_file: IO[str] | None,
    markdown: Path | None,
) -> None:
    """Compare hermes-mobile with servers on aiohttp, websockets and picows.

    All do the same protocol work. They take turns on the same core, the generator has another one.
    Ratios above 1 are in favour of hermes-mobile; "(CPU)" marks those that the server's CPU per unit
    decided, because the generator was busy.
    """
    peers = against or PEERS
    cores = choose_cores(server_core, load_core)
    comparison = Comparison()
    chosen = [each for each in MEASUREMENTS if not only or each.name in only]
    try:
        for measurement in chosen:
            for turn in range(repeats):
                for server in (OURS, *peers):
                    for line in take(measurement, server, comparison, seconds=seconds, cores=cores):
                        click.echo(f"{turn + 1}/{repeats} {line}", err=True)
    except (ServerError, WorkerFailedError) as error:
        raise click.ClickException(str(error)) from None
    cells = table(comparison, [row for each in chosen for row in each.rows], peers)
    if json_file is not None:
        json.dump(as_json(comparison, repeats), json_file, indent=2)
    how = f"Medians of {repeats} alternating runs, {placement(cores)}"
    page.show(cells, how)
    if markdown is not None:
        page.fill(markdown, "comparison", cells, how)


def as_json(comparison: Comparison, repeats: int) -> dict[str, object]:
    return {
        "machine": report.machine(),
        "versions": report.versions(),
        "repeats": repeats,
        "readings": {
            row: {server: [each.value for each in taken] for server, taken in by_server.items()}
            for row, by_server in comparison.readings.items()
        },
    }
