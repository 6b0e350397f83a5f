"""How a browser reached the page, and so where the WebSocket is for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from hermes_mobile.server.hub import Address

HOST: Final = re.compile(
    r"([A-Za-z0-9_][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
)
"""A `Host` header that may be repeated to the browser: a name or an address, and a port."""


def websocket_origin(headers: Headers, address: Address | None) -> str | None:
    """The origin of the WebSocket at `address`, under the name by which the browser reached us.

    None is the page's own origin: a proxy stands between, or nothing better is known.
    """
    host = HOST.fullmatch(headers.get("host", ""))
    if address is None or not address.port or host is None or came_through_proxy(headers):
        return None
    return f"{address.scheme}://{host[1]}:{address.port}"


def came_through_proxy(headers: Headers) -> bool:
    return any(
        name in {"forwarded", "x-real-ip"} or name.startswith("x-forwarded-")
        for name in headers.keys()  # noqa: SIM118 - `Headers` iterates like this only by its keys
    )
