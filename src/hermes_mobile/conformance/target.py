"""The server under test: where it is, and what is known of how it is set up."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import trio
from attrs import field, frozen

from hermes_mobile.protocol import limits

if TYPE_CHECKING:
    from trio.abc import Stream


class Dial(Protocol):
    """How the server is reached."""

    @property
    def host(self) -> str:
        """What the `Host` header says."""
        ...

    @property
    def path(self) -> str: ...

    async def __call__(self) -> Stream:
        """A new connection to it. *Errors*: OSError, trio.BrokenResourceError."""
        ...


@frozen
class Address:
    """A server on the network."""

    hostname: str
    port: int
    path: str
    secure: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a `ws://` or `wss://` URL. *Errors*: ValueError, with words that follow "URL"."""
        problem = "must be ws://HOST:PORT/PATH or wss://HOST/PATH"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError(problem) from None
        if parts.scheme not in {"ws", "wss"} or not parts.hostname:
            raise ValueError(problem)
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{problem}; a token comes from MOBILE_TOKEN or --token-file")
        secure = parts.scheme == "wss"
        return cls(parts.hostname, port or (443 if secure else 80), parts.path or "/", secure)

    @property
    def host(self) -> str:
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{'wss' if self.secure else 'ws'}://{self.host}{self.path}"

    async def __call__(self) -> Stream:
        tcp = await trio.open_tcp_stream(self.hostname, self.port)
        if not self.secure:
            return tcp
        context = ssl.create_default_context()
        stream = trio.SSLStream(tcp, context, server_hostname=self.hostname, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream


@frozen(kw_only=True)
class Target:
    """What is played against, and what is told about it; durations in seconds.

    Where no second, bound or deliver token is told, the scenarios that need one are skipped.
    """

    dial: Dial
    token: str = field(repr=False)
    """An app token that is bound to no device."""
    other_token: str = field(default="", repr=False)
    """Another one."""
    bound_token: str = field(default="", repr=False)
    bound_device: str = ""
    deliver_token: str = field(default="", repr=False)
    allow_list: bool = False
    """Only devices on a list may connect, so no scenario can make up a device."""
    home_device: bool = False
    hello_timeout: float = limits.HELLO_TIMEOUT
    typing_idle: float = limits.TYPING_IDLE

    timeout: float = 10.0
    """For one answer of the server."""
    patience: float = 30.0
    """What takes longer by its nature, such as a card that runs out, is skipped."""
    reference_only: bool = False
    """Only what the reference itself fixes; refusals need not echo an id (D25)."""
