"""What is put under load, and how much: told to every worker process as it is."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from attrs import field, frozen

ADDRESSES_PER_NET = 250


@frozen
class Identity:
    """A device's id, and the token that it says hello with."""

    id: str
    token: str = field(repr=False)


@frozen
class Target:
    """A server, and who its devices are.

    `pattern` makes an id of a number; `listed` devices come instead of it. `sources` are addresses
    of this machine to connect from in turn.
    """

    url: str
    token: str = field(repr=False)
    pattern: str = "bench-{}"
    listed: tuple[Identity, ...] = ()
    sources: tuple[str, ...] = ()

    def identity(self, number: int) -> Identity:
        """The device of that number. *Errors*: IndexError beyond those listed."""
        if self.listed:
            return self.listed[number]
        return Identity(self.pattern.format(number), self.token)

    def source(self, number: int) -> str | None:
        """The address that connection comes from; None leaves it to the kernel.

        On loopback every connection has its own, as on the internet: neither the ports of one
        address nor what the server allows one address is then the limit.
        """
        if self.sources:
            return self.sources[number % len(self.sources)]
        if not _is_loopback_v4(urlsplit(self.url).hostname or ""):
            return None
        net, host = divmod(number, ADDRESSES_PER_NET)
        return f"127.1.{net % ADDRESSES_PER_NET}.{host + 1}"


def _is_loopback_v4(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.version == 4 and address.is_loopback  # noqa: PLR2004 - IPv4


def read_devices(text: str, token: str) -> tuple[str, tuple[Identity, ...]]:
    """`--devices`: a pattern with `{}`, or `@FILE` with an `id` or `id=token` per line.

    *Errors*: ValueError, OSError.
    """
    if not text.startswith("@"):
        if "{}" not in text:
            raise ValueError("a pattern holds {} for the number, a list is @FILE")
        return text, ()
    lines = Path(text[1:]).read_text("utf-8").split()
    if not lines:
        raise ValueError("the file names no device")
    listed = []
    for line in lines:
        device_id, _, own_token = line.partition("=")
        listed.append(Identity(device_id, own_token or token))
    return "", tuple(listed)


@frozen(kw_only=True)
class Load:
    """How much is asked of the server. Each scenario uses the fields that it names.

    `seconds` and `warmup` are durations, `ramp` the time over which devices begin one after the
    other; `rate` is an arrival rate per second, at the begin and at the end. Every `sample`-th unit
    is checked in full.
    """

    connections: int = 10
    depth: int = 1
    rate: tuple[float, float] | None = None
    ramp: float = 0.0
    seconds: float = 10.0
    warmup: float = 1.0
    size: int = 64
    sample: int = 100
    any_reply: bool = False
    once: bool = False
    processes: int = 1


def read_rate(text: str) -> tuple[float, float]:
    """`--rate`: `R`, or `A:B` for a rate that goes evenly from A to B. *Errors*: ValueError."""
    begin, _, end = text.partition(":")
    rate = float(begin), float(end or begin)
    if not (min(rate) >= 0 and 0 < max(rate) < float("inf")):
        raise ValueError("rates are numbers per second, not all 0")
    return rate
