"""The agent link with real processes on both sides: the agent of the page, and one that is killed."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from street import PATIENCE, TESTS, environment, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "agent-link.md"


class AgentProcess:
    """A program that dials in; its standard output tells what it does."""

    def __init__(self, program: Path, **settings: object) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - a program of ours
            [sys.executable, program],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def wait_for(self, state: str) -> None:
        """Wait until it says that it has reached `state`."""
        assert self.process.stdout is not None
        with trio.fail_after(PATIENCE):
            line = await trio.to_thread.run_sync(self.process.stdout.readline)
        assert line == f"{state}\n"

    def kill(self) -> None:
        """End it as the kernel does when memory is short."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def agent(program: Path, **settings: object) -> Iterator[AgentProcess]:
    started = AgentProcess(program, **settings)
    try:
        yield started
    finally:
        started.close()


def names_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


@pytest.mark.parametrize("state", ["ready", "work", "ask", "file"])
async def test_killed_in_each_state(serve, path: Path, state: str) -> None:
    """An agent killed idle, in a turn, at a card, in a file: that turn fails, and can be sent again."""
    server = serve("--agent", "link", MOBILE_AGENT_SOCKET=path, MOBILE_AGENT_WAIT=20)
    async with server.connect("phone") as phone, server.connect("witness") as witness:
        with agent(TESTS / "mortal.py", MOBILE_AGENT_SOCKET=path) as first:
            await first.wait_for("ready")
            if state != "ready":
                await phone.say("m1", state)
                await first.wait_for(state)
            if state == "ask":
                await phone.expect("prompt")
            first.kill()
        await server.wait_logged("agent link", end="left")
        await witness.say("w1", "meanwhile")
        with agent(TESTS / "mortal.py", MOBILE_AGENT_SOCKET=path) as second:
            await second.wait_for("ready")
            assert (await witness.expect("message"))["text"] == "meanwhile"
            if state == "ask":
                assert (await phone.expect("prompt_done"))["expired"]
            if state != "ready":
                error = await phone.expect("error")
                assert (error["code"], error["id"], error["fatal"]) == (
                    "internal_error",
                    "m1",
                    False,
                )
            await phone.say("m1", "again")
            assert (await phone.expect("message"))["text"] == "again"
        assert phone.closed is None
        assert witness.closed is None


async def test_nobody_comes_back(serve, path: Path) -> None:
    """Without an agent a message waits for its time, and can then be sent again."""
    server = serve("--agent", "link", MOBILE_AGENT_SOCKET=path, MOBILE_AGENT_WAIT=0.2)
    async with server.connect() as phone:
        await phone.say("m1", "hello")
        assert (await phone.expect("error"))["id"] == "m1"
        with agent(TESTS / "mortal.py", MOBILE_AGENT_SOCKET=path) as late:
            await late.wait_for("ready")
            await phone.say("m1", "hello")
            assert (await phone.expect("message"))["text"] == "hello"


async def test_the_agent_of_the_page(serve, path: Path, tmp_path: Path) -> None:
    """The program in docs/agent-link.md works, over a restart of the server, until it is replaced."""
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    echo = tmp_path / "echo.py"
    echo.write_text(program)
    settings = {"MOBILE_AGENT_SOCKET": path, "MOBILE_AGENT_TOKEN": "the-token-of-the-agent"}
    with agent(echo, **settings) as running:
        for _ in range(2):
            server = serve("--agent", "link", **settings, MOBILE_SHUTDOWN_GRACE=0)
            async with server.connect() as phone:
                await phone.say("m1", "one two three")
                assert (await phone.expect("message", final=True))["text"] == "one two three"
                await phone.say("m2", "$ ls")
                card = await phone.expect("prompt")
                assert card["command"] == "ls"
                await phone.send_frame(
                    {"t": "prompt", "prompt_id": card["id"], "option_id": "deny"}
                )
                assert (await phone.expect("message"))["text"] == "You say deny."
                await phone.say("m3", "$ ls")
                await phone.expect("prompt")
                await phone.say("m4", "/stop")
                await phone.expect("message", text="Stopped: 1 running, 0 waiting.")
            server.terminate()
            assert server.wait() == 0
            assert names_in(tmp_path) == ["echo.py"]  # the socket went with its server
        server = serve("--agent", "link", **settings)
        await server.wait_logged("agent connected", name="echo")
        with agent(echo, **settings):
            with trio.fail_after(PATIENCE):
                status = await trio.to_thread.run_sync(running.process.wait)
            assert status == 0
            assert running.process.stderr is not None
            assert running.process.stderr.read() == ""


async def test_a_port_with_a_token(serve) -> None:
    """The agent may come by a port of the loopback address, and only with the token."""
    token = "the-token-of-the-agent"
    port = free_port()
    serve("--agent", "link", MOBILE_AGENT_PORT=port, MOBILE_AGENT_TOKEN=token)
    for given, answer in ((token, b'{"t":"ready"'), ("other", b'{"t":"goodbye"')):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as link:
            link.sendall(b'{"t":"hello","v":1,"token":"%s"}\n' % given.encode())
            assert link.makefile("rb").readline().startswith(answer)
