"""The command: one subcommand per scenario, `compare` and `growth`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click
from attrs import evolve

from bench import report
from bench.compare import compare
from bench.gauges import fetch_gauges
from bench.growth import growth
from bench.plan import Target, read_devices, read_rate
from bench.run import WorkerFailedError, run
from bench.scenarios import SCENARIOS
from bench.servers import OURS, LocalServer, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.plan import Load
    from bench.run import Run, Second
    from bench.scenario import Scenario


class Rate(click.ParamType[tuple[float, float]]):
    name = "RATE"

    def convert(self, value: Any, _param: Any, _ctx: Any) -> Any:
        try:
            return read_rate(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"{value}: {error}")


TARGET: Final = (
    click.option("--url", help="The server: ws://HOST:PORT/ws or wss://HOST/ws."),
    click.option(
        "--start", is_flag=True, help="Start a hermes-mobile with the demo agent instead."
    ),
    click.option(
        "--token",
        envvar="MOBILE_TOKEN",
        default="",
        show_envvar=True,
        help="What the devices say hello with.",
    ),
    click.option(
        "--devices",
        metavar="PATTERN|@FILE",
        default="bench-{}",
        show_default=True,
        help="Their ids: {} is a number; or a file with an id or id=token per line.",
    ),
    click.option(
        "--source",
        "sources",
        multiple=True,
        metavar="ADDRESS",
        help="Connect from these addresses of this machine in turn; on loopback: many.",
    ),
    click.option("--pid", type=int, help="The server's process, if it is on this machine."),
    click.option("--metrics", metavar="URL", help="The server's /metrics, to see what leaks."),
)
LOAD: Final[Mapping[str, Callable[..., Any]]] = {
    "connections": click.option("--connections", type=click.IntRange(1)),
    "depth": click.option("--depth", type=click.IntRange(1), help="Under way at once."),
    "rate": click.option(
        "--rate", type=Rate(), metavar="R|A:B", help="Open loop: per second; A:B goes from A to B."
    ),
    "ramp": click.option("--ramp", type=float, help="Seconds over which devices begin."),
    "seconds": click.option("--seconds", type=click.FloatRange(0.1), help="How long to measure."),
    "warmup": click.option("--warmup", type=click.FloatRange(0), help="Seconds before that."),
    "size": click.option(
        "--size",
        type=click.IntRange(1),
        help="Characters of a text, words of a stream, bytes of a file.",
    ),
    "sample": click.option(
        "--sample", type=click.IntRange(1), help="Check every N-th in full, count the others."
    ),
    "any_reply": click.option(
        "--any-reply",
        is_flag=True,
        default=None,
        help="The agent does not echo: any answer will do.",
    ),
    "once": click.option("--once", is_flag=True, default=None, help="Nobody comes back."),
}
OUTPUT: Final = (
    click.option("--processes", type=click.IntRange(1), help="Of the generator."),
    click.option("--tiny", is_flag=True, help="As little as shows that it works."),
    click.option(
        "--json", "json_file", type=click.File("w"), help="Write the result; - prints it."
    ),
    click.option(
        "--plot",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write PNGs to a directory.",
    ),
    click.option("--quiet", is_flag=True, help="No progress."),
)


@click.group()
def main() -> None:
    """Load tests of a server of protocol v1. What the figures mean: docs/bench.md."""


def scenario_command(scenario: Scenario) -> click.Command:
    """The command of a scenario, with the options that it uses."""

    def execute(**options: Any) -> None:
        run_scenario(scenario, **options)

    options = (*TARGET, *(LOAD[name] for name in scenario.options), *OUTPUT)
    for option in reversed(options):
        execute = option(execute)
    about = "\n\n".join(" ".join(part.split()) for part in scenario.about.split("\n\n"))
    defaults = ", ".join(f"{name} {getattr(scenario.load, name)}" for name in scenario.options)
    return click.command(scenario.name, help=f"{about}\n\nDefaults: {defaults}.")(execute)


def run_scenario(
    scenario: Scenario,
    *,
    url: str | None,
    start: bool,
    token: str,
    devices: str,
    sources: tuple[str, ...],
    pid: int | None,
    metrics: str | None,
    tiny: bool,
    json_file: IO[str] | None,
    plot: Path | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Run a scenario and say what came of it."""
    if start == bool(url):
        raise click.UsageError("one of --url and --start is needed")
    load: Load = evolve(
        scenario.tiny if tiny else scenario.load,
        **{name: value for name, value in given.items() if value is not None},
    )
    stages: dict[str, Callable[[], Any]] = {}
    with ExitStack() as stack:
        if start:
            try:
                server = stack.enter_context(LocalServer(OURS, scenario.settings(load)))
            except ServerError as error:
                raise click.ClickException(str(error)) from None
            url, token = server.url, server.token
            stages["restart"] = partial(restart, server)
            metrics = f"{server.http_url}metrics" if server.http_url else None
        target = make_target(url or "", token, devices, sources, load)
        try:
            made = run(
                scenario,
                target,
                load,
                pid=(lambda: server.pid) if start else (lambda: pid),
                show=(lambda *_: None) if quiet else partial(show, scenario.unit),
                stages=stages,
                gauges=dict if metrics is None else partial(fetch_gauges, metrics),
            )
        except WorkerFailedError as error:
            raise click.ClickException(f"a worker failed:\n{error}") from None
    tell(scenario, made, json_file, plot)


def restart(server: LocalServer) -> bool:
    server.restart()
    return True


def make_target(url: str, token: str, devices: str, sources: tuple[str, ...], load: Load) -> Target:
    try:
        pattern, listed = read_devices(devices, token)
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="--devices") from None
    if listed and len(listed) < load.connections:
        raise click.BadParameter(f"{load.connections} are needed", param_hint="--devices")
    return Target(url, token, pattern, listed, sources)


def show(unit: str, window: str, second: Second) -> None:
    click.echo(report.progress(window, second, unit), err=True)


def tell(scenario: Scenario, made: Run, json_file: IO[str] | None, plot: Path | None) -> None:
    figures = list(scenario.figures(made))
    click.echo(
        f"\n{scenario.name}: {made.load.connections} connections\n", err=json_file is not None
    )
    for line in report.table(made, figures):
        click.echo(line, err=json_file is not None)
    if json_file is not None:
        json.dump(report.as_json(made, figures), json_file, indent=2)
        json_file.write("\n")
    if plot is not None:
        from bench.plots import plot as draw  # noqa: PLC0415 - a second of imports

        memory = {
            each.name.rpartition(" at ")[2]: each.value
            for each in figures
            if each.name.startswith("memory per connection")
        }
        for path in draw(made, memory, plot):
            click.echo(f"wrote {path}", err=True)


for each in SCENARIOS.values():
    main.add_command(scenario_command(each))
main.add_command(compare)
main.add_command(growth)
