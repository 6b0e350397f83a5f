"""`hermes-mobile pair`."""

from __future__ import annotations

import sys
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import click
import segno

from hermes_mobile.cli import operator, remote
from hermes_mobile.cli.conventions import config_option, examples, version_option
from hermes_mobile.client.link import Endpoint
from hermes_mobile.protocol import fields
from hermes_mobile.server.admin import warn_of_list
from hermes_mobile.server.values import is_loopback

if TYPE_CHECKING:
    from pathlib import Path

BLACK_ON_WHITE = "\x1b[97;40m"
"""As blocks are what is light in a code: white ink on black, whatever the terminal's own colours."""


def _device(_ctx: click.Context, _param: click.Parameter, address: str) -> str:
    return operator.device_id(address, "--device")


@click.command(
    epilog=examples(
        "hermes-mobile pair --device tel-1 --url wss://agent.example.com/ws",
        'hermes-mobile pair --device tel-1 --name "Anna\'s phone" --replace',
    )
)
@click.option(
    "--device",
    "device_id",
    metavar="ID",
    required=True,
    callback=_device,
    help="The device that the token is for, and the only one that it admits.",
)
@click.option(
    "--url",
    metavar="URL",
    callback=remote.checked_url,
    help="Where the device finds the server.  [default: where the server listens]",
)
@click.option("--name", metavar="NAME", default="", help="What to call it in the list of devices.")
@click.option("--replace", is_flag=True, help="Withdraw the tokens that it was paired with before.")
@config_option
@version_option
def pair(device_id: str, url: str | None, name: str, replace: bool, config: Path | None) -> None:
    """Make a token for one device, and show it once: as text, and on a terminal as a QR code.

    From then on no other token admits the device. It holds in the running server at once.

    The exit status is 0, 4 when the server refuses, 5 when there is neither a server nor its state.
    """
    name = fields.short_name(name, "--name")
    made = remote.run(partial(make, config, device_id, url, name, replace))
    url = url or made["url"]
    click.echo(f"url     {url}\ndevice  {device_id}\ntoken   {made['token']}")
    if sys.stdout.isatty():
        click.echo(f"\n{drawn(code(url, device_id, made['token']))}")
    for warning in filter(None, (made["warning"], warn_of_url(url))):
        click.echo(f"warning: {warning}", err=True)


async def make(
    config: Path | None, device_id: str, url: str | None, name: str, replace: bool
) -> dict[str, Any]:
    """Let the server make a token, or do it in its place."""
    values = {"device": device_id, "name": name, "replace": replace}
    made = await operator.ask(config, "pair", **values)
    if made is not None:
        return made
    url = url or remote.server_url(config)
    warning = warn_of_list(device_id, remote.setting("MOBILE_ALLOWED_DEVICES", config))
    async with operator.open_known(config) as devices:
        token = await devices.pair(device_id, name=name, replace=replace)
    return {"token": token, "url": url, "warning": warning}


def warn_of_url(url: str) -> str:
    """What is wrong with a URL for a device that is not this machine."""
    try:
        dialled = remote.dialled(Endpoint.of(url).host)
    except ValueError:  # a Unix socket
        dialled = "localhost"
    return "only this machine reaches this url: --url says another" if is_loopback(dialled) else ""


def code(url: str, device_id: str, token: str) -> str:
    """What the QR code holds (docs/admin.md)."""
    values = {"url": url, "device": device_id, "token": token}
    return f"hermes-mobile://pair?{urlencode(values, quote_via=quote, safe='')}"


def drawn(content: str) -> str:
    """A QR code in characters: two rows of it in a line, where the terminal has the blocks for it."""
    picture = StringIO()
    symbol = segno.make(content, error="l", micro=False)
    try:
        "▀▄█".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        symbol.terminal(picture)
        return picture.getvalue()
    symbol.terminal(picture, compact=True)
    return "\n".join(f"{BLACK_ON_WHITE}{row}\x1b[0m" for row in picture.getvalue().splitlines())
