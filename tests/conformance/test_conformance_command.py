"""`hermes-mobile conformance`: what it prints and writes, and the exit status it ends with."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import structlog
from click.testing import CliRunner

from hermes_mobile.cli import main
from hermes_mobile.cli.conformance import progress
from hermes_mobile.conformance.run import Outcome, RefusedError, Verdict, catalogue
from hermes_mobile.conformance.vectors import read

URL = "ws://127.0.0.1:8787/ws"
TOKEN = "a-token-that-nobody-guesses"
VECTORS = Path(__file__).parents[1] / "vectors"
DOCS = Path(__file__).parents[2] / "docs" / "conformance.md"


@pytest.fixture
def command(monkeypatch):
    """Run the command in an environment of the given variables."""

    def invoke(*arguments, **environ):
        monkeypatch.setattr(os, "environ", environ)
        return CliRunner().invoke(main, ["conformance", *arguments], prog_name="hermes-mobile")

    yield invoke
    structlog.reset_defaults()


@pytest.fixture
def outcome(monkeypatch):
    """Stands in for a run: the first scenario that is chosen comes out like this, others agree."""
    played = {}

    def set_outcome(first=Outcome.AGREES, error=None, **why):
        async def run(target, scenarios, *, jobs, told):
            played.update(target=target, scenarios=scenarios, jobs=jobs)
            if error is not None:
                raise error
            head, *rest = scenarios
            return [
                Verdict(head, first, 1.25, **why),
                *(Verdict(scenario, Outcome.AGREES, 0.5) for scenario in rest),
            ]

        monkeypatch.setattr("hermes_mobile.cli.conformance.run", run)
        return played

    return set_outcome


def error_of(result, status):
    assert result.exit_code == status
    assert result.stdout == ""
    return result.stderr.splitlines()[-1]


def test_it_lists_what_it_would_play(command):
    """`--list` needs no server, and names each scenario once, with the rules that it proves."""
    lines = command("--list").stdout.splitlines()
    assert len(lines) == len(set(lines)) == len(catalogue())
    assert "D11               exchanges/the same device again replaces the old connection" in lines


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        ("d11", 3),
        ("D1", 3),
        ("cards/*option*", 4),
        ("ping with null", 1),
        ("SHAPES/", 12),
    ],
)
def test_only_what_fits(command, pattern, fitting):
    """`--only` takes a rule, a glob, a part of a name, in any case."""
    listed = command("--list", "--only", pattern).stdout.splitlines()
    assert len(listed) == fitting


def test_reference_only(command):
    """`--reference-only` leaves out what only decisions settle, and keeps what the reference fixes."""
    listed = command("--list", "--reference-only").stdout
    assert "frames/12,001 characters" in listed
    assert "shapes/ready" in listed
    assert "returning/" not in listed
    assert "frames/an integer id is its decimal text" not in listed


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["http://127.0.0.1:8787/ws"],
        ["ws:///ws"],
        ["ws://127.0.0.1:port/ws"],
        [f"{URL}?token={TOKEN}"],
        ["--token", TOKEN, URL],
        ["--token-file", "absent", URL],
        ["--only", "there is no such name", URL],
        ["--jobs", "0", URL],
        ["--junit", "absent/report.xml", URL],
    ],
    ids=" ".join,
)
def test_wrong_usage(command, outcome, arguments):
    """What cannot be played ends with 2 before anything is, and no token is repeated."""
    played = outcome()
    result = command(*arguments, MOBILE_TOKEN="unheard")
    assert error_of(result, 2)
    assert TOKEN not in result.stderr
    assert played == {}


def test_a_token_is_needed(command):
    """It comes from the environment or a file; one that the server would make up is no help."""
    problem = "Error: the token comes from MOBILE_TOKEN or --token-file"
    assert error_of(command(URL), 2) == problem


def test_a_wrong_setting(command):
    """The settings are the server's, and so is what happens when one is wrong."""
    result = command(URL, MOBILE_TOKEN=TOKEN, MOBILE_HELLO_TIMEOUT="soon")
    assert "MOBILE_HELLO_TIMEOUT must be" in error_of(result, 78)


def test_what_the_settings_tell(command, outcome, tmp_path):
    """Tokens and durations of the server; a token file wins over MOBILE_TOKEN."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    played = outcome()
    options = ["--jobs", "2", "--timeout", "3", "--patience", "4", "--reference-only"]
    result = command(
        *options,
        *("--token-file", str(file), URL),
        MOBILE_TOKEN="another-token",
        MOBILE_EXTRA_TOKENS="tablet=bound-token,other-token",
        MOBILE_DELIVER_TOKENS="deliver-token",
        MOBILE_HELLO_TIMEOUT="5",
        MOBILE_TYPING_IDLE="1",
    )
    assert result.exit_code == 0, result.output
    target = played["target"]
    assert (target.token, target.other_token) == (TOKEN, "other-token")
    assert (target.bound_token, target.bound_device) == ("bound-token", "tablet")
    assert (target.deliver_token, target.home_device, target.allow_list) == (
        "deliver-token",
        False,
        False,
    )
    assert (target.hello_timeout, target.typing_idle) == (5, 1)
    assert (target.timeout, target.patience, target.reference_only) == (3, 4, True)
    assert (target.dial.host, target.dial.path, played["jobs"]) == ("127.0.0.1:8787", "/ws", 2)


@pytest.mark.parametrize(
    ("url", "host", "shown"),
    [
        ("wss://agent.example.com/ws", "agent.example.com:443", "wss://agent.example.com:443/ws"),
        ("ws://[::1]", "[::1]:80", "ws://[::1]:80/"),
    ],
)
def test_addresses(command, outcome, url, host, shown):
    """Ports and the path have WebSocket's defaults."""
    played = outcome()
    assert command(url, MOBILE_TOKEN=TOKEN).exit_code == 0
    assert (played["target"].dial.host, str(played["target"].dial)) == (host, shown)


def test_what_differs_is_told(command, outcome):
    """1: a block with name, rule, expected and got, then the count; nothing else, no colour."""
    outcome(Outcome.DIFFERS, expected='{"t": "pong"}', got="nothing within 10 s")
    result = command("--only", "frames/ping with*", URL, MOBILE_TOKEN=TOKEN)
    assert result.exit_code == 1
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "differs  D24  frames/ping with a time",
        '  expected  {"t": "pong"}',
        "  got       nothing within 10 s",
        "",
        "8 scenarios: 7 agree, 1 differ, 0 skipped",
    ]


def test_what_was_skipped_is_told(command, outcome):
    """0: what could not be played is no difference, and the reason is said."""
    outcome(Outcome.SKIPPED, reason="the agent does not do this")
    result = command("--only", "cards/*", URL, MOBILE_TOKEN=TOKEN)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "  1 skipped: the agent does not do this"


def test_junit(command, outcome, tmp_path):
    """`--junit` writes one suite that any CI reads, whatever the server had sent."""
    outcome(Outcome.DIFFERS, expected="<&>", got="\N{SNOWMAN}")
    file = tmp_path / "report.xml"
    command("--only", "D24", "--junit", str(file), URL, MOBILE_TOKEN=TOKEN)
    suite = ET.fromstring(file.read_text("utf-8"))  # noqa: S314 - our own
    cases = suite.findall("testcase")
    assert suite.tag == "testsuite"
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (
        f"{len(cases)}",
        "1",
        "0",
    )
    first = cases[0]
    assert (first.get("classname"), first.get("name"), first.get("time")) == (
        "conformance.frames",
        "typing",
        "1.250",
    )
    assert [failure.get("message") for failure in suite.iter("failure")] == [
        "expected <&>, got \N{SNOWMAN}"
    ]


def test_json(command, outcome, tmp_path):
    """`--json` has the fields that docs/conformance.md describes, and no others."""
    outcome(Outcome.SKIPPED, reason="no")
    file = tmp_path / "report.json"
    command("--only", "D24", "--json", str(file), URL, MOBILE_TOKEN=TOKEN)
    told = json.loads(file.read_text())
    section = DOCS.read_text().split("\n## The JSON report\n")[1].split("\n## ")[0]
    described = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    results = told["results"]
    assert described == told.keys() | {name for result in results for name in result}
    assert (told["url"], told["summary"]["skipped"]) == (URL, 1)
    assert results[0] == {
        "group": "frames",
        "name": "typing",
        "rules": ["D24"],
        "reference": True,
        "outcome": "skipped",
        "expected": "",
        "got": "",
        "reason": "no",
        "seconds": 1.25,
    }


def test_a_refused_token(command, outcome):
    """4, as for `send`: without a token nothing can be said about the server."""
    outcome(error=RefusedError("the server refuses the token: auth_failed"))
    result = command(URL, MOBILE_TOKEN=TOKEN)
    assert error_of(result, 4) == "Error: the server refuses the token: auth_failed"


def test_no_server(command):
    """5, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = command(f"ws://127.0.0.1:{port}/ws", MOBILE_TOKEN=TOKEN)
    assert "Connection refused" in error_of(result, 5)


def test_progress(capsys):
    """On a terminal one line of standard error shows how far it is; it is cleared by itself."""
    tell = progress(2)
    for scenario in catalogue()[:2]:
        tell(Verdict(scenario, Outcome.AGREES, 0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "\r\x1b[K1 of 2  hello/all fields\r\x1b[K2 of 2  hello/a token is enough"


def test_the_docs_name_every_group():
    """docs/conformance.md has a line on each group of scenarios, and on none that is not there."""
    section = DOCS.read_text().split("\n## What is played\n")[1].split("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert described == list(dict.fromkeys(scenario.group for scenario in catalogue()))


def test_vectors_beside_the_package(monkeypatch, tmp_path):
    """A wheel has the vectors inside; a checkout has one copy, with the tests."""
    assert read("codes.json") == json.loads((VECTORS / "codes.json").read_text())
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "codes.json").write_text("[1]")
    monkeypatch.setattr("hermes_mobile.conformance.vectors.files", lambda package: tmp_path)
    assert read("codes.json") == [1]
