"""Behind nginx and Caddy, as Debian has them, with the configurations of `docs/deploy`."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import Any

import attrs
import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from certificates import authority, client_context
from handset import device, dial, echo, exchange_large, expect, send
from proxies import DEPLOY, open_caddy, open_nginx, program
from street import PATIENCE, TOKEN, ServerProcess, environment

HERE, ELSEWHERE = ("127.0.0.2", 0), ("127.0.0.3", 0)
"""Addresses of clients; to the server only the proxy's is that of a proxy."""
FAILURES = 3
DELIVER_TOKEN = "a-token-of-the-cron"
OF_NO_LIMIT = {
    "limit_req_zone": "$binary_remote_addr zone=hermes_mobile_hellos:1m rate=10000r/s",
    "limit_conn": "hermes_mobile_connections 10000",
}
"""Of nginx, for a client that connects hundreds of times."""
OPEN = {"nginx": open_nginx, "caddy": open_caddy}

pytestmark = pytest.mark.slow
needs_nginx = pytest.mark.skipif(program("nginx") is None, reason="no nginx: apt-get install nginx")
needs_caddy = pytest.mark.skipif(program("caddy") is None, reason="no caddy: apt-get install caddy")
BOTH = [pytest.param("nginx", marks=needs_nginx), pytest.param("caddy", marks=needs_caddy)]


@attrs.frozen
class Proxied:
    """A server, and where its proxy listens."""

    server: ServerProcess
    port: int

    @property
    def url(self) -> str:
        return f"wss://127.0.0.1:{self.port}/ws"


@pytest.fixture
def put(serve, tmp_path):
    """Put a proxy, by its name, before a server with `settings`, until the test ends."""
    with ExitStack() as stack:

        def start(name: str, settings: dict[str, Any] | None = None, **instead: str) -> Proxied:
            given = {"MOBILE_TRUSTED_PROXIES": "127.0.0.1", "MOBILE_HTTP_PORT": 0}
            server = serve(**given, **(settings or {}))
            lines = iter(server.process.stdout.readline, "")
            console = next(line for line in lines if "console" in line).split("#")[0]
            http = int(console.rstrip("/\n ").rpartition(":")[2])
            port = stack.enter_context(OPEN[name](tmp_path, server.port, http, **instead))
            return Proxied(server, port)

        yield start


@pytest.fixture(params=BOTH)
def proxied(request, put) -> Proxied:
    settings = {"MOBILE_THROTTLE_FAILURES": FAILURES, "MOBILE_DELIVER_TOKENS": DELIVER_TOKEN}
    return put(request.param, settings)


def test_a_chat_with_large_frames(proxied):
    """Texts, 16 MiB upwards in one frame, 8 MiB downwards, and a closing handshake that is whole."""
    with device(proxied.url) as phone:
        exchange_large(phone)
        echo(phone, "m3")
        phone.close()
        assert phone.protocol.close_rcvd is not None


@pytest.mark.parametrize("name", BOTH)
def test_the_conformance_suite(put, tmp_path, name):
    """Nothing of the protocol is different through a proxy, deliveries by loopback aside (D26)."""
    unhurried = {} if name == "caddy" else OF_NO_LIMIT
    settings = {"MOBILE_THROTTLE_FAILURES": 0, "MOBILE_DELIVER_TOKENS": DELIVER_TOKEN}
    proxied = put(name, settings, **unhurried)
    trusted = tmp_path / "authority.pem"
    authority().cert_pem.write_to_path(trusted)
    told = {"MOBILE_TOKEN": TOKEN, "MOBILE_DELIVER_TOKENS": DELIVER_TOKEN, "SSL_CERT_FILE": trusted}
    result = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "hermes_mobile", "conformance", proxied.url],
        env=environment(**told),
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_codes_and_reasons_come_through(proxied):
    """What an app goes by arrives as the server said it: 1008 for a wrong token, 1001 for a stop."""
    assert be_refused(proxied.url) == (1008, "auth_failed")
    with device(proxied.url) as phone:
        proxied.server.terminate()
        assert end_of(phone) == (1001, "shutdown")


def be_refused(url: str, **options: Any) -> tuple[int, str]:
    """How the connection of a device with a wrong token ends."""
    with dial(url, **options) as stranger:
        send(stranger, "hello", token="wrong", device={"id": "stranger"})
        assert expect(stranger, "error")["code"] == "auth_failed"
        return end_of(stranger)


def end_of(websocket) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as ended:
        expect(websocket, "nothing that there is")
    assert ended.value.rcvd is not None
    return ended.value.rcvd.code, ended.value.rcvd.reason


def test_deliveries_are_refused(proxied):
    """D26: through a proxy on the same host nobody is local; a token for deliveries is what it takes."""
    with device(proxied.url) as phone:
        with device(proxied.url, "cron") as cron:
            send(cron, "deliver", id="d1", target="phone", text="not for everybody")
            error = expect(cron, "error")
            assert (error["code"], error["id"], error["fatal"]) == ("forbidden", "d1", False)
        with device(proxied.url, "cron", token=DELIVER_TOKEN) as cron:
            send(cron, "deliver", id="d2", target="phone", text="good morning")
            assert expect(phone, "message")["text"] == "good morning"


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded"])
def test_the_throttle_counts_for_the_client(proxied, header):
    """D37: for the address that came to the proxy, whatever it says of itself; others come in."""
    for number in range(FAILURES):
        claim = f"for=192.0.2.{number}" if header == "Forwarded" else f"192.0.2.{number}"
        be_refused(proxied.url, source_address=HERE, additional_headers={header: claim})
    with pytest.raises(InvalidStatus) as answered, dial(proxied.url, source_address=HERE):
        pass
    assert answered.value.response.status_code == 429
    with device(proxied.url, source_address=ELSEWHERE) as phone:
        echo(phone, "m1")


def test_what_is_reached_of_the_http_side(proxied):
    """The pages and what they load, and that they connect to where they came from; no figures."""
    with httpx.Client(
        base_url=proxied.url[:-2].replace("wss", "https"), verify=client_context()
    ) as web:
        config = web.get("/config.json").json()
        assert (config["ws_url"], config["path"]) == (None, "/ws")
        asked = web.get("/ws")
        assert (asked.status_code, "WebSocket" in asked.text) == (426, True)
        for page in ("/", "/avatar/"):
            loaded = web.get(page)
            assert loaded.status_code == 200
            assert "connect-src 'self';" in loaded.headers["Content-Security-Policy"]
        for file in (
            "console.js",
            "console.css",
            "icon.svg",
            "avatar/avatar.js",
            "avatar/avatar.css",
        ):
            assert web.get(f"/{file}").status_code == 200, file
        for secret in ("metrics", "healthz", "readyz", "console.html", "ws/more"):
            assert web.get(f"/{secret}").status_code == 404, secret


@needs_caddy
def test_caddy_finds_nothing_wrong(tmp_path):
    """`caddy validate` takes the page's file as it is, and `caddy fmt` would write it no other way."""
    file = DEPLOY / "Caddyfile"
    validate = ("validate", "--adapter", "caddyfile", "--config", file)
    for arguments in (validate, ("fmt", file)):
        result = subprocess.run(  # noqa: S603 - a program of Debian
            [program("caddy"), *arguments],
            env=environment(HOME=tmp_path, XDG_DATA_HOME=tmp_path, XDG_CONFIG_HOME=tmp_path),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert result.stdout == file.read_text()


@needs_nginx
def test_idle_beyond_the_timeout_of_nginx(put):
    """A quiet connection lives on the server's pings (D5), for several times what nginx would wait."""
    often = {"MOBILE_PING_INTERVAL": 0.5, "MOBILE_PING_TIMEOUT": 10}
    quick = put("nginx", often, proxy_read_timeout="2s", proxy_send_timeout="2s")
    with device(quick.url) as phone:
        hear_nothing(phone, 7)
        echo(phone, "m1")


@needs_nginx
def test_the_timeout_of_nginx_is_one(put):
    """Without pings in time nginx ends a quiet connection: what the test above would not survive."""
    seldom = put("nginx", proxy_read_timeout="1s", proxy_send_timeout="1s")
    with device(seldom.url) as phone, pytest.raises(ConnectionClosed):
        hear_nothing(phone, PATIENCE)


def hear_nothing(websocket, seconds: float) -> None:
    """Wait for so long, in which no frame comes; ConnectionClosed if the connection ends."""
    with suppress(TimeoutError):
        frame = websocket.recv(seconds)
        raise AssertionError(frame)


@needs_nginx
def test_nginx_is_asked_too_often(put):
    """Requests of one address beyond its rate and its burst are answered 429; others come in."""
    careful = put(
        "nginx",
        limit_req_zone="$binary_remote_addr zone=hermes_mobile_hellos:1m rate=1r/m",
        limit_req="zone=hermes_mobile_hellos burst=1 nodelay",
    )
    for _ in range(2):
        with device(careful.url, source_address=HERE) as phone:
            echo(phone, "m1")
    with pytest.raises(InvalidStatus) as answered, dial(careful.url, source_address=HERE):
        pass
    assert answered.value.response.status_code == 429
    with device(careful.url, source_address=ELSEWHERE) as phone:
        echo(phone, "m1")
