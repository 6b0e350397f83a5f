"""`hermes-mobile hermes-plugin`: Hermes Agent as the agent of a server."""

from __future__ import annotations

import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import click

from hermes_mobile.cli.conventions import ConfigurationError, examples, version_option
from hermes_mobile.hermes import targets

NAME: Final = "mobile"
CONFIG: Final = """\
plugins:
  enabled:
    - mobile
platforms:
  mobile:
    enabled: true
streaming:
  enabled: true
  transport: edit
  cursor: ''
display:
  tool_progress: 'off'
approvals:
  timeout: 300"""
ENVIRONMENT: Final = """\
MOBILE_AGENT_SOCKET=/run/hermes-mobile/agent.sock"""


@click.group(epilog=examples("hermes-mobile hermes-plugin install"))
@version_option
def hermes_plugin() -> None:
    """Let Hermes Agent answer, through a plugin of its gateway."""


@hermes_plugin.command(
    epilog=examples(
        "hermes-mobile hermes-plugin install",
        "hermes-mobile hermes-plugin install --hermes-home /srv/hermes",
    )
)
@click.option(
    "--hermes-home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where Hermes keeps its things.  [default: HERMES_HOME, else ~/.hermes]",
)
@version_option
def install(hermes_home: Path | None) -> None:
    """Put the plugin where Hermes finds it, and say what to configure.

    It writes the directory plugins/mobile below Hermes' home, and nothing else.
    """
    home = hermes_home or Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    if not home.is_dir():
        raise ConfigurationError(f"{home}: no such directory; is Hermes set up? See --hermes-home")
    place = home / "plugins" / NAME
    try:
        _copy(place)
    except OSError as error:
        raise ConfigurationError(f"{place}: {error.strerror}") from None
    click.echo(f"The plugin is in {place}. Now tell Hermes about it.\n")
    click.echo(f"In {home / 'config.yaml'}:\n\n{CONFIG}\n")
    click.echo(f"In {home / '.env'}, as the server has it:\n\n{ENVIRONMENT}\n")
    click.echo("Then restart its gateway. The server is started with --agent link.")


@hermes_plugin.command(
    "chat-id", epilog=examples("hermes-mobile hermes-plugin chat-id anna-iphone")
)
@click.argument("device")
@version_option
def chat_id(device: str) -> None:
    """Print what Hermes calls the chat with DEVICE: a number, for channel_aliases.json."""
    click.echo(targets.chat_id(device))


def _copy(place: Path) -> None:
    """Replace what is at `place`, if it is a plugin of ours."""
    if place.exists():
        manifest = place / "plugin.yaml"
        if not manifest.is_file() or f"name: {NAME}\n" not in manifest.read_text():
            raise ConfigurationError(f"{place}: there is something else; move it away first")
        shutil.rmtree(place)
    with as_file(files("hermes_mobile.hermes")) as plugin:
        shutil.copytree(plugin, place, ignore=shutil.ignore_patterns("__pycache__"))
