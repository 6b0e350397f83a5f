"""`growth`: what a turn costs the server with more connections, more at once, and longer texts."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Final

import click
from attrs import evolve

from bench import page
from bench.page import choose_cores, measuring_options, placement
from bench.plan import Load, Target
from bench.run import WorkerFailedError, run
from bench.scenarios.turns import TURNS
from bench.servers import OURS, LocalServer, ServerError

if TYPE_CHECKING:
    from pathlib import Path

USUAL: Final = Load(connections=50, depth=1, size=64, seconds=5.0)
LOADS: Final[dict[str, Load]] = {
    "50 connections, depth 1, 64 characters": USUAL,
    "1 connection": evolve(USUAL, connections=1),
    "500 connections": evolve(USUAL, connections=500),
    "2,000 connections": evolve(USUAL, connections=2000),
    "depth 16": evolve(USUAL, depth=16),
    "1,000 characters": evolve(USUAL, size=1000),
    "3,500 characters (one frame)": evolve(USUAL, size=3500),
    "12,000 characters (four frames)": evolve(USUAL, size=12_000),
}
"""The first is what the others are compared with."""


@click.command()
@measuring_options
def growth(
    repeats: int, seconds: float | None, server_core: int, load_core: int, markdown: Path | None
) -> None:
    """See how the cost of a turn grows: the server's CPU, relative to the usual load."""
    server, generator = choose_cores(server_core, load_core)
    cost: dict[str, list[float]] = defaultdict(list)
    try:
        for turn in range(repeats):
            for name, usual in LOADS.items():
                load = usual if seconds is None else evolve(usual, seconds=seconds)
                with LocalServer(OURS, core=server) as local:
                    target = Target(local.url, local.token)
                    made = run(TURNS, target, load, pid=lambda: local.pid, core=generator)
                cpu = made.first.cpu_per("turn") or 0.0
                cost[name].append(cpu)
                click.echo(f"{turn + 1}/{repeats} {name}: {cpu * 1e6:,.1f} us", err=True)
    except (ServerError, WorkerFailedError) as error:
        raise click.ClickException(str(error)) from None
    cells, how = table(cost), f"Medians of {repeats} runs, {placement((server, generator))}"
    page.show(cells, how)
    if markdown is not None:
        page.fill(markdown, "growth", cells, how)


def table(cost: dict[str, list[float]]) -> list[list[str]]:
    """Cells: a load's name, and its cost relative to the first."""
    costs = {name: median(each) for name, each in cost.items()}
    usual = next(iter(costs.values()))
    return [["", "CPU per turn"], *([name, f"{each / usual:.2f}"] for name, each in costs.items())]
