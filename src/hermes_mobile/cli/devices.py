"""`hermes-mobile devices`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from wcwidth import wcswidth

from hermes_mobile.cli import operator, remote
from hermes_mobile.cli.conventions import (
    ConfigurationError,
    config_option,
    examples,
    version_option,
)
from hermes_mobile.cli.printable import printable
from hermes_mobile.server.access_file import read
from hermes_mobile.server.admin import state
from hermes_mobile.server.devices import AccessFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

HEADINGS: Final = ("device", "name", "platform", "state", "last seen", "tokens", "kept")


@click.command(epilog=examples("hermes-mobile devices"))
@config_option
@version_option
def devices(config: Path | None) -> None:
    """List the known devices.

    Those that were paired, revoked, or seen: their state, when they were last seen, how many tokens
    they were paired with, and how many units are kept for them. Without a server it is what was known
    when it ended.
    """
    known = remote.run(partial(find, config))
    for line in table([HEADINGS, *map(row, known)]):
        click.echo(line)


async def find(config: Path | None) -> list[dict[str, Any]]:
    answer = await operator.ask(config, "devices")
    if answer is not None:
        return list(answer["devices"])
    try:
        known = read(operator.state_dir(config))
    except AccessFileError as error:
        raise ConfigurationError(error) from None
    return [
        {
            "id": device.id,
            "name": device.name,
            "platform": device.platform,
            "state": state(device, connected=False),
            "last_seen": device.last_seen,
            "tokens": len(device.tokens),
            "units_kept": 0,
        }
        for device in known
    ]


def row(device: dict[str, Any]) -> Sequence[str]:
    seen = device["last_seen"]
    if device["state"] == "connected":
        last_seen = "now"
    elif seen is None:
        last_seen = "never"
    else:
        last_seen = f"{datetime.fromtimestamp(seen, UTC).astimezone():%Y-%m-%d %H:%M}"
    # Devices say themselves what they are called.
    words = (printable(device[name]) or "-" for name in ("id", "name", "platform"))
    return (*words, device["state"], last_seen, f"{device['tokens']}", f"{device['units_kept']}")


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(wcswidth, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = (
            cell + " " * (width - wcswidth(cell)) for cell, width in zip(cells, widths, strict=True)
        )
        yield "  ".join(padded).rstrip()
