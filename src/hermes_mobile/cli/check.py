"""`hermes-mobile check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from hermes_mobile.cli.conventions import config_option, configured, examples, version_option
from hermes_mobile.server.overview import describe, warnings

if TYPE_CHECKING:
    from pathlib import Path

MAX_VALUE_WIDTH: Final = 40
"""Columns; one long list must not push every source out of sight."""


@click.command(
    epilog=examples(
        "hermes-mobile check",
        "hermes-mobile check --config /etc/hermes-mobile.toml",
    )
)
@config_option
@version_option
def check(config: Path | None) -> None:
    """Validate the configuration without starting.

    Prints every setting with its value and where it comes from, secrets masked, then warnings.
    The exit status is 0, or 78 when `serve` would not start.
    """
    settings, _ = configured(config)
    rows = describe(settings)
    name_width = max(len(name) for name, _, _ in rows)
    value_width = min(MAX_VALUE_WIDTH, max(len(value) for _, value, _ in rows))
    for name, value, source in rows:
        click.echo(f"{name:{name_width}}  {value:{value_width}}  {source}")
    for warning in warnings(settings):
        click.echo(f"warning: {warning}")
