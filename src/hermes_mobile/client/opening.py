"""`open_client`: a client for the length of a block."""

from __future__ import annotations

from contextlib import asynccontextmanager
from random import random as random_float
from typing import TYPE_CHECKING

from hermes_mobile.client.background import open_background
from hermes_mobile.client.client import HermesClient
from hermes_mobile.client.engine import Engine, Options
from hermes_mobile.client.link import Endpoint, over_tcp
from hermes_mobile.protocol.frames import Device, Hello, User

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from hermes_mobile.client.handlers import Handlers
    from hermes_mobile.client.link import OpenStream


@asynccontextmanager
async def open_client(
    url: str,
    *,
    token: str,
    device: Device,
    user: User = User(),  # noqa: B008 - frozen
    handlers: Handlers | None = None,
    open_timeout: float = 15.0,
    max_backoff: float = 15.0,
    keep_alive: float = 25.0,
    keep_alive_timeout: float = 45.0,
    retry: bool = True,
    ssl_context: ssl.SSLContext | None = None,
    random: Callable[[], float] = random_float,
    open_stream: OpenStream | None = None,
) -> AsyncIterator[HermesClient]:
    """Connect to `url`, and stay connected for the length of the block.

    The block begins at once, in the state `connecting`: what is sent in it waits for the connection.
    Attempts follow each other, with pauses of up to `max_backoff` seconds, until the server refuses
    (T3) or another instance takes over (T4); with `retry=False` the first loss is final, too. Leaving
    the block closes the connection, on every path.

    `open_timeout`: seconds for one attempt, from the name to `ready`. `keep_alive`: seconds of silence
    until the client pings, 0 for never; `keep_alive_timeout`: seconds after that until it takes
    another connection (T5). `ssl_context` is for `wss`, the system's by default. `random` is the
    jitter of the pauses, and `open_stream` opens the stream of bytes: both for tests.

    *Errors*: ValueError for a `url` that is none. What the block raises comes out as it is; an
    exception of a callback in an ExceptionGroup.
    """
    engine = Engine(
        Options(
            endpoint=Endpoint.of(url),
            hello=Hello(token, device, user, receipts=True),
            open_stream=open_stream or over_tcp(ssl_context),
            open_timeout=open_timeout,
            max_backoff=max_backoff,
            keep_alive=keep_alive,
            keep_alive_timeout=keep_alive_timeout,
            retry=retry,
            random=random,
        )
    )
    async with open_background() as nursery:
        client = HermesClient(engine, nursery)
        if handlers is not None:
            client.set_handlers(handlers)
        engine.start(nursery)
        try:
            yield client
        finally:
            await engine.leave()
