"""What a browser is told to forbid the pages: no other host, no inline script, no foreign frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from hermes_mobile.http.origin import websocket_origin

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hermes_mobile.server.hub import Hub

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": (
        "microphone=(self), camera=(), display-capture=(), geolocation=(), payment=(), usb=()"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def content_policy(websocket: str | None, *, framed: bool) -> str:
    """The `Content-Security-Policy` of a page that may connect to the origin `websocket`.

    `framed`: other pages of ours may hold it in a frame.
    """
    connect = "'self'"
    if websocket is not None:
        # A policy has no way to write an IPv6 address; the scheme alone comes nearest.
        scheme = websocket.partition("//")[0]
        connect += f" {scheme if '[' in websocket else websocket}"
    directives = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob: data:",
        "media-src": "blob: data:",
        "font-src": "'self'",
        "frame-src": "'self'",
        "connect-src": connect,
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'self'" if framed else "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in directives.items())


def secured(app: ASGIApp, hub: Hub) -> ASGIApp:
    """`app` with the security headers on every response, failures included."""

    async def secured_app(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                websocket = websocket_origin(Headers(scope=scope), hub.address)
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["Content-Security-Policy"] = content_policy(
                    websocket, framed=scope["path"].startswith("/avatar/")
                )
            await send(message)

        await app(scope, receive, send_secured)

    return secured_app
