"""What measurements against a started server have in common: cores, and tables for a page."""

from __future__ import annotations

import os
import re
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bench import report
from bench.process import pin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPTIONS: Final = (
    click.option("--repeats", type=click.IntRange(1), default=5, show_default=True),
    click.option("--seconds", type=click.FloatRange(0.1), help="Of each measurement."),
    click.option("--server-core", type=int, default=0, show_default=True),
    click.option("--load-core", type=int, default=1, show_default=True),
    click.option(
        "--markdown",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Put the table into a page, between its marks; docs/bench.md has them.",
    ),
)


def measuring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of repeated measurements on fixed cores."""
    return reduce(lambda made, option: option(made), reversed(OPTIONS), command)


def choose_cores(server: int, load: int) -> tuple[int | None, int | None]:
    """The cores of the server and the generator, with this process on the generator's.

    Both are None, and nothing is pinned, on a machine that has not got them.
    """
    if not {server, load} <= os.sched_getaffinity(0):
        click.echo("these cores are not there: nothing is pinned, do not trust the rates", err=True)
        return None, None
    pin(0, load)
    return server, load


def placement(cores: tuple[int | None, int | None]) -> str:
    """What `choose_cores` came to, in words."""
    return "unpinned" if None in cores else "server and generator each on a core of its own"


def show(cells: Sequence[Sequence[str]], how: str) -> None:
    """Print a table, and where and with what it was measured."""
    for line in [*report.aligned(cells), "", *_facts(how)]:
        click.echo(line)


def fill(page: Path, mark: str, cells: Sequence[Sequence[str]], how: str) -> None:
    """Put the same between the marks `<!-- mark -->` and `<!-- /mark -->` of a page.

    *Errors*: ClickException when it has none.
    """
    head, *rest = cells
    rows = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest)]
    text = "\n".join(["", *rows, "", *_facts(how), ""])
    place = re.compile(rf"(<!-- {mark} -->\n).*(<!-- /{mark} -->)", re.DOTALL)
    filled, found = place.subn(lambda marks: f"{marks[1]}{text}\n{marks[2]}", page.read_text())
    if not found:
        raise click.ClickException(f"{page} has no marks <!-- {mark} -->")
    page.write_text(filled)


def _facts(how: str) -> list[str]:
    found = ", ".join(f"{name} {number}" for name, number in report.versions().items())
    return [f"{how}.", f"{report.machine()}. {found}."]
