"""What the HTTP side answers: one short method per address, GET and HEAD only, and no WebSocket."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from hermes_mobile import __version__
from hermes_mobile.http import exposition
from hermes_mobile.http.origin import websocket_origin
from hermes_mobile.http.security import secured
from hermes_mobile.server.fault import where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from hermes_mobile.http.assets import Asset
    from hermes_mobile.http.lag import LoopLag
    from hermes_mobile.server.hub import Hub

log = structlog.get_logger()

NOT_STORED: Final = {"Cache-Control": "no-store"}
REVALIDATED: Final = {"Cache-Control": "no-cache"}
"""Kept, but asked for before each use: an upgrade never mixes an old script with a new page."""


def build_site(hub: Hub, lag: LoopLag, assets: Mapping[str, Asset]) -> ASGIApp:
    """The ASGI application over `hub`; `assets` by their path."""
    site = Site(hub, lag, assets)
    app = Starlette(
        routes=[
            Route("/healthz", site.healthz),
            Route("/readyz", site.readyz),
            Route("/metrics", site.metrics),
            Route("/config.json", site.config),
            Route("/avatar", site.avatar),
            Route("/{name:path}", site.asset),
        ],
        exception_handlers={HTTPException: refused, Exception: failed},
    )
    return secured(app, hub)


class Site:
    def __init__(self, hub: Hub, lag: LoopLag, assets: Mapping[str, Asset]) -> None:
        self._hub = hub
        self._lag = lag
        self._assets = assets

    async def healthz(self, _: Request) -> Response:
        """Alive: without a running event loop there is no answer."""
        return line("ok")

    async def readyz(self, _: Request) -> Response:
        """Whether a new conversation can begin now, or the reason why not, with 503."""
        if self._hub.stopping:
            return line("the server is stopping", HTTPStatus.SERVICE_UNAVAILABLE)
        if self._hub.address is None:
            return line("the server does not listen yet", HTTPStatus.SERVICE_UNAVAILABLE)
        if not self._hub.agent.ready:
            return line("the agent is not ready", HTTPStatus.SERVICE_UNAVAILABLE)
        return line("ready")

    async def metrics(self, _: Request) -> Response:
        text = exposition.write(self._hub, self._lag)
        return Response(text, headers={**NOT_STORED, "Content-Type": exposition.MEDIA_TYPE})

    async def config(self, request: Request) -> Response:
        """What the console has to know before it can connect."""
        path = self._hub.settings.path
        origin = websocket_origin(request.headers, self._hub.address)
        return JSONResponse(
            {
                "ws_url": None if origin is None else origin + path,
                "path": path,
                "version": __version__,
            },
            headers=NOT_STORED,
        )

    async def avatar(self, _: Request) -> Response:
        # A relative address also holds below a path that a proxy adds.
        return RedirectResponse("avatar/", HTTPStatus.PERMANENT_REDIRECT)

    async def asset(self, request: Request) -> Response:
        """A file of the console or the avatar page; a folder stands for its `index.html`."""
        name: str = request.path_params["name"]
        if not name or name.endswith("/"):
            name += "index.html"
        asset = self._assets.get(name)
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        headers = {**REVALIDATED, "ETag": asset.etag}
        if asset.etag in known_etags(request):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(asset.content, headers={**headers, "Content-Type": asset.media_type})


def known_etags(request: Request) -> set[str]:
    """The versions that the browser has; a proxy that compresses marks them as weak."""
    etags = request.headers.get("if-none-match", "").split(",")
    return {etag.strip().removeprefix("W/") for etag in etags}


def line(text: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers=NOT_STORED)


async def refused(_: Request, error: Exception) -> Response:
    """The router's own refusals, in one line that repeats nothing of the request."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for no other
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response = line("hermes-mobile: GET and HEAD only", HTTPStatus.METHOD_NOT_ALLOWED)
        response.headers["Allow"] = "GET, HEAD"
        return response
    return line("hermes-mobile: nothing is here", HTTPStatus.NOT_FOUND)


async def failed(_: Request, error: Exception) -> Response:
    log.error("http request failed", **where(error))
    return line("hermes-mobile: the server failed", HTTPStatus.INTERNAL_SERVER_ERROR)
