"""The command `hermes-mobile`: parse, build, run, exit status."""

from __future__ import annotations

from typing import Any, Final

import click

from hermes_mobile.cli import (
    chat,
    check,
    conformance,
    devices,
    hermes_plugin,
    pair,
    revoke,
    send,
    serve,
    status,
    systemd,
    token,
)
from hermes_mobile.cli.conventions import examples, version_option

INTERRUPTED: Final = 130


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except click.UsageError as error:
            error.ctx = None  # usage and a hint before it would make three lines of one
            raise


@click.group(
    cls=_Commands,
    epilog=examples(
        "hermes-mobile serve",
        "hermes-mobile serve --agent my_package.my_module:MyAgent",
        "hermes-mobile check --config /etc/hermes-mobile.toml",
    ),
)
@version_option
def main() -> None:
    """Let people's own apps talk to an AI agent, over one WebSocket."""


main.add_command(serve.serve)
main.add_command(send.send)
main.add_command(chat.chat)
main.add_command(pair.pair)
main.add_command(devices.devices)
main.add_command(revoke.revoke)
main.add_command(status.status)
main.add_command(check.check)
main.add_command(token.token)
main.add_command(conformance.conformance)
main.add_command(systemd.systemd)
main.add_command(hermes_plugin.hermes_plugin)
