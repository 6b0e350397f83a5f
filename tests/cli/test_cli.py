"""The commands: what they print, and the exit status they end with."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, TypeAlias

import pytest
import structlog
import trio
from attrs import define, field
from click.testing import CliRunner, Result

from hermes_mobile import __version__
from hermes_mobile.agents.demo import DemoAgent
from hermes_mobile.cli import main
from hermes_mobile.server.app import Phase
from hermes_mobile.server.hub import Address, Hub
from hermes_mobile.server.listeners import ListenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from hermes_mobile.agents import Agent
    from hermes_mobile.server.app import Companion
    from hermes_mobile.server.listeners import Passed
    from hermes_mobile.server.settings import Settings

TOKEN = "a-token-that-nobody-guesses"


@define
class FakeServer:
    """Stands in for `app.serve`: announces itself, and ends as it was told."""

    ending: signal.Signals | BaseException = signal.SIGTERM
    served: list[tuple[Settings, Agent]] = field(factory=list)

    async def __call__(
        self,
        settings: Settings,
        agent: Agent,
        announce: Callable[[Phase, Hub], None],
        *,
        passed: Passed,
        reload: Callable[[Hub], Awaitable[None]],
        beside: Sequence[Companion],
    ) -> int:
        self.served.append((settings, agent))
        if isinstance(self.ending, BaseException):
            raise self.ending
        async with trio.open_nursery() as turns:
            hub = Hub(settings, agent, turns)
            hub.address = Address("127.0.0.1", 8787, "/ws")
            for phase in Phase:
                announce(phase, hub)
        return self.ending


Run: TypeAlias = "Callable[..., Result]"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr("hermes_mobile.server.app.serve", fake)
    return fake


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the command in an environment of the given variables, without HTTP unless they say so."""

    def invoke(*arguments: str, **environ: str) -> Result:
        monkeypatch.setattr(os, "environ", {"MOBILE_HTTP_PORT": "off"} | environ)
        return CliRunner().invoke(main, arguments, prog_name="hermes-mobile")

    yield invoke
    structlog.reset_defaults()


def error_line(result: Result, status: int) -> str:
    assert result.exit_code == status
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", [[], *([name] for name in main.commands)])
def test_every_command_explains_itself(run: Run, command: list[str]) -> None:
    """`--help` ends in examples, and `--version` tells the version of the distribution."""
    help_text = run(*command, "--help")
    assert help_text.exit_code == 0
    assert re.search(r"Examples:\n +(\S+=\S+.* )?hermes-mobile .*\n", help_text.stdout)
    version = run(*command, "--version")
    assert (version.exit_code, version.stdout) == (0, f"hermes-mobile {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [["fly"], ["serve", "now"], ["serve", "--token", TOKEN], ["check", "--config"]],
)
def test_wrong_usage(run: Run, arguments: list[str]) -> None:
    """An unknown command, argument or option ends with 2."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_token_prints_a_fresh_one(run: Run) -> None:
    """Each run prints another token, of a strength that nobody guesses."""
    first, second = (run("token").stdout for _ in range(2))
    assert re.fullmatch(r"[\w-]{43}\n", first)
    assert first != second


def test_check_shows_the_settings(run: Run, tmp_path: Path) -> None:
    """`check` lists each variable with its value and source, masks secrets, and warns (D9)."""
    config = tmp_path / "mobile.toml"
    config.write_text(f"allowed_devices = ['tel-1']\nextra_tokens = ['tablet={TOKEN}2']\n")
    result = run("check", "--config", str(config), MOBILE_TOKEN=TOKEN)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["MOBILE_TOKEN", "****", "environment"] in rows
    assert ["MOBILE_EXTRA_TOKENS", "tablet=****", str(config)] in rows
    assert ["MOBILE_PORT", "8787", "default"] in rows
    assert "warning: MOBILE_ALLOWED_DEVICES lacks tablet" in result.stdout
    assert TOKEN not in result.stdout


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"MOBILE_PORT": "high"}, "MOBILE_PORT must be"),
        ({"MOBILE_CONFIG": "/absent.toml"}, "cannot be read"),
        ({"MOBILE_AGENT": "nobody"}, "agent 'nobody'"),
        ({"MOBILE_AGENT": "acp"}, "MOBILE_AGENT_COMMAND must be set for the agent acp"),
        ({"MOBILE_AGENT": "hermes_mobile.absent:Agent"}, "cannot be loaded"),
        ({"MOBILE_HOST": "::"}, "MOBILE_TOKEN must be set"),
        ({"NOTIFY_SOCKET": "/run/notify"}, "MOBILE_TOKEN must be set"),
    ],
)
def test_a_wrong_configuration(
    run: Run, server: FakeServer, command: str, environ: dict[str, str], problem: str
) -> None:
    """What cannot work is told in one line, with 78, by `check` as by `serve`."""
    assert problem in error_line(run(command, **environ), 78)
    assert not server.served


def test_serve_says_where_it_listens(run: Run, server: FakeServer) -> None:
    """The banner on standard output has the address and the agent, and no configured token."""
    result = run("serve", MOBILE_TOKEN=TOKEN, MOBILE_ALLOWED_DEVICES="tel-1,tel-2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"hermes-mobile {__version__} listens on ws://127.0.0.1:8787/ws",
        "  agent    demo",
        "  devices  2 allowed",
    ]
    ((settings, agent),) = server.served
    assert settings.token == TOKEN
    assert isinstance(agent, DemoAgent)


def test_serve_shows_a_made_up_token(run: Run, server: FakeServer) -> None:
    """D36: it stands on standard output, with a hello frame to paste, and not in the log."""
    result = run("serve")
    ((settings, _),) = server.served
    assert settings.token is not None
    hello = json.loads(result.stdout.splitlines()[-1])
    assert hello["t"] == "hello"
    assert hello["token"] == settings.token
    assert f"  token    {settings.token}  " in result.stdout
    assert settings.token not in result.stderr
    assert json.loads(result.stderr)["warning"].startswith("MOBILE_TOKEN is not set")


def test_serve_shows_the_console(run: Run, server: FakeServer) -> None:
    """The banner links the console, with a made-up token in the fragment, which no server sees."""
    result = run("serve", MOBILE_HTTP_PORT="0")
    ((settings, _),) = server.served
    pattern = r"^  console  (http://127\.0\.0\.1:\d+/#token=.+)$"
    (link,) = re.findall(pattern, result.stdout, re.MULTILINE)
    assert link.endswith(f"#token={settings.token}")


def test_a_token_of_the_operator_is_in_no_link(run: Run, server: FakeServer) -> None:
    """D36: only a token that was made up for the run is shown."""
    result = run("serve", MOBILE_HTTP_PORT="0", MOBILE_TOKEN=TOKEN)
    assert re.search(r"^  console  http://127\.0\.0\.1:\d+/$", result.stdout, re.MULTILINE)


def test_an_http_port_that_is_taken(run: Run, server: FakeServer) -> None:
    """It is told in one line that names its own variable, with 78, before anything is announced."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", MOBILE_TOKEN=TOKEN, MOBILE_HTTP_PORT=f"{port}")
    problem = f"Error: MOBILE_HTTP_PORT: port {port} of 127.0.0.1 is taken"
    assert error_line(result, 78) == problem
    assert not server.served


def test_the_agent_option_wins(run: Run, server: FakeServer) -> None:
    """`--agent` is taken instead of MOBILE_AGENT, and shown."""
    result = run("serve", "--agent", "demo", MOBILE_TOKEN=TOKEN, MOBILE_AGENT="nobody")
    assert result.exit_code == 0
    assert "  agent    demo" in result.stdout
    assert server.served[0][0].agent == "demo"


def test_the_agent_command_option_wins(run: Run, server: FakeServer) -> None:
    """`--agent-command` is taken instead of MOBILE_AGENT_COMMAND; a wrong one is wrong usage."""
    result = run("serve", "--agent-command", "a 'b c'", MOBILE_AGENT_COMMAND="d")
    assert result.exit_code == 0
    assert str(server.served[0][0].agent_command) == "a 'b c'"
    result = run("serve", "--agent-command", "a 'b")
    assert result.exit_code == 2
    assert "must be a program and its arguments" in result.stderr


def test_an_agent_in_the_working_directory(
    run: Run, server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--agent module:Class` finds a module that lies where the command is run."""
    (tmp_path / "home_made.py").write_text(
        "from hermes_mobile.agents.demo import DemoAgent\nclass Mine(DemoAgent): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    result = run("serve", "--agent", "home_made:Mine", MOBILE_TOKEN=TOKEN)
    assert result.exit_code == 0, result.stderr
    assert type(server.served[0][1]).__name__ == "Mine"


@pytest.mark.parametrize(
    ("ending", "status"),
    [(signal.SIGTERM, 0), (signal.SIGINT, 130), (KeyboardInterrupt(), 130)],
)
def test_how_serve_is_stopped(
    run: Run, server: FakeServer, ending: signal.Signals | BaseException, status: int
) -> None:
    """SIGTERM ends with 0 and Ctrl-C with 130, without a word."""
    server.ending = ending
    result = run("serve", MOBILE_TOKEN=TOKEN)
    assert (result.exit_code, result.stderr.strip()) == (status, "")


def test_a_port_that_cannot_be_had(run: Run, server: FakeServer) -> None:
    """A port that is taken, or not allowed, is a wrong configuration in one line."""
    server.ending = ListenError("MOBILE_PORT: port 8787 of 127.0.0.1 is taken")
    result = run("serve", MOBILE_TOKEN=TOKEN)
    assert error_line(result, 78) == "Error: MOBILE_PORT: port 8787 of 127.0.0.1 is taken"


def test_a_socket_that_cannot_be_served(run: Run, server: FakeServer) -> None:
    """What systemd passes under a name that means nothing is a wrong configuration as well."""
    passed = {"LISTEN_PID": f"{os.getpid()}", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "www"}
    problem = error_line(run("serve", MOBILE_TOKEN=TOKEN, **passed), 78)
    assert problem.startswith("Error: LISTEN_FDNAMES: a passed socket is called 'www'")
    assert not server.served


def start(*arguments: str, **environ: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}}
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "hermes_mobile", *arguments],
        env=clean | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_process_reports_a_wrong_configuration() -> None:
    """As a process too: status 78, one line on standard error, no traceback."""
    output, errors = start("serve", MOBILE_PORT="high").communicate(timeout=30)
    assert output == ""
    assert errors.startswith("Error: MOBILE_PORT must be a whole number")
    assert errors.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_process_obeys_signals(number: signal.Signals, status: int) -> None:
    """A started server says where it listens, and a signal ends it with the promised status."""
    with start("serve", MOBILE_TOKEN=TOKEN, MOBILE_PORT="0", MOBILE_HTTP_PORT="0") as process:
        assert process.stdout is not None
        assert "listens on ws://127.0.0.1:" in process.stdout.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == status
    assert "Traceback" not in errors
