"""What commands that talk to a server have in common: where it is, the token, how errors end them."""

from __future__ import annotations

import os
import signal
import ssl
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import trio

from hermes_mobile.cli.conventions import ConfigurationError
from hermes_mobile.cli.printable import printable
from hermes_mobile.client import AccessDeniedError, RefusedError, ReplacedError
from hermes_mobile.client.background import open_background
from hermes_mobile.client.link import Endpoint
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.server import values
from hermes_mobile.server.hub import Address
from hermes_mobile.server.loading import read_setting
from hermes_mobile.server.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermes_mobile.client import ClientError

SERVICE_RUNTIME: Final = Path("/run/hermes-mobile")
"""Where a service has its sockets that was installed by `hermes-mobile systemd`."""
SERVICE_DELIVER: Final = Path("/run/hermes-mobile-deliver.sock")
"""The one for deliveries that systemd holds for it."""
END_OF_CERTIFICATE: Final = "-----END CERTIFICATE-----"
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")

token_file_option = click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token, instead of the environment.",
)


def checked_url(_ctx: click.Context, _param: click.Parameter, url: str | None) -> str | None:
    if url is not None:
        try:
            Endpoint.of(url)
        except ValueError as error:
            raise click.BadParameter(f"{error}".removeprefix("url: ")) from None
    return url


url_option = click.option(
    "--url",
    metavar="URL",
    callback=checked_url,
    help="Where the server is.  [default: from MOBILE_HOST, MOBILE_PORT, MOBILE_PATH]",
)


class RemoteError(click.ClickException):
    """What ends a command that talks to a server: one line, and the exit status of its cause."""

    def __init__(self, message: str) -> None:
        # The server has a part in what it says.
        super().__init__(printable(" ".join(message.split())))


class DeviceOfflineError(RemoteError):
    exit_code = 3


class RefusalError(RemoteError):
    exit_code = 4


class NoServerError(RemoteError):
    exit_code = 5


def error_of(error: ClientError, hint: str = "") -> RemoteError:
    """What a command ends with; `hint` is for who may not do what it asked for."""
    match error:
        case RefusedError(code=ErrorCode.DEVICE_OFFLINE):
            return DeviceOfflineError(f"device offline: {error.message}")
        case RefusedError(code=code):
            way = hint if code == ErrorCode.FORBIDDEN else ""
            return RefusalError(f"refused: {code}: {error.message}{way}")
        case AccessDeniedError():
            return RefusalError(f"{error.message}{hint}")
        case ReplacedError():
            return RefusalError(error.message)
        case _:
            return NoServerError(f"no server: {error.message}")


def server_url(config: Path | None) -> str:
    """The address of a server with the same settings on this machine.

    *Errors*: ConfigurationError, also for port 0, where nobody knows the port.
    """
    host = setting("MOBILE_HOST", config)
    port = setting("MOBILE_PORT", config)
    if port == 0:
        raise ConfigurationError("MOBILE_PORT is 0, any free port: --url says which one it is")
    secure = setting("MOBILE_TLS_CERT", config) is not None
    return Address(dialled(host), port, setting("MOBILE_PATH", config), secure).url


def trust(url: str | None, config: Path | None) -> ssl.SSLContext | None:
    """How the certificate of the server is judged: by itself, where it lies on this machine.

    It names a host of the network, not 127.0.0.1. None leaves it to the system's authorities, as for
    any server that a `url` names.

    *Errors*: ConfigurationError.
    """
    file: Path | None = setting("MOBILE_TLS_CERT", config)
    if url is not None or file is None:
        return None
    # Without the chain behind it: whatever else was issued by the same authority is not ours.
    own = "".join(file_text(file, "MOBILE_TLS_CERT").partition(END_OF_CERTIFICATE)[:2])
    try:
        context = ssl.create_default_context(cadata=own)
    except ssl.SSLError:
        raise ConfigurationError("MOBILE_TLS_CERT must be a certificate in PEM") from None
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def dialled(host: str) -> str:
    """The host to dial for one to listen on: every address of a machine has its loopback one."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"  # noqa: PLR2004 - of IP


def app_token(config: Path | None, token_file: Path | None) -> str:
    """The token in the file, else MOBILE_TOKEN.

    *Errors*: ConfigurationError for an unreadable one; UsageError without any.
    """
    if token_file is not None:
        return _token_in(token_file)
    if token := setting("MOBILE_TOKEN", config):
        return str(token)
    raise click.UsageError("the token comes from MOBILE_TOKEN or --token-file")


def deliver_socket(config: Path | None) -> Path | None:
    """The server's socket for deliveries, if it is there: the settings', else an installed service's.

    Who has a token means another server than that service.

    *Errors*: ConfigurationError.
    """
    named: Path | None = setting("MOBILE_DELIVER_SOCKET", config)
    if named is not None:
        return named if is_socket(named) else None
    if setting("MOBILE_TOKEN", config) or deliver_token(config):
        return None
    installed = (SERVICE_DELIVER, SERVICE_RUNTIME / "deliver.sock")
    return next(filter(is_socket, installed), None)


def is_socket(path: Path) -> bool:
    """Whether one is there; also where only those may look who may not connect either."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


def deliver_token(config: Path | None) -> str | None:
    """One of MOBILE_DELIVER_TOKENS, if there is any. *Errors*: ConfigurationError."""
    tokens: frozenset[str] = setting("MOBILE_DELIVER_TOKENS", config)
    return min(tokens, default=None)


def _token_in(file: Path) -> str:
    try:
        return values.token(file_text(file, "--token-file").strip())
    except ValueError as error:
        raise ConfigurationError(f"--token-file {error}") from None


def file_text(file: Path, name: str) -> str:
    """What a file holds that was given as `name`. *Errors*: ConfigurationError."""
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} must be a file of UTF-8 text") from None


def setting(variable: str, config: Path | None) -> Any:
    """One setting of the server's. *Errors*: ConfigurationError."""
    try:
        return read_setting(variable, config, os.environ)
    except SettingsError as error:
        raise ConfigurationError(error) from None


def run(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run `work` on Trio.

    *Errors*: KeyboardInterrupt on Ctrl-C, and SystemExit on SIGTERM and SIGHUP, both after `work` has
    cleaned up.
    """
    return trio.run(until_signal, work)


async def until_signal(work: Callable[[], Awaitable[Result]]) -> Result:
    # By itself an interrupt would strike anywhere, and come out of nurseries in a group.
    received = signal.SIGINT

    async def cancel_on_signal() -> None:
        nonlocal received
        received = signal.Signals(await anext(signals))
        scope.cancel()

    with trio.open_signal_receiver(*ENDING) as signals, trio.CancelScope() as scope:
        async with open_background() as beside:
            beside.start_soon(cancel_on_signal)
            return await work()
    if received is signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + received)
