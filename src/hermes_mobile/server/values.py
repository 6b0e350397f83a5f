"""What the value of a setting may be: one function per kind reads it from text.

Each raises ValueError with words that follow the setting's name: "must be ...".
"""

from __future__ import annotations

import os
import re
import shlex
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import field, frozen

from hermes_mobile.protocol.limits import MAX_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable

Network: TypeAlias = IPv4Network | IPv6Network

MAX_SECONDS: Final = 365 * 86_400
MAX_NUMBER: Final = 2**40
MAX_TOKEN_CHARS: Final = 4_096
MAX_SOCKET_PATH_BYTES: Final = 107
"""What the kernel has room for."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@frozen
class Token:
    """A secret that a peer may present, and its role: any device, one device, or deliveries."""

    value: str = field(repr=False)
    device_id: str | None = None
    """The one device that it admits (D8)."""
    delivers_only: bool = False
    """It admits no device at all (D26)."""


@frozen
class Command:
    """A program and its arguments; no shell has a part in it."""

    argv: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.argv)


def whole_number(low: int, high: int = MAX_NUMBER) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,15}", text) or not low <= int(text) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def port_or_off(text: str) -> int | None:
    try:
        return None if text.lower() == "off" else whole_number(0, 65_535)(text)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def seconds(text: str) -> float:
    if not (value := _decimal(text)) or value > MAX_SECONDS:
        raise ValueError(f"must be a number of seconds above 0, at most {MAX_SECONDS}")
    return value


def seconds_or_zero(text: str) -> float:
    if (value := _decimal(text)) is None or value > MAX_SECONDS:
        raise ValueError(f"must be a number of seconds from 0 to {MAX_SECONDS}")
    return value


def _decimal(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", text) else None


def switch(text: str) -> bool:
    match text.lower():
        case "on" | "true" | "yes" | "1":
            return True
        case "off" | "false" | "no" | "0":
            return False
        case _:
            raise ValueError("must be on or off")


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text.lower()

    return parse


def token(text: str) -> str:
    if not 0 < len(text) <= MAX_TOKEN_CHARS or not text.isprintable() or " " in text:
        raise ValueError(
            f"must be a token of 1 to {MAX_TOKEN_CHARS} printable characters without white space"
        )
    return text


def tokens(text: str) -> frozenset[str]:
    return frozenset(map(token, _items(text)))


def bound_or_bare_tokens(text: str) -> tuple[Token, ...]:
    return tuple(map(_bound_or_bare_token, _items(text)))


def _bound_or_bare_token(item: str) -> Token:
    # The id ends at the first `=`, so only a bound token may contain one (D8).
    if "=" not in item:
        return Token(token(item))
    bound_id, _, value = map(str.strip, item.partition("="))
    return Token(token(value), device_id(bound_id))


def device_id(text: str) -> str:
    if not 0 < len(text) <= MAX_NAME_CHARS or _CONTROL.search(text):
        raise ValueError(
            f"must hold device ids of 1 to {MAX_NAME_CHARS} characters without control characters"
        )
    return text


def device_ids(text: str) -> frozenset[str]:
    """Read a list of device ids. One that holds only commas is no list: it must not mean everyone."""
    ids = frozenset(map(device_id, _items(text)))
    if text.strip() and not ids:
        raise ValueError("must name device ids, separated by commas")
    return ids


def device_address(text: str) -> str:
    """Read a device id, or its address `mobile:<id>`."""
    return device_id(text.removeprefix("mobile:").strip())


def networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(map(ip_network, _items(text)))
    except ValueError:
        raise ValueError("must be IP addresses and networks such as 10.0.0.0/8") from None


def _items(text: str) -> list[str]:
    return [item for item in map(str.strip, re.split(r"[,\n]", text)) if item]


def host(text: str) -> str:
    name = text.removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[A-Za-z0-9._:%-]+", name):
        raise ValueError("must be an IP address or a host name, without scheme and port")
    return name


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def url_path(text: str) -> str:
    if not re.fullmatch(r"/[!-~]*", text) or "?" in text or "#" in text:
        raise ValueError("must begin with / and hold no white space, ? or #")
    return text


def url(text: str) -> str:
    if not re.fullmatch(r"https?://[!-~]+", text):
        raise ValueError("must be an http:// or https:// URL")
    return text


class FileMode(int):
    """The permissions of a file, in octal for people."""

    def __str__(self) -> str:
        return f"{int(self):04o}"


def file_mode(text: str) -> FileMode:
    # Without the leading zero it might be what TOML makes of 0o660: a decimal number.
    if not re.fullmatch(r"0[0-7]{3}", text):
        raise ValueError("must be four octal digits in quotes, such as 0660")
    return FileMode(text, 8)


def group(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text):
        raise ValueError("must be the name of a group")
    return text


def socket_path(text: str) -> Path | None:
    """Read the path of a Unix socket; None for `off`."""
    if text.lower() == "off":
        return None
    if "\0" in text or len(os.fsencode(text)) > MAX_SOCKET_PATH_BYTES:
        raise ValueError(
            f"must be the path of a socket, at most {MAX_SOCKET_PATH_BYTES} bytes, or off"
        )
    return Path(text)


def file(text: str) -> Path:
    if "\0" in text:
        raise ValueError("must be the path of a file")
    return Path(text)


def directory(text: str) -> Path:
    if "\0" in text:
        raise ValueError("must be the path of a directory")
    return Path(text)


def command(text: str) -> Command:
    try:
        argv = tuple(shlex.split(text))
    except ValueError:
        argv = ()
    if not argv or not argv[0] or "\0" in text:
        raise ValueError("must be a program and its arguments, quoted as in a shell")
    return Command(argv)
