"""Where settings come from: environment, secret files, credentials, a TOML file, in this order."""

from __future__ import annotations

import os
import secrets
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from hermes_mobile.server.access_file import read
from hermes_mobile.server.devices import AccessFileError
from hermes_mobile.server.settings import (
    CONFIG,
    DEFAULT,
    SECRET_FILES,
    VARIABLES,
    Settings,
    SettingsError,
)
from hermes_mobile.server.tls import load_context
from hermes_mobile.server.values import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOCKET_NAMES: Final = {
    "MOBILE_DELIVER_SOCKET": "deliver.sock",
    "MOBILE_ADMIN_SOCKET": "admin.sock",
    "MOBILE_AGENT_SOCKET": "agent.sock",
}
"""What they are called in the directories where they are by default."""


def load_settings(
    config: Path | None, environ: Mapping[str, str], made_token: str | None = None
) -> Settings:
    """Read the settings: environment, secret files, credentials, TOML, default; the first wins.

    `config` is the TOML file, else `MOBILE_CONFIG` names it. An empty variable counts as not set,
    except for a list, where it is the empty list. `made_token` is the one that was made up before,
    if that is still what is needed (D36).

    *Errors*: SettingsError.
    """
    in_file, file = _open_config(config, environ)
    chosen: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for variable, attribute in VARIABLES.items():
        chosen[attribute.name], source = _read(variable, environ, in_file, file)
        if source != DEFAULT:
            sources[variable] = source
    settings = Settings(**chosen, sources=sources, unknown=_unknown(environ))
    check_roles(settings)
    if settings.agent_port is not None and settings.agent_token is None:
        raise SettingsError("MOBILE_AGENT_TOKEN must be set for MOBILE_AGENT_PORT")
    http = (settings.http_host, settings.http_port)
    if settings.http_port and http == (settings.host, settings.port):
        raise SettingsError("MOBILE_HTTP_PORT must be another port than MOBILE_PORT, or off")
    settings = evolve(settings, tls=load_context(settings.tls_cert, settings.tls_key))
    return _with_token(settings, environ, made_token)


def check_roles(settings: Settings) -> None:
    """*Errors*: SettingsError when a token has two roles (D8)."""
    values = {token.value for token in settings.tokens}
    if len(values) < len(settings.tokens) or settings.agent_token in values:
        raise SettingsError(
            "MOBILE_TOKEN, MOBILE_EXTRA_TOKENS, MOBILE_DELIVER_TOKENS, MOBILE_AGENT_TOKEN must give "
            "each token one role: any device, one device, deliveries, or the agent"
        )


def read_setting(variable: str, config: Path | None, environ: Mapping[str, str]) -> Any:
    """One setting, read as `load_settings` reads it, whatever is wrong with the others.

    For programs that talk to the server and need no more of its settings.

    *Errors*: SettingsError.
    """
    in_file, file = _open_config(config, environ)
    return _read(variable, environ, in_file, file)[0]


def _unknown(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = VARIABLES.keys() | SECRET_FILES | {CONFIG}
    return tuple(sorted(name for name in environ.keys() - known if name.startswith("MOBILE_")))


def _open_config(config: Path | None, environ: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """What the TOML file holds, and its name."""
    file = config or environ.get(CONFIG)
    return (_read_toml(Path(file)), f"{file}") if file else ({}, "")


def _read(
    variable: str, environ: Mapping[str, str], in_file: Mapping[str, str], file: str
) -> tuple[Any, str]:
    """The value of a setting, and where it came from."""
    attribute = VARIABLES[variable]
    candidates = _candidates(variable, environ, in_file, file)
    text, source = next(candidates, (None, DEFAULT))
    if text is None:
        return attribute.default, source
    try:
        return attribute.metadata["parse"](text), source
    except ValueError as error:
        # The ValueError's own cause may quote the value, so the chain ends here.
        raise SettingsError(f"{variable} {error} ({source})") from None


def _with_token(settings: Settings, environ: Mapping[str, str], made: str | None) -> Settings:
    """`settings` with an app token, made up where nobody but its reader can connect (D36)."""
    if settings.token or settings.extra_tokens or _pairs_devices(settings.state_dir):
        return settings
    if environ.keys() & {"INVOCATION_ID", "NOTIFY_SOCKET", "LISTEN_FDS"}:
        raise SettingsError("MOBILE_TOKEN must be set under systemd, or a device paired")
    if not is_loopback(settings.host):
        raise SettingsError(
            "MOBILE_TOKEN must be set, or a device paired, when MOBILE_HOST is not a loopback address"
        )
    sources = {**settings.sources, "MOBILE_TOKEN": "made for this run"}
    token = made or secrets.token_urlsafe(32)
    return evolve(settings, token=token, token_made=True, sources=sources)


def _pairs_devices(state_dir: Path | None) -> bool:
    """Whether the operator lets devices in by pairing them: then nobody else need get in."""
    if state_dir is None:
        return False
    try:
        known = read(state_dir)
    except AccessFileError as error:
        raise SettingsError(f"MOBILE_STATE_DIR: {error}") from None
    return any(not device.may_be_forgotten for device in known)


def _candidates(
    variable: str, environ: Mapping[str, str], in_file: Mapping[str, str], file: str
) -> Iterator[tuple[str, str]]:
    """Every text given for `variable` with its source, the strongest first."""
    yield from _given(variable, environ, "environment")
    if f"{variable}_FILE" in SECRET_FILES and "CREDENTIALS_DIRECTORY" in environ:
        credential = Path(environ["CREDENTIALS_DIRECTORY"], variable.lower())
        if os.path.exists(credential):  # noqa: PTH110 - Path.exists raises where it may not look
            yield _read_secret(credential, f"credential {credential.name}"), "credentials"
    yield from _given(variable, in_file, file)
    if variable == "MOBILE_STATE_DIR" and environ.get("STATE_DIRECTORY"):
        yield environ["STATE_DIRECTORY"].partition(":")[0], "STATE_DIRECTORY"
    if variable in SOCKET_NAMES and environ.get("RUNTIME_DIRECTORY"):
        runtime = environ["RUNTIME_DIRECTORY"].partition(":")[0]
        yield f"{runtime}/{SOCKET_NAMES[variable]}", "RUNTIME_DIRECTORY"
    if variable == "MOBILE_ADMIN_SOCKET":
        state_dir, _ = _read("MOBILE_STATE_DIR", environ, in_file, file)
        if state_dir is not None:
            yield f"{state_dir}/{SOCKET_NAMES[variable]}", "MOBILE_STATE_DIR"


def _given(variable: str, texts: Mapping[str, str], source: str) -> Iterator[tuple[str, str]]:
    text = texts.get(variable, "").strip()
    is_list = isinstance(VARIABLES[variable].default, tuple | frozenset)
    is_set = bool(text) or (is_list and variable in texts)
    in_file = f"{variable}_FILE"
    path = texts.get(in_file) if in_file in SECRET_FILES else None
    if is_set and path:
        raise SettingsError(f"{variable} and {in_file} must not both be set ({source})")
    if is_set:
        yield text, source
    elif path:
        yield _read_secret(Path(path), in_file), in_file


def _read_secret(path: Path, name: str) -> str:
    # The path stays out of the error: someone may have put the token itself there.
    try:
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{name} must name a file of UTF-8 text") from None


def _read_toml(path: Path) -> dict[str, str]:
    """The settings in a TOML file, by variable, as the text that the environment would hold."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None
    except ValueError:
        raise SettingsError(f"{path}: not a file of UTF-8 text") from None
    texts: dict[str, str] = {}
    for key, value in table.items():
        variable = f"MOBILE_{key.upper()}"
        if not key.islower() or variable not in VARIABLES.keys() | SECRET_FILES:
            raise SettingsError(f"{path}: {key!r} is not a setting")
        texts[variable] = _as_text(value, f"{variable} ({path})")
    return texts


def _as_text(value: object, name: str) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) and "," not in item for item in value):
            return ",".join(value)
        case _:
            raise SettingsError(
                f"{name} must be a string, a number, true, false, or a list of strings without ,"
            )
