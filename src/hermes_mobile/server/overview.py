"""What an operator is shown of the settings: each with its source, and what looks like a mistake."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hermes_mobile.protocol import limits
from hermes_mobile.server.access_file import read
from hermes_mobile.server.devices import AccessFileError
from hermes_mobile.server.settings import DEFAULT, VARIABLES
from hermes_mobile.server.values import Token, is_loopback, port_or_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_mobile.server.settings import Settings

SHORT_TOKEN_CHARS: Final = 16
"""A token below this can be guessed, and is warned about."""


def warnings(settings: Settings) -> list[str]:
    """What is allowed and still looks like a mistake, a line each."""
    return [
        *(f"{name} is no setting: mistyped?" for name in settings.unknown),
        *_token_warnings(settings),
        *_device_warnings(settings),
        *_exposure_warnings(settings),
        *_command_warnings(settings),
    ]


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
    for device_id in sorted(_paired(settings) - allowed if allowed else ()):
        yield f"MOBILE_ALLOWED_DEVICES lacks {device_id}, which was paired"
    if allowed and settings.home_device and settings.home_device not in allowed:
        yield f"MOBILE_ALLOWED_DEVICES lacks {settings.home_device}, which is MOBILE_HOME_DEVICE"
    for name in ("queue_bytes", "keep_bytes"):
        if getattr(settings, name) < limits.MAX_MEDIA_BYTES:
            yield f"MOBILE_{name.upper()} is below {limits.MAX_MEDIA_BYTES}: large files do not fit"


def _paired(settings: Settings) -> set[str]:
    """The devices with paired tokens. A file that cannot be read is the start's to complain of."""
    with suppress(AccessFileError):
        if settings.state_dir is not None:
            return {device.id for device in read(settings.state_dir) if device.tokens}
    return set()


def _exposure_warnings(settings: Settings) -> Iterator[str]:
    if not is_loopback(settings.host) and settings.tls is None:
        yield (
            "MOBILE_HOST opens an unencrypted port to other machines: put a TLS proxy before it, or "
            "set MOBILE_TLS_CERT"
        )
    if any(network.prefixlen == 0 for network in settings.trusted_proxies):
        yield "MOBILE_TRUSTED_PROXIES trusts everyone: any peer can pose as any address"
    if not settings.throttle_failures:
        yield "MOBILE_THROTTLE_FAILURES is 0: tokens may be guessed without limit"


def _command_warnings(settings: Settings) -> Iterator[str]:
    if settings.wake_command and not shutil.which(settings.wake_command.argv[0]):
        yield "MOBILE_WAKE_COMMAND names a program that is not there, or may not be executed"


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Variable, value and source of every setting, with secrets masked."""
    return [
        (
            variable,
            "off"
            if attribute.metadata["parse"] is port_or_off
            and getattr(settings, attribute.name) is None
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
