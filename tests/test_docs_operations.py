"""`docs/operations.md` and `docs/security.md` name what there is: settings, commands, codes, events."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from click import Context

import hermes_mobile
from hermes_mobile.cli import main
from hermes_mobile.http import exposition
from hermes_mobile.http.lag import LoopLag
from hermes_mobile.protocol.errors import CloseCode, ErrorCode
from hermes_mobile.server.ending import LOST
from hermes_mobile.server.settings import CONFIG, SECRET_FILES, VARIABLES, Settings
from house import open_house

PACKAGE = Path(hermes_mobile.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
OPERATIONS, SECURITY = ((DOCS / f"{name}.md").read_text() for name in ("operations", "security"))
NGINX = (DOCS / "deploy" / "nginx.conf").read_text()
CODES = json.loads((Path(__file__).parent / "vectors" / "codes.json").read_text())
PAGES = pytest.mark.parametrize(
    "page", [OPERATIONS, SECURITY, NGINX], ids=["operations", "security", "nginx"]
)
NO_CODE = 1006
"""What a WebSocket library says where no Close frame came."""


def section(name: str) -> str:
    return re.split(rf"^#+ {name}$", OPERATIONS, flags=re.MULTILINE)[1].split("\n## ")[0]


def rows(name: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    lines = [line for line in section(name).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def events() -> set[str]:
    """Everything that the package logs, by the event's name."""
    return {
        call.args[0].value
        for file in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and getattr(call.func.value, "id", "") == "log"
        and isinstance(call.args[0], ast.Constant)
    }


@PAGES
def test_every_setting_exists(page):
    """Each variable is one that the server, its secrets' files or its TOML file know."""
    named = set(re.findall(r"\bMOBILE_\w+", page))
    assert named <= VARIABLES.keys() | SECRET_FILES | {CONFIG}
    assert named


def test_every_line_of_toml_is_a_setting():
    """What stands in a block of TOML is read by the server."""
    blocks = re.findall(r"^```toml\n(.*?)^```", OPERATIONS, re.DOTALL | re.MULTILINE)
    for name in (key for block in blocks for key in tomllib.loads(block)):
        assert f"MOBILE_{name.upper()}" in VARIABLES
    assert blocks


def test_every_protection_of_memory_and_of_the_door_is_named():
    """The page on security has each setting that bounds something, or lets somebody in."""
    bounds = {"max", "queue", "outbox", "keep", "received", "throttle", "message", "tls", "trusted"}
    doors = {"extra", "allowed", "deliver", "admin"}
    expected = {name for name in VARIABLES if name.split("_")[1].lower() in bounds | doors}
    assert {name for name in expected if name not in SECURITY} == set()


@pytest.mark.parametrize("page", [OPERATIONS, SECURITY], ids=["operations", "security"])
def test_every_command_parses(page):
    """Whether in a block or in a sentence, each is one that `hermes-mobile` takes."""
    blocks = "".join(re.findall(r"^```(?:sh)?\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    lines = re.findall(r"(?:^|&& )hermes-mobile (.*)$", blocks, re.MULTILINE)
    said = re.findall(r"`hermes-mobile ([^`]+)`", page)
    for line in [*lines, *said]:
        command, *arguments = shlex.split(line.partition(" > ")[0])
        assert main.commands[command].make_context(command, arguments, parent=Context(main))
    assert said


def test_every_close_code_has_its_row():
    """Each code of the protocol, each error that may be fatal as a reason, and where none came."""
    cells = [row[0] for row in rows("By close code")]
    closes = {close["code"] for close in CODES["closes"]}
    assert {int(cell.split()[0]) for cell in cells} == closes | {NO_CODE} == {*CloseCode, NO_CODE}
    reasons = {reason for cell in cells for reason in re.findall(r"1008 `(\w+)`", cell)}
    refusals = {error["code"] for error in CODES["errors"] if error["fatal"] != "never"}
    assert reasons == refusals - {ErrorCode.INTERNAL_ERROR}  # which ends in 1011


def test_who_connects_again():
    """What the page says of each code is what clients do by the protocol's table (T3, T4)."""
    stays = {close["code"] for close in CODES["closes"] if not close["reconnect"]}
    told = {int(row[0].split()[0]) for row in rows("By close code") if "stays away" in row[1]}
    assert told == stays


def test_every_event_is_logged():
    """Each line of the log that the pages name is one that the server writes."""
    logged = events()
    named = set(re.findall(r"`([a-z']+(?: [a-z']+)+)`", OPERATIONS + SECURITY))
    commands = ("hermes-mobile ", "systemctl ")
    assert {name for name in named if not name.startswith(commands)} - logged == set()
    for name in ("connection", "reloaded", "stopped", "wake failed", "reload refused"):
        assert name in logged
        assert f"`{name}`" in OPERATIONS
    assert LOST.why == "lost"


async def test_every_metric_and_alert_exists(autojump_clock):
    """As the server exposes them, and as Prometheus is told."""
    async with open_house() as house:
        exposed = exposition.write(house.hub, LoopLag()).decode()
    pages = OPERATIONS + SECURITY
    for metric in re.findall(r"`(hermes_mobile_\w+)`", pages):
        assert f"\n{metric}" in exposed
    groups = yaml.safe_load((DOCS / "deploy" / "alerts.yml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert set(re.findall(r"`(HermesMobile\w+)`", pages)) <= alerts


def test_nginx_waits_longer_than_the_server():
    """Its timeouts are above the time in which the server pings, and finds a phone gone (D5)."""
    settings = Settings()
    for timeout in ("proxy_read_timeout", "proxy_send_timeout"):
        [seconds] = re.findall(rf"{timeout} (\d+)s;", NGINX)
        assert int(seconds) > settings.ping_interval + settings.ping_timeout


def test_proxies_pass_on_the_pages_and_nothing_else():
    """Every file of the HTTP side that a browser loads, and none of what is for the host."""
    [pattern] = re.findall(r"location ~ (\S+) \{", NGINX)
    caddy = (DOCS / "deploy" / "Caddyfile").read_text()
    [paths] = re.findall(r"@pages path (.*)$", caddy, re.MULTILINE)
    matchers = [re.escape(path).replace(r"\*", ".*") for path in paths.split()]
    static = PACKAGE / "http" / "static"
    files = {f"/{file.relative_to(static)}" for file in static.rglob("*") if file.is_file()}
    for path in files - {"/index.html"} | {"/", "/config.json", "/avatar/"}:
        assert re.search(pattern, path), path
        assert any(re.fullmatch(matcher, path) for matcher in matchers), path
    for path in ("/metrics", "/healthz", "/readyz"):
        assert not re.search(pattern, path)
        assert not any(re.fullmatch(matcher, path) for matcher in matchers)
