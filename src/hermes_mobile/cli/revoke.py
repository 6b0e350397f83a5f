"""`hermes-mobile revoke`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from hermes_mobile.cli import operator, remote
from hermes_mobile.cli.conventions import config_option, examples, version_option
from hermes_mobile.server.devices import DeviceError

if TYPE_CHECKING:
    from pathlib import Path


def _device(_ctx: click.Context, _param: click.Parameter, address: str) -> str:
    return operator.device_id(address, "ID")


@click.command(epilog=examples("hermes-mobile revoke tel-1"))
@click.argument("device_id", metavar="ID", callback=_device)
@config_option
@version_option
def revoke(device_id: str, config: Path | None) -> None:
    """Shut a device out.

    Its connection ends, its tokens stop to work, what the agent does for it is cancelled, and what
    was kept for it is forgotten. No token admits it again, until it is paired anew.

    The exit status is 0, 4 when there is no such device, 5 when there is neither a server nor its
    state.
    """
    remote.run(partial(shut_out, config, device_id))
    click.echo(f"{device_id} is revoked")


async def shut_out(config: Path | None, device_id: str) -> None:
    if await operator.ask(config, "revoke", device=device_id) is not None:
        return
    bound = {token.device_id for token in remote.setting("MOBILE_EXTRA_TOKENS", config)}
    async with operator.open_known(config) as devices:
        if devices.get(device_id) is None and device_id not in bound:
            raise DeviceError(f"there is no device {device_id}")
        await devices.revoke(device_id)
