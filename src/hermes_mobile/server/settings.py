"""What the operator decides: every setting, and where it may come from."""

from __future__ import annotations

import os
import secrets
import tomllib
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import Attribute, evolve, field, fields_dict, frozen

from hermes_mobile.protocol import limits
from hermes_mobile.server import values
from hermes_mobile.server.values import Command, Network, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Default = TypeVar("Default")
Value = TypeVar("Value")

DEFAULT: Final = "default"
"""The source of a setting that nobody set."""
SHORT_TOKEN_CHARS: Final = 16
"""A token below this can be guessed, and is warned about."""


class SettingsError(Exception):
    """A setting is wrong: one line with the variable and what is allowed, never a secret."""


def setting(
    default: Default, parse: Callable[[str], Value], *, secret: bool = False
) -> Default | Value:
    made: Default = field(
        default=default, repr=not secret, metadata={"parse": parse, "secret": secret}
    )
    return made


@frozen(kw_only=True)
class Settings:
    """Everything an operator may decide; durations in seconds, sizes in bytes.

    `load_settings` checks what it reads; values given here directly are taken as they are.
    """

    token: str | None = setting(None, values.token, secret=True)
    extra_tokens: tuple[Token, ...] = setting((), values.bound_or_bare_tokens, secret=True)
    allowed_devices: frozenset[str] = setting(frozenset(), values.device_ids)
    """Empty: all (D9)."""
    deliver_tokens: frozenset[str] = setting(frozenset(), values.tokens, secret=True)
    home_device: str = setting("", values.device_address)
    deliver_loopback: bool = setting(True, values.switch)
    trusted_proxies: tuple[Network, ...] = setting(
        values.networks("127.0.0.0/8,::1/128"), values.networks
    )

    host: str = setting("127.0.0.1", values.host)
    port: int = setting(8787, values.whole_number(0, 65_535))
    path: str = setting("/ws", values.url_path)
    http_host: str = setting("127.0.0.1", values.host)
    http_port: int | None = setting(8788, values.port_or_off)
    avatar_url: str = setting("", values.url)

    agent: str = setting("demo", str)
    agent_command: Command | None = setting(None, values.command)  # noqa: RUF009 - a field
    agent_dir: Path | None = setting(None, values.directory)  # noqa: RUF009 - a field
    """None: where the server was started."""

    hello_timeout: float = setting(limits.HELLO_TIMEOUT, values.seconds)
    typing_idle: float = setting(limits.TYPING_IDLE, values.seconds)
    prompt_ttl: float = setting(limits.PROMPT_TTL, values.seconds)
    upgrade_timeout: float = setting(15.0, values.seconds)
    ping_interval: float = setting(30.0, values.seconds)
    ping_timeout: float = setting(20.0, values.seconds)
    write_timeout: float = setting(30.0, values.seconds)
    shutdown_grace: float = setting(10.0, values.seconds_or_zero)

    queue_messages: int = setting(32, values.whole_number(1))
    queue_bytes: int = setting(16 * limits.MIB, values.whole_number(1))
    outbox_frames: int = setting(256, values.whole_number(1))
    outbox_bytes: int = setting(16 * limits.MIB, values.whole_number(1))
    keep_units: int = setting(256, values.whole_number(1))
    keep_bytes: int = setting(16 * limits.MIB, values.whole_number(1))
    keep_seconds: float = setting(3600.0, values.seconds)
    max_sessions: int = setting(10_000, values.whole_number(1))
    keep_total_bytes: int = setting(512 * limits.MIB, values.whole_number(1))
    media_chunk_bytes: int = setting(
        limits.MEDIA_CHUNK_BYTES,
        values.whole_number(limits.MIN_MEDIA_CHUNK_BYTES, limits.MEDIA_CHUNK_BYTES),
    )

    throttle_failures: int = setting(10, values.whole_number(0, 1000))
    """0: off, as for the two limits below."""
    max_pending: int = setting(512, values.whole_number(0))
    max_pending_per_address: int = setting(32, values.whole_number(0))

    log_level: str = setting("info", values.one_of("debug", "info", "warning", "error", "critical"))
    log_format: str | None = setting(None, values.one_of("console", "json"))
    """None: console on a terminal, else JSON."""
    state_dir: Path | None = setting(None, values.directory)  # noqa: RUF009 - a field

    token_made: bool = False
    """`token` was made up for this run (D36)."""
    sources: Mapping[str, str] = field(factory=dict, eq=False, repr=False)
    """Where each setting came from, by variable; one that is absent has its default."""

    @property
    def tokens(self) -> frozenset[Token]:
        """Every token with its role."""
        app = {Token(self.token)} if self.token else set()
        deliver = {Token(value, delivers_only=True) for value in self.deliver_tokens}
        return frozenset(app | deliver | set(self.extra_tokens))


VARIABLES: Final[Mapping[str, Attribute[Any]]] = {
    f"MOBILE_{name.upper()}": attribute
    for name, attribute in fields_dict(Settings).items()
    if "parse" in attribute.metadata
}
SECRET_FILES: Final = frozenset(
    f"{variable}_FILE" for variable, attribute in VARIABLES.items() if attribute.metadata["secret"]
)


def load_settings(config: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read the settings: environment, secret files, credentials, TOML, default; the first wins.

    `config` is the TOML file, else `MOBILE_CONFIG` names it. An empty variable counts as not set,
    except for a list, where it is the empty list.

    *Errors*: SettingsError.
    """
    in_file, file = _open_config(config, environ)
    chosen: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for variable, attribute in VARIABLES.items():
        chosen[attribute.name], source = _read(variable, environ, in_file, file)
        if source != DEFAULT:
            sources[variable] = source
    settings = Settings(**chosen, sources=sources)
    if len({token.value for token in settings.tokens}) < len(settings.tokens):
        raise SettingsError(
            "MOBILE_TOKEN, MOBILE_EXTRA_TOKENS, MOBILE_DELIVER_TOKENS must give each token one "
            "role: any device, one device, or deliveries"
        )
    http = (settings.http_host, settings.http_port)
    if settings.http_port and http == (settings.host, settings.port):
        raise SettingsError("MOBILE_HTTP_PORT must be another port than MOBILE_PORT, or off")
    return _with_token(settings, environ)


def read_setting(variable: str, config: Path | None, environ: Mapping[str, str]) -> Any:
    """One setting, read as `load_settings` reads it, whatever is wrong with the others.

    For programs that talk to the server and need no more of its settings.

    *Errors*: SettingsError.
    """
    in_file, file = _open_config(config, environ)
    return _read(variable, environ, in_file, file)[0]


def _open_config(config: Path | None, environ: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """What the TOML file holds, and its name."""
    file = config or environ.get("MOBILE_CONFIG")
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


def _with_token(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """`settings` with an app token, made up where nobody but its reader can connect (D36)."""
    if settings.token or settings.extra_tokens:
        return settings
    if "INVOCATION_ID" in environ or "NOTIFY_SOCKET" in environ:
        raise SettingsError("MOBILE_TOKEN must be set under systemd")
    if not is_loopback(settings.host):
        raise SettingsError("MOBILE_TOKEN must be set when MOBILE_HOST is not a loopback address")
    sources = {**settings.sources, "MOBILE_TOKEN": "made for this run"}
    return evolve(settings, token=secrets.token_urlsafe(32), token_made=True, sources=sources)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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


def warnings(settings: Settings) -> list[str]:
    """What is allowed and still looks like a mistake, a line each."""
    return [*_token_warnings(settings), *_device_warnings(settings), *_exposure_warnings(settings)]


def _token_warnings(settings: Settings) -> Iterator[str]:
    if settings.token_made:
        yield "MOBILE_TOKEN is not set: every start makes up a new token"
    if any(len(token.value) < SHORT_TOKEN_CHARS for token in settings.tokens):
        yield f"a token has fewer than {SHORT_TOKEN_CHARS} characters: it can be guessed"


def _device_warnings(settings: Settings) -> Iterator[str]:
    allowed = settings.allowed_devices
    bound = {token.device_id for token in settings.extra_tokens if token.device_id}
    for device_id in sorted(bound - allowed if allowed else ()):
        yield f"MOBILE_ALLOWED_DEVICES lacks {device_id}, which MOBILE_EXTRA_TOKENS binds"
    if allowed and settings.home_device and settings.home_device not in allowed:
        yield f"MOBILE_ALLOWED_DEVICES lacks {settings.home_device}, which is MOBILE_HOME_DEVICE"
    for name in ("queue_bytes", "keep_bytes"):
        if getattr(settings, name) < limits.MAX_MEDIA_BYTES:
            yield f"MOBILE_{name.upper()} is below {limits.MAX_MEDIA_BYTES}: large files do not fit"


def _exposure_warnings(settings: Settings) -> Iterator[str]:
    if not is_loopback(settings.host):
        yield "MOBILE_HOST opens an unencrypted port to other machines: put a TLS proxy before it"
    if any(network.prefixlen == 0 for network in settings.trusted_proxies):
        yield "MOBILE_TRUSTED_PROXIES trusts everyone: any peer can pose as any address"
    if not settings.throttle_failures:
        yield "MOBILE_THROTTLE_FAILURES is 0: tokens may be guessed without limit"


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Variable, value and source of every setting, with secrets masked."""
    return [
        (
            variable,
            "off"
            if variable == "MOBILE_HTTP_PORT" and settings.http_port is None
            else _shown(getattr(settings, attribute.name), secret=attribute.metadata["secret"]),
            settings.sources.get(variable, DEFAULT),
        )
        for variable, attribute in VARIABLES.items()
    ]


def _shown(value: object, *, secret: bool) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:.9f}".rstrip("0").rstrip(".")
        case tuple() | frozenset():
            return ", ".join(sorted(_shown(item, secret=secret) for item in value)) or "-"
        case Token(device_id=str(id)):
            return f"{id}=****"
        case _:
            return "****" if secret else str(value)
