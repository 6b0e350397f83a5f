"""One WebSocket, from the open stream to the closed one, on trio-websocket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import trio
from attrs import frozen
from trio_websocket import ConnectionClosed, ConnectionRejected, wrap_client_stream
from wsproto.utilities import LocalProtocolError

from hermes_mobile.client.link import Link
from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio_websocket import WebSocketConnection

    from hermes_mobile.client.link import Endpoint

ABNORMAL: Final = 1006
"""The close code of a connection that ended without one."""
RECEIVE_BYTES: Final = 64 * 1024
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the server has for its side of the closing handshake."""


@frozen
class Ending:
    """How a connection ended: the close code and its reason, or what went wrong, in words."""

    code: int = ABNORMAL
    reason: str = ""
    trouble: str = "the connection was lost"


async def converse(
    stream: trio.abc.Stream,
    endpoint: Endpoint,
    talk: Callable[[WebSocketConnection, Link], Awaitable[None]],
) -> Ending:
    """Make a WebSocket of `stream`, let `talk` use it, and close both; says how it ended.

    When `talk` returns, the closing handshake is done, for 2 s at most.

    *Cancellation*: closes the stream without a word.
    """
    link = Link(stream)
    ending = Ending()
    try:
        async with trio.open_nursery() as library:  # for trio-websocket's own task
            websocket = await _upgrade(library, link, endpoint)
            if websocket is None:
                ending = Ending(trouble=link.refusal)
            else:
                ending = await _talk_to_the_end(websocket, link, talk)
            library.cancel_scope.cancel()
    except* ConnectionRejected:
        ending = Ending(trouble=link.refusal)
    except* (LocalProtocolError, trio.BrokenResourceError, trio.ClosedResourceError):
        ending = Ending()  # trio-websocket's own task, when a peer ends in the middle of something
    finally:
        await link.close()
    return ending


async def _upgrade(
    library: trio.Nursery, link: Link, endpoint: Endpoint
) -> WebSocketConnection | None:
    """The WebSocket; None when the peer left before there was one."""
    with trio.CancelScope() as scope:
        link.on_end = scope.cancel
        websocket = await wrap_client_stream(
            library,
            cast("trio.SocketStream", link),  # any stream will do
            endpoint.header,
            endpoint.path,
            max_message_size=MAX_FRAME_BYTES,
            receive_buffer_size=RECEIVE_BYTES,
        )
        link.on_end = lambda: None
        return websocket
    return None


async def _talk_to_the_end(
    websocket: WebSocketConnection,
    link: Link,
    talk: Callable[[WebSocketConnection, Link], Awaitable[None]],
) -> Ending:
    try:
        await talk(websocket, link)
    except ConnectionClosed as closed:
        if closed.reason is None or closed.reason.code == ABNORMAL:
            return Ending()
        code, reason = closed.reason.code, closed.reason.reason or ""
        return Ending(code, reason, f"the server closed the connection: {code} {reason}".rstrip())
    if not link.torn:
        with trio.move_on_after(CLOSE_TIMEOUT):
            await websocket.aclose(CloseCode.NORMAL)
    return Ending(CloseCode.NORMAL, trouble="")
