"""`hermes-mobile serve`."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import click
import structlog
import trio

from hermes_mobile import __version__
from hermes_mobile.cli.conventions import (
    ConfigurationError,
    config_option,
    configured,
    examples,
    read_settings,
    version_option,
)
from hermes_mobile.http.listener import open_http
from hermes_mobile.ops import logging, systemd
from hermes_mobile.ops.memory import give_back_memory
from hermes_mobile.server import app, values
from hermes_mobile.server.app import Phase
from hermes_mobile.server.listeners import ListenError, passed_warnings
from hermes_mobile.server.overview import warnings
from hermes_mobile.server.reload import reload
from hermes_mobile.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hermes_mobile.agents import Agent
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.listeners import Passed
    from hermes_mobile.server.settings import Settings
    from hermes_mobile.server.values import Command

log = structlog.get_logger()

PASSED_NAMES: Final = frozenset({"ws", "http", "deliver", "admin", "agent"})
"""What a socket that systemd passes may be called."""


def command_line(
    _context: click.Context, _option: click.Option, text: str | None
) -> Command | None:
    """Read an option as the setting is read, and say what is wrong as wrong usage."""
    try:
        return None if text is None else values.command(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    epilog=examples(
        "hermes-mobile serve",
        "hermes-mobile serve --agent my_package.my_module:MyAgent",
        "hermes-mobile serve --agent acp --agent-command 'hermes acp'",
        "MOBILE_PORT=9000 hermes-mobile serve --config hermes-mobile.toml",
    )
)
@click.option("--agent", metavar="NAME", help="demo, acp, link, or package.module:Class.")
@click.option(
    "--agent-command",
    metavar="COMMAND",
    callback=command_line,
    help="The program of the agent acp, with its arguments.  [default: MOBILE_AGENT_COMMAND]",
)
@config_option
@version_option
def serve(agent: str | None, agent_command: Command | None, config: Path | None) -> None:
    """Run the server in the foreground.

    Says on standard output where it listens, and logs to standard error. SIGTERM stops it with
    exit status 0; SIGHUP makes it read its settings anew, and keeps all connections. Without a token
    it makes one up for this run, on a loopback address only.
    """
    options = {"agent": agent, "agent_command": agent_command}
    settings, loaded = configured(config, **options)
    logging.configure(settings.log_level, settings.log_format)
    try:
        passed = systemd.take_sockets(os.environ, os.getpid(), PASSED_NAMES)
        for warning in (*warnings(settings), *passed_warnings(settings, passed)):
            log.warning("configuration", warning=warning)
        read = partial(read_settings, config, options)
        with systemd.take_notifier(os.environ, os.getpid()) as notifier:
            received = trio.run(serve_both_sides, settings, loaded, passed, notifier, read)
    except (systemd.PassedSocketError, ListenError, SettingsError) as error:
        raise ConfigurationError(error) from error
    if received == signal.SIGINT:
        raise KeyboardInterrupt


async def serve_both_sides(
    settings: Settings,
    agent: Agent,
    passed: Passed,
    notifier: systemd.Notifier,
    read: Callable[[str | None], Settings],
) -> int:
    """Serve WebSocket, and HTTP beside it; returns the signal that ended it.

    `read` reads the settings anew for a reload, see `reload`.

    *Errors*: ListenError, SettingsError.
    """
    on_terminal = os.isatty(0)

    async def reload_all(hub: Hub) -> None:
        if on_terminal and not os.isatty(0):
            signal.raise_signal(signal.SIGTERM)  # SIGHUP in its first sense: the terminal is gone
        elif await reload(hub, read):
            logging.set_level(hub.settings.log_level)

    async with open_http(settings, passed) as http:
        beside: list[app.Companion] = [give_back_memory, partial(tell_status, notifier)]
        if http is not None:
            beside.append(http.run)

        def announce(phase: Phase, hub: Hub) -> None:
            match phase:
                case Phase.LISTENING:
                    assert hub.address is not None  # noqa: S101 - it listens
                    url = "" if http is None else http.url
                    click.echo(banner(settings, hub.address.url, url))
                    notifier.ready()
                case Phase.RELOADING:
                    notifier.reloading()
                case Phase.RELOADED:
                    notifier.ready()
                case Phase.STOPPING:
                    notifier.stopping(app.stop_seconds(hub.settings))
                case _:
                    assert_never(phase)

        return await app.serve(
            settings, agent, announce, passed=passed, reload=reload_all, beside=beside
        )


async def tell_status(notifier: systemd.Notifier, hub: Hub) -> None:
    """Keep the service manager informed, until cancelled."""

    def status() -> str:
        doing = "stopping: " if hub.stopping else ""
        return f"{doing}{len(hub.connections)} connections, {len(hub.registry)} sessions"

    await notifier.run(status)


def banner(settings: Settings, url: str, console: str) -> str:
    """What an operator wants to know at the start; a token only if it was made up (D36)."""
    allowed = settings.allowed_devices
    lines = [
        f"hermes-mobile {__version__} listens on {url}",
        f"  agent    {settings.agent}",
        f"  devices  {len(allowed)} allowed" if allowed else "  devices  all with a valid token",
    ]
    if console:
        # A browser keeps a fragment to itself: no server and no proxy ever sees it.
        fragment = f"#token={settings.token}" if settings.token_made else ""
        lines.append(f"  console  {console}{fragment}")
    if settings.token_made:
        hello = {
            "t": "hello",
            "token": settings.token,
            "device": {"id": "tel-1", "name": "Phone"},
        }
        lines += [
            f"  token    {settings.token}  (made up for this run; MOBILE_TOKEN sets a lasting one)",
            "To try it, connect a WebSocket client to the address and send as the first message:",
            json.dumps(hello, separators=(",", ":")),
        ]
    return "\n".join(lines)
