"""What the operator decides: every setting, its default, and how its text is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import Attribute, field, fields_dict, frozen

from hermes_mobile.protocol import limits
from hermes_mobile.server import values
from hermes_mobile.server.values import Command, FileMode, Network, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from ssl import SSLContext

Default = TypeVar("Default")
Value = TypeVar("Value")

DEFAULT: Final = "default"
"""The source of a setting that nobody set."""


class SettingsError(Exception):
    """A setting is wrong: one line with the variable and what is allowed, never a secret."""


def setting(
    default: Default,
    parse: Callable[[str], Value],
    *,
    secret: bool = False,
    restart: bool = False,
) -> Default | Value:
    """A field of `Settings`; `restart`: it takes effect at the start only, not at a reload."""
    made: Default = field(
        default=default,
        repr=not secret,
        metadata={"parse": parse, "secret": secret, "restart": restart},
    )
    return made


@frozen(kw_only=True)
class Settings:
    """Everything an operator may decide; durations in seconds, sizes in bytes.

    `loading.load_settings` checks what it reads; values given here directly are taken as they are.
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

    host: str = setting("127.0.0.1", values.host, restart=True)
    port: int = setting(8787, values.whole_number(0, 65_535), restart=True)
    path: str = setting("/ws", values.url_path, restart=True)
    http_host: str = setting("127.0.0.1", values.host, restart=True)
    http_port: int | None = setting(8788, values.port_or_off, restart=True)
    avatar_url: str = setting("", values.url)
    deliver_socket: Path | None = setting(None, values.socket_path, restart=True)
    deliver_socket_mode: FileMode = setting(
        values.file_mode("0600"), values.file_mode, restart=True
    )
    deliver_socket_group: str = setting("", values.group, restart=True)
    admin_socket: Path | None = setting(None, values.socket_path, restart=True)
    tls_cert: Path | None = setting(None, values.file)
    tls_key: Path | None = setting(None, values.file)

    agent: str = setting("demo", str, restart=True)
    agent_command: Command | None = setting(None, values.command, restart=True)
    agent_dir: Path | None = setting(None, values.directory, restart=True)
    """None: where the server was started."""
    agent_wait: float = setting(60.0, values.seconds, restart=True)
    agent_socket: Path | None = setting(None, values.socket_path, restart=True)
    agent_port: int | None = setting(None, values.port_or_off, restart=True)
    """On 127.0.0.1."""
    agent_token: str | None = setting(None, values.token, secret=True, restart=True)

    hello_timeout: float = setting(limits.HELLO_TIMEOUT, values.seconds)
    typing_idle: float = setting(limits.TYPING_IDLE, values.seconds)
    prompt_ttl: float = setting(limits.PROMPT_TTL, values.seconds)
    upgrade_timeout: float = setting(15.0, values.seconds)
    ping_interval: float = setting(30.0, values.seconds)
    ping_timeout: float = setting(20.0, values.seconds)
    write_timeout: float = setting(30.0, values.seconds)
    shutdown_grace: float = setting(10.0, values.seconds_or_zero)

    wake_command: Command | None = setting(None, values.command)
    wake_interval: float = setting(60.0, values.seconds)
    message_rate: int = setting(0, values.whole_number(0, 100_000))
    """Messages a minute of one device; 0: any number."""
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
    log_format: str | None = setting(None, values.one_of("console", "json"), restart=True)
    """None: console on a terminal, else JSON."""
    state_dir: Path | None = setting(None, values.directory, restart=True)
    received_bytes: int = setting(1024 * limits.MIB, values.whole_number(0), restart=True)
    """0: no files are kept, as for the age below."""
    received_seconds: float = setting(7 * 86_400.0, values.seconds_or_zero, restart=True)

    token_made: bool = False
    """`token` was made up for this run (D36)."""
    tls: SSLContext | None = field(default=None, eq=False, repr=False)
    """What `tls_cert` and `tls_key` held when the settings were read."""
    unknown: tuple[str, ...] = field(default=(), eq=False)
    """Variables of the environment that look like settings and are none."""
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
CONFIG: Final = "MOBILE_CONFIG"
"""The variable that names the TOML file."""
SECRET_FILES: Final = frozenset(
    f"{variable}_FILE" for variable, attribute in VARIABLES.items() if attribute.metadata["secret"]
)
