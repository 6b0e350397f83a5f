"""What the HTTP side answers, through the ASGI application itself."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from hermes_mobile import __version__
from hermes_mobile.agents.demo import DemoAgent
from hermes_mobile.http.assets import asset, load_assets
from hermes_mobile.http.lag import LoopLag
from hermes_mobile.http.site import build_site
from hermes_mobile.server.hub import Address
from house import open_house

INDEX = asset("index.html", b"<!doctype html><title>console</title>")
SCRIPT = asset("console.js", b"connect()")
AVATAR = asset("avatar/index.html", b"<!doctype html><title>avatar</title>")
ASSETS = {"index.html": INDEX, "console.js": SCRIPT, "avatar/index.html": AVATAR}
ADDRESSES = ["/", "/avatar/", "/console.js", "/healthz", "/readyz", "/metrics", "/config.json"]


@asynccontextmanager
async def open_site(agent=None, assets=None, **settings: Any):
    """A house that listens on port 8787, with its HTTP side on 8788; yields the house and a client."""
    async with open_house(agent, **settings) as house:
        house.hub.address = Address("127.0.0.1", 8787, house.hub.settings.path)
        site = build_site(house.hub, LoopLag(), ASSETS if assets is None else assets)
        transport = httpx.ASGITransport(site, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8788"
        ) as browser:
            yield house, browser


def directives(response: httpx.Response) -> dict[str, str]:
    """The content security policy, taken apart."""
    policy = response.headers["content-security-policy"]
    return dict(directive.split(" ", 1) for directive in policy.split("; "))


def one_line(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    (line,) = response.text.splitlines()
    return line


class UnreadyAgent(DemoAgent):
    ready = False


class BrokenAgent(DemoAgent):
    @property
    def ready(self) -> bool:
        raise RuntimeError("what a person said")


# Health


async def test_a_server_that_listens_is_alive_and_ready(autojump_clock):
    """Both say so with 200 and one line, which no cache keeps."""
    async with open_site() as (_, browser):
        alive, ready = await browser.get("/healthz"), await browser.get("/readyz")
    assert (alive.status_code, one_line(alive)) == (200, "ok")
    assert (ready.status_code, one_line(ready)) == (200, "ready")
    assert alive.headers["cache-control"] == ready.headers["cache-control"] == "no-store"


async def test_a_server_that_stops_is_alive_and_not_ready(autojump_clock):
    """D35: nothing new is wanted, and the process is not to be shot for it."""
    async with open_site() as (house, browser):
        await house.stop()
        ready, alive = await browser.get("/readyz"), await browser.get("/healthz")
    assert (ready.status_code, one_line(ready)) == (503, "the server is stopping")
    assert alive.status_code == 200


async def test_a_server_that_does_not_listen_is_not_ready(autojump_clock):
    """The HTTP side may run a moment before the first device can connect."""
    async with open_site() as (house, browser):
        house.hub.address = None
        ready = await browser.get("/readyz")
    assert (ready.status_code, one_line(ready)) == (503, "the server does not listen yet")


async def test_an_agent_may_be_not_ready(autojump_clock):
    """Its own word counts."""
    async with open_site(UnreadyAgent()) as (_, browser):
        ready = await browser.get("/readyz")
    assert (ready.status_code, one_line(ready)) == (503, "the agent is not ready")


# Where the WebSocket is


async def config(browser: httpx.AsyncClient, **headers: str) -> dict[str, Any]:
    answer = await browser.get("/config.json", headers=headers)
    return answer.json()


async def test_the_page_learns_where_the_websocket_is(autojump_clock):
    """Without a proxy it is the other port, under the name that the browser used."""
    async with open_site(path="/talk") as (_, browser):
        assert await config(browser, Host="pi.local:8788") == {
            "ws_url": "ws://pi.local:8787/talk",
            "path": "/talk",
            "version": __version__,
        }


@pytest.mark.parametrize(
    ("host", "connect"),
    [
        ("127.0.0.1:8788", "ws://127.0.0.1:8787"),
        ("localhost", "ws://localhost:8787"),
        ("my_host.example:80", "ws://my_host.example:8787"),
        ("[::1]:8788", "ws:"),  # a policy cannot name an IPv6 address
    ],
)
async def test_the_policy_allows_that_one_websocket(autojump_clock, host, connect):
    """What the page is told to connect to, it may connect to."""
    async with open_site() as (_, browser):
        page = await browser.get("/config.json", headers={"Host": host})
    assert page.json()["ws_url"] == f"ws://{host.removesuffix(':8788').removesuffix(':80')}:8787/ws"
    assert directives(page)["connect-src"] == f"'self' {connect}"


@pytest.mark.parametrize(
    "host",
    ["", "a b", "a;script-src *", "a,b", 'a"', "user@a", "a/b", "[::1", "a:port", "ä", "a" * 300],
)
async def test_only_a_host_name_is_repeated(autojump_clock, host):
    """A `Host` that is none appears neither in the configuration nor in the policy."""
    async with open_site() as (_, browser):
        page = await browser.get("/config.json", headers={"Host": host.encode()})
    assert page.json()["ws_url"] is None
    assert directives(page)["connect-src"] == "'self'"


@pytest.mark.parametrize(
    "header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP"]
)
async def test_behind_a_proxy_it_is_the_same_origin(autojump_clock, header):
    """The proxy serves both, so the page looks where it came from, and the policy follows."""
    async with open_site() as (_, browser):
        page = await browser.get("/config.json", headers={header: "anything"})
    assert page.json()["ws_url"] is None
    assert directives(page)["connect-src"] == "'self'"


async def test_before_it_listens_there_is_no_address(autojump_clock):
    """Nothing better is known than the page's own origin."""
    async with open_site() as (house, browser):
        house.hub.address = None
        assert (await config(browser))["ws_url"] is None


# Security headers


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("address", [*ADDRESSES, "/avatar", "/nothing", "/avatar/nothing"])
async def test_every_response_has_the_security_headers(autojump_clock, method, address):
    """Pages, files, figures, redirections and refusals alike."""
    async with open_site() as (_, browser):
        response = await browser.request(method, address)
    headers = response.headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "microphone=(self)" in headers["permissions-policy"]
    assert directives(response) | {"frame-ancestors": "*"} == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' blob: data:",
        "media-src": "blob: data:",
        "font-src": "'self'",
        "frame-src": "'self'",
        "connect-src": "'self' ws://127.0.0.1:8787",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "*",
    }


async def test_only_the_avatar_page_may_be_framed(autojump_clock):
    """And only by a page of ours."""
    async with open_site() as (_, browser):
        assert directives(await browser.get("/"))["frame-ancestors"] == "'none'"
        assert directives(await browser.get("/avatar/"))["frame-ancestors"] == "'self'"


async def test_a_failure_is_a_line_and_tells_nothing(autojump_clock, logs):
    """D39: neither the peer nor the log gets an exception's text."""
    async with open_site(BrokenAgent()) as (_, browser):
        response = await browser.get("/readyz")
    assert (response.status_code, one_line(response)) == (500, "hermes-mobile: the server failed")
    assert "content-security-policy" in response.headers
    (entry,) = [entry for entry in logs if entry["event"] == "http request failed"]
    assert entry["error"] == "RuntimeError"
    assert entry["at"].startswith("test_site.py:")
    assert "said" not in str(logs)


# Files


@pytest.mark.parametrize(
    ("address", "file", "media_type"),
    [
        ("/", INDEX, "text/html; charset=utf-8"),
        ("/index.html", INDEX, "text/html; charset=utf-8"),
        ("/console.js", SCRIPT, r"(text|application)/javascript.*"),
        ("/avatar/", AVATAR, "text/html; charset=utf-8"),
    ],
)
async def test_files_are_served_by_name(autojump_clock, address, file, media_type):
    """A folder stands for its page; a query changes nothing."""
    async with open_site() as (_, browser):
        response = await browser.get(f"{address}?v=1")
    assert response.status_code == 200
    assert response.content == file.content
    assert re.fullmatch(media_type, response.headers["content-type"])


async def test_the_avatar_page_without_its_slash(autojump_clock):
    """It redirects, relative to where it is, so that its own relative links hold."""
    async with open_site() as (_, browser):
        response = await browser.get("/avatar")
        followed = await browser.get("/avatar", follow_redirects=True)
    assert (response.status_code, response.headers["location"]) == (308, "avatar/")
    assert followed.content == AVATAR.content


@pytest.mark.parametrize(
    "address",
    ["/nothing", "/console.js/", "/avatar/nothing", "//console.js", "/%2e%2e/site.py", "/healthz/"],
)
async def test_what_is_not_there(autojump_clock, address):
    """It is 404 and one line, which repeats nothing of the address."""
    async with open_site() as (_, browser):
        response = await browser.get(httpx.URL("http://127.0.0.1:8788", raw_path=address.encode()))
    assert (response.status_code, one_line(response)) == (404, "hermes-mobile: nothing is here")


async def test_a_package_without_the_console(autojump_clock):
    """It is a clear 404; health and metrics are served all the same."""
    async with open_site(assets={}) as (_, browser):
        assert (await browser.get("/")).status_code == 404
        assert (await browser.get("/avatar/")).status_code == 404
        assert (await browser.get("/healthz")).status_code == 200


@pytest.mark.parametrize("known", ["{}", "W/{}", '"other", {}', '"other",W/{}'])
async def test_a_browser_that_has_the_file_is_not_sent_it_again(autojump_clock, known):
    """The etag is compared as RFC 9110 says for reading: weak or not, one of several."""
    async with open_site() as (_, browser):
        first = await browser.get("/console.js")
        etag = first.headers["etag"]
        again = await browser.get("/console.js", headers={"If-None-Match": known.format(etag)})
    assert first.headers["cache-control"] == again.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    assert "content-security-policy" in again.headers


async def test_a_browser_that_has_another_version_is_sent_this_one(autojump_clock):
    """Another etag, also of the same length, is another file."""
    async with open_site() as (_, browser):
        headers = {"If-None-Match": f'"{"0" * 32}"'}
        response = await browser.get("/console.js", headers=headers)
    assert (response.status_code, response.content) == (200, SCRIPT.content)


def test_an_etag_follows_from_the_content() -> None:
    """Two installations agree on it, and one changed byte makes another."""
    assert asset("a.js", b"1").etag == asset("b.js", b"1").etag != asset("a.js", b"2").etag


async def test_all_files_of_the_package_are_served(autojump_clock):
    """Each is there under its name, with a type that a browser will execute or show."""
    assets = load_assets()
    async with open_site(assets=assets) as (_, browser):
        for name, file in assets.items():
            response = await browser.get(f"/{name}")
            assert response.content == file.content
            assert response.headers["content-type"] != "application/octet-stream"


# Methods


@pytest.mark.parametrize("address", ADDRESSES)
async def test_head_is_get_without_a_body(autojump_clock, address):
    """The headers are the same, the length included."""
    async with open_site() as (_, browser):
        whole, head = await browser.get(address), await browser.head(address)
    assert (head.status_code, head.content) == (200, b"")
    if address != "/metrics":  # which are newer each time
        assert head.headers == whole.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("address", [*ADDRESSES, "/nothing"])
async def test_nothing_can_be_changed_here(autojump_clock, method, address):
    """Every other method is 405, in one line."""
    async with open_site() as (_, browser):
        response = await browser.request(method, address)
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
    assert one_line(response) == "hermes-mobile: GET and HEAD only"
