"""Where an agent may dial in: what is opened for it, and what it takes."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from attrs import evolve

from hermes_mobile.server.agent_line import AgentSide
from hermes_mobile.server.listeners import ListenError, Passed, open_listeners
from hermes_mobile.server.settings import Settings

LINK = Settings(token="t", port=0, agent="link")
TOKEN = "the-token-of-the-agent"


async def opened(settings: Settings, passed: Passed) -> list[str]:
    """What an agent may dial, in words."""
    async with open_listeners(settings, passed) as listeners:
        return [
            "port" if sock.family == socket.AF_INET else Path(sock.getsockname()).name
            for listener in listeners
            for sock in listener.sockets
            if isinstance(getattr(listener.serve_peer, "__self__", None), AgentSide)
        ]


async def refused(settings: Settings, passed: Passed | None = None) -> str:
    with pytest.raises(ListenError) as error:
        await open_listeners(settings, passed or {}).__aenter__()
    return str(error.value)


async def test_sockets_of_the_settings(tmp_path: Path) -> None:
    """A Unix socket, a port, or both; the port is on the loopback address."""
    path = tmp_path / "agent.sock"
    assert await opened(evolve(LINK, agent_socket=path), {}) == ["agent.sock"]
    port = evolve(LINK, agent_port=0, agent_token=TOKEN)
    assert await opened(port, {}) == ["port"]
    assert await opened(evolve(port, agent_socket=path), {}) == ["agent.sock", "port"]
    assert not path.exists()


async def test_nobody_else_may_open_the_socket(tmp_path: Path) -> None:
    """The file has mode 0600."""
    path = tmp_path / "agent.sock"
    async with open_listeners(evolve(LINK, agent_socket=path), {}):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_socket_that_was_passed(tmp_path: Path) -> None:
    """It stands in for the path; one that is no Unix socket needs the token."""
    settings = evolve(LINK, agent_socket=tmp_path / "agent.sock")
    with socket.socket(socket.AF_UNIX) as passed:
        passed.bind(str(tmp_path / "passed.sock"))
        assert await opened(settings, {"agent": [passed]}) == ["passed.sock"]
    with socket.create_server(("127.0.0.1", 0)) as passed:
        message = await refused(settings, {"agent": [passed]})
        assert message == "MOBILE_AGENT_TOKEN must be set for an agent that comes by TCP"
        settings = evolve(settings, agent_token=TOKEN)
        assert await opened(settings, {"agent": [passed]}) == ["port"]


async def test_only_for_the_link(tmp_path: Path) -> None:
    """With another agent nothing is opened."""
    settings = evolve(LINK, agent="demo", agent_socket=tmp_path / "agent.sock")
    assert await opened(settings, {}) == []


async def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    """Nowhere to dial, a port that is taken, a path that is in use: a line that names the setting."""
    assert await refused(LINK) == (
        "MOBILE_AGENT_SOCKET or MOBILE_AGENT_PORT must be set for --agent link"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = await refused(evolve(LINK, agent_port=port, agent_token=TOKEN))
        assert message == f"MOBILE_AGENT_PORT: cannot listen on port {port}: Address already in use"
    path = tmp_path / "agent.sock"
    path.touch()
    assert (await refused(evolve(LINK, agent_socket=path))).startswith("MOBILE_AGENT_SOCKET: ")
