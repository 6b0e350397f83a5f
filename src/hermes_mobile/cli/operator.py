"""What the operator's commands have in common: they ask the running server, or use its files."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson
import trio

from hermes_mobile.cli import remote
from hermes_mobile.cli.conventions import ConfigurationError
from hermes_mobile.protocol import fields
from hermes_mobile.protocol.errors import ProtocolError
from hermes_mobile.server.access_file import open_devices
from hermes_mobile.server.devices import AccessFileError, DeviceError
from hermes_mobile.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermes_mobile.server.devices import Devices

SERVICE_STATE: Final = Path("/var/lib/hermes-mobile")
"""Where a service keeps its state that was installed by `hermes-mobile systemd`."""
ANSWER_SECONDS: Final = 15.0
"""Above what the server itself takes at most."""


class NotPermittedError(remote.RefusalError):
    """The admin socket is for others: the server's user, and root."""


def device_id(address: str, name: str) -> str:
    """A device id that was given as it is, or as `mobile:ID`. *Errors*: BadParameter."""
    try:
        found = fields.device_address(address, name)
    except ProtocolError as refusal:
        raise click.BadParameter(refusal.message.removeprefix(f"{name}: ")) from None
    if not found:
        raise click.BadParameter("a device id, or mobile:ID")
    return found


async def ask(config: Path | None, op: str, **values: Any) -> dict[str, Any] | None:
    """What the running server answers on its admin socket; None when no server listens there.

    *Errors*: RefusalError for what it refuses, NotPermittedError for who may not ask; NoServerError
    when it does not answer; ConfigurationError.
    """
    path: Path = remote.setting("MOBILE_ADMIN_SOCKET", config) or (
        remote.SERVICE_RUNTIME / "admin.sock"
    )
    try:
        stream = await trio.open_unix_socket(path)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ECONNREFUSED}:
            return None
        raise NotPermittedError(f"{path}: {error.strerror}") from None
    answer: dict[str, Any] = {}
    with trio.move_on_after(ANSWER_SECONDS):
        answer = await _converse(stream, orjson.dumps({"op": op, **values}))
    if not answer:
        raise remote.NoServerError(f"no server: {path} does not answer")
    if "error" in answer:
        raise remote.RefusalError(answer["error"])
    return answer


async def _converse(stream: trio.SocketStream, request: bytes) -> dict[str, Any]:
    """The answer to a request, empty when there is none."""
    try:
        async with stream:
            await stream.send_all(request + b"\n")
            received = b"".join([bytes(data) async for data in stream])
        answer = orjson.loads(received)
    except (trio.BrokenResourceError, orjson.JSONDecodeError):
        return {}
    return answer if isinstance(answer, dict) else {}


@asynccontextmanager
async def open_known(config: Path | None) -> AsyncIterator[Devices]:
    """The known devices without a server, for nobody else meanwhile.

    *Errors*: NoServerError where nothing says where they are; ConfigurationError when they cannot
    be used; RefusalError for a change that makes no sense.
    """
    try:
        async with open_devices(state_dir(config)) as devices:
            yield devices
    except DeviceError as error:
        raise remote.RefusalError(str(error)) from None
    except (AccessFileError, SettingsError) as error:
        raise ConfigurationError(error) from None


def state_dir(config: Path | None) -> Path:
    """Where the state of the server is. *Errors*: NoServerError where nothing says it."""
    named: Path | None = remote.setting("MOBILE_STATE_DIR", config)
    if named is not None:
        return named
    # Who may not look into it is told so when it is opened; a link, as systemd makes, is enough here.
    if SERVICE_STATE.is_symlink() or SERVICE_STATE.is_dir():
        return SERVICE_STATE
    raise remote.NoServerError("no server, and no MOBILE_STATE_DIR in which to do without one")
