"""What all commands have in common: options, and the exit status of a wrong configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from hermes_mobile import __version__
from hermes_mobile.agents import (
    AgentNotFoundError,
    AgentSettings,
    AgentSettingsError,
    load_agent,
)
from hermes_mobile.server.loading import load_settings
from hermes_mobile.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def configured(config: Path | None, **options: Any) -> tuple[Settings, Agent]:
    """Read the settings, put those `options` that are given in their place, and load the agent.

    *Errors*: ConfigurationError.
    """
    try:
        settings = read_settings(config, options)
        sys.path.append(str(Path.cwd()))  # an agent of one's own may lie where one works
        return settings, load_agent(settings.agent, agent_settings(settings))
    except (SettingsError, AgentNotFoundError, AgentSettingsError) as error:
        raise ConfigurationError(error) from error


def read_settings(
    config: Path | None, options: Mapping[str, Any], made_token: str | None = None
) -> Settings:
    """Read the settings, and put those `options` that are given in their place.

    *Errors*: SettingsError.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return evolve(load_settings(config, os.environ, made_token), **given)


def agent_settings(settings: Settings) -> AgentSettings:
    """Those of the settings that agents may know."""
    return AgentSettings(
        command=() if settings.agent_command is None else settings.agent_command.argv,
        directory=settings.agent_dir or Path.cwd(),
        state_dir=settings.state_dir,
        prompt_ttl=settings.prompt_ttl,
        wait=settings.agent_wait,
        environ=os.environ,
    )
