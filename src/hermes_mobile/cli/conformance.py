"""`hermes-mobile conformance`."""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TextIO

import click

from hermes_mobile.cli import remote
from hermes_mobile.cli.conventions import (
    ConfigurationError,
    config_option,
    examples,
    version_option,
)
from hermes_mobile.conformance import report
from hermes_mobile.conformance.run import Outcome, RefusedError, catalogue, run
from hermes_mobile.conformance.target import Address, Target
from hermes_mobile.conformance.websocket import NoServerError
from hermes_mobile.server.loading import load_settings
from hermes_mobile.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hermes_mobile.conformance.run import Verdict
    from hermes_mobile.conformance.scenario import Scenario

SOMETHING_DIFFERS: Final = 1
CLEAR_LINE: Final = "\r\x1b[K"
REPORT: Final = click.File("w", encoding="utf-8", lazy=False)
"""Opened before anything is played, so that a run is not lost to a wrong path."""


def read_url(_ctx: click.Context, _param: click.Parameter, url: str | None) -> Address | None:
    try:
        return None if url is None else Address.parse(url)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    epilog=examples(
        "MOBILE_TOKEN=... hermes-mobile conformance ws://127.0.0.1:8787/ws",
        "hermes-mobile conformance --token-file token --only 'cards/*' ws://127.0.0.1:8787/ws",
        "hermes-mobile conformance --reference-only --junit report.xml wss://agent.example.com/ws",
        "hermes-mobile conformance --list --only D17",
    )
)
@click.argument("address", metavar="URL", callback=read_url, required=False)
@remote.token_file_option
@config_option
@click.option(
    "--only",
    metavar="PATTERN",
    multiple=True,
    help="Play only what fits: a group, a part of a name, a glob, or a rule such as D17. Repeatable.",
)
@click.option(
    "--reference-only",
    is_flag=True,
    help="Skip what the reference leaves open and only this project's decisions settle.",
)
@click.option("--list", "listed", is_flag=True, help="List the scenarios, and play nothing.")
@click.option("--junit", type=REPORT, help="Write a JUnit XML report to a file.")
@click.option("--json", "json_file", type=REPORT, help="Write a JSON report to a file.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="How many scenarios are played at once.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds in which the server has to answer.",
)
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="Skip what takes more seconds than these by its nature, such as a card that runs out.",
)
@version_option
def conformance(
    address: Address | None,
    token_file: Path | None,
    config: Path | None,
    only: tuple[str, ...],
    reference_only: bool,
    listed: bool,
    junit: TextIO | None,
    json_file: TextIO | None,
    jobs: int,
    timeout: float,
    patience: float,
) -> None:
    """Play the wire vectors and scenarios against any server of the protocol; print what differs.

    Tokens and durations come from the server's own settings, MOBILE_TOKEN and its like: what they
    do not tell of cannot be played and is skipped. Use a server for tests, with the demo agent.

    The exit status is 0 when the server agrees, 1 when something differs, 4 when it refuses the
    token, 5 when there is no server.
    """
    scenarios = chosen(only, reference_only=reference_only)
    if not scenarios:
        raise click.UsageError("--only: nothing fits")
    if listed:
        for scenario in scenarios:
            click.echo(f"{', '.join(scenario.rules):16}  {scenario}")
        return
    if address is None:
        raise click.UsageError("Missing argument 'URL'.")
    target = described(address, token_file, config, timeout, patience, reference_only)
    verdicts = played(target, scenarios, jobs)
    for line in report.table(verdicts):
        click.secho(line, fg="red" if line.startswith("differs") else None)
    if junit is not None:
        junit.write(report.as_junit(str(address), verdicts))
    if json_file is not None:
        json_file.write(report.as_json(str(address), verdicts))
    if any(verdict.outcome is Outcome.DIFFERS for verdict in verdicts):
        click.get_current_context().exit(SOMETHING_DIFFERS)


def chosen(patterns: Sequence[str], *, reference_only: bool) -> list[Scenario]:
    return [
        scenario
        for scenario in catalogue()
        if (scenario.reference or not reference_only)
        and (not patterns or any(fits(scenario, pattern) for pattern in patterns))
    ]


def fits(scenario: Scenario, pattern: str) -> bool:
    """A rule fits as a whole; a glob, or a part of a name, in any case."""
    name = str(scenario).lower()
    return pattern.upper() in scenario.rules or fnmatchcase(name, f"*{pattern.lower()}*")


def described(
    address: Address,
    token_file: Path | None,
    config: Path | None,
    timeout: float,
    patience: float,
    reference_only: bool,
) -> Target:
    """What the settings of a server tell about it. *Errors*: UsageError, ConfigurationError."""
    token = remote.app_token(config, token_file)
    environ = {**os.environ, "MOBILE_TOKEN": token}
    environ.pop("MOBILE_TOKEN_FILE", None)
    try:
        settings = load_settings(config, environ)
    except SettingsError as error:
        raise ConfigurationError(error) from error
    bound = next((extra for extra in settings.extra_tokens if extra.device_id), None)
    bare = next((extra for extra in settings.extra_tokens if not extra.device_id), None)
    return Target(
        dial=address,
        token=token,
        other_token=bare.value if bare else "",
        bound_token=bound.value if bound else "",
        bound_device=(bound.device_id if bound else None) or "",
        deliver_token=min(settings.deliver_tokens, default=""),
        allow_list=bool(settings.allowed_devices),
        home_device=bool(settings.home_device),
        hello_timeout=settings.hello_timeout,
        typing_idle=settings.typing_idle,
        timeout=timeout,
        patience=patience,
        reference_only=reference_only,
    )


def played(target: Target, scenarios: Sequence[Scenario], jobs: int) -> list[Verdict]:
    """Play them, and show on a terminal how far that is."""
    told = progress(len(scenarios)) if sys.stderr.isatty() else ignore
    try:
        return remote.run(lambda: run(target, scenarios, jobs=jobs, told=told))
    except NoServerError as error:
        raise remote.NoServerError(f"no server: {error}") from error
    except RefusedError as error:
        raise remote.RefusalError(str(error)) from error
    finally:
        if told is not ignore:
            click.echo(CLEAR_LINE, nl=False, err=True, color=True)


def progress(total: int) -> Callable[[Verdict], None]:
    done = 0

    def tell(verdict: Verdict) -> None:
        nonlocal done
        done += 1
        click.echo(
            f"{CLEAR_LINE}{done} of {total}  {verdict.scenario}"[:100],
            nl=False,
            err=True,
            color=True,
        )

    return tell


def ignore(_: Verdict) -> None:
    """Say nothing: standard error is no terminal."""
