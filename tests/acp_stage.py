"""Programs that speak ACP, played by a test: in memory, line by line, in virtual time."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import trio
from trio.testing import memory_stream_one_way_pair

from hermes_mobile.agents import AgentSettings
from hermes_mobile.agents.acp import AcpAgent
from hermes_mobile.agents.acp.process import Program
from house import NEVER, open_house

CAPABLE = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
}


class Actor:
    """One life of a program, from its own side; messages are dictionaries."""

    def __init__(self) -> None:
        self._their_stdin, self._stdin = memory_stream_one_way_pair()
        self._stdout, self._their_stdout = memory_stream_one_way_pair()
        self.stderr, self._their_stderr = memory_stream_one_way_pair()
        self._exited = trio.Event()
        self._status = 0
        self._received = b""
        self.program = Program(
            self._their_stdin, self._their_stdout, self._their_stderr, self._wait
        )

    async def _wait(self) -> int:
        await self._exited.wait()
        return self._status

    def exit(self, status: int = 1) -> None:
        """End, as a process does: its streams end, and its status is known."""
        self._status = status
        self._exited.set()
        self._stdin.close()
        self._stdout.close()
        self.stderr.close()

    async def receive(self) -> dict[str, Any]:
        """The next message of the client."""
        with trio.fail_after(NEVER):
            while b"\n" not in self._received:
                received = await self._stdin.receive_some()
                assert received, "the client has closed our standard input"
                self._received += received
        line, self._received = self._received.split(b"\n", 1)
        message = json.loads(line)
        assert message.pop("jsonrpc") == "2.0"
        return message

    async def expect(self, method: str) -> dict[str, Any]:
        """The next message, which is a request or notification of `method`."""
        message = await self.receive()
        assert message.get("method") == method, message
        return message

    async def send(self, **message: Any) -> None:
        await self.send_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def send_line(self, line: bytes) -> None:
        await self._stdout.send_all(line + b"\n")

    async def answer(self, request: dict[str, Any], **result: Any) -> None:
        await self.send(id=request["id"], result=result)

    async def fail(self, request: dict[str, Any], code: int, message: str = "no") -> None:
        await self.send(id=request["id"], error={"code": code, "message": message})

    async def introduce(self, *, name: str = "actor", **capabilities: Any) -> dict[str, Any]:
        """Answer `initialize`; returns what it said."""
        request = await self.expect("initialize")
        await self.answer(
            request,
            protocolVersion=1,
            agentInfo={"name": name, "version": "1"},
            agentCapabilities=capabilities or CAPABLE,
            authMethods=[{"id": "terminal", "type": "terminal"}, {"id": "key", "name": "Key"}],
        )
        return request["params"]

    async def open_session(self, id: str = "s1") -> dict[str, Any]:
        """Answer `session/new`; returns what it said."""
        request = await self.expect("session/new")
        await self.answer(request, sessionId=id)
        return request["params"]

    async def update(self, id: str = "s1", **update: Any) -> None:
        await self.send(method="session/update", params={"sessionId": id, "update": update})

    async def say(self, text: str, id: str = "s1", **more: Any) -> None:
        content = {"type": "text", "text": text}
        await self.update(id, sessionUpdate="agent_message_chunk", content=content, **more)

    async def end_turn(self, prompt: dict[str, Any], reason: str = "end_turn") -> None:
        await self.answer(prompt, stopReason=reason)


class Stage:
    """Where programs are started."""

    def __init__(self) -> None:
        self._started, self._starts = trio.open_memory_channel[Actor](inf)
        self.closed: list[float] = []
        """When each life ended."""

    @asynccontextmanager
    async def open_program(self, settings: AgentSettings):
        actor = Actor()
        self._started.send_nowait(actor)
        try:
            yield actor.program
        finally:
            self.closed.append(trio.current_time())

    async def actor(self) -> Actor:
        """The next program that is started."""
        with trio.fail_after(NEVER):
            return await self._starts.receive()


@asynccontextmanager
async def open_stage(directory, **settings: Any):
    """A house with the ACP agent, whose programs the test plays; nothing is kept on disk.

    A virtual clock does not wait for threads, and so not for disks.
    """
    stage = Stage()
    agent = AcpAgent(
        AgentSettings(command=("actor",), directory=directory),
        stage.open_program,
    )
    async with open_house(agent, **settings) as house:
        yield house, stage
