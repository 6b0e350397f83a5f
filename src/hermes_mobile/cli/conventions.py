"""What all commands have in common: options, and the exit status of a wrong configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from hermes_mobile import __version__
from hermes_mobile.agents import AgentNotFoundError, load_agent
from hermes_mobile.server.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from hermes_mobile.agents import Agent
    from hermes_mobile.server.settings import Settings


class ConfigurationError(click.ClickException):
    """What the operator configured cannot work: one line, exit status 78."""

    exit_code = os.EX_CONFIG

    def __init__(self, problem: object) -> None:
        super().__init__(" ".join(str(problem).split()))


version_option = click.version_option(
    __version__, prog_name="hermes-mobile", message="%(prog)s %(version)s"
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A TOML file with settings; the environment wins over it.  [default: MOBILE_CONFIG]",
)


def examples(*lines: str) -> str:
    """The end of a command's help; a leading backspace keeps click from joining its lines."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def configured(config: Path | None, agent: str | None = None) -> tuple[Settings, Agent]:
    """Read the settings, with the name of the agent replaced if one is given, and load the agent.

    *Errors*: ConfigurationError.
    """
    try:
        settings = load_settings(config, os.environ)
        if agent is not None:
            settings = evolve(settings, agent=agent)
        sys.path.append(str(Path.cwd()))  # an agent of one's own may lie where one works
        return settings, load_agent(settings.agent)
    except (SettingsError, AgentNotFoundError) as error:
        raise ConfigurationError(error) from error
