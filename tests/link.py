"""The agent's side of the link for tests: JSON lines on a socket pair, messages as dictionaries."""

from __future__ import annotations

import json
import socket
from math import inf
from typing import Any

import trio

from hermes_mobile.agents.link import LinkAgent
from hermes_mobile.server.agent_line import AgentSide
from hermes_mobile.server.stream import SocketStream
from house import NEVER, House, open_house

WAIT = 60.0
"""Seconds that turns wait for an agent."""


def linked_house(**settings: Any):
    """A house whose agent is to dial in."""
    return open_house(LinkAgent(WAIT), **settings)


class MemoryLine:
    """An agent's connection in memory: the server's side of it, and the test's."""

    def __init__(self) -> None:
        self.say, self._said = trio.open_memory_channel[bytes](inf)
        self._told, self.hear = trio.open_memory_channel[dict[str, Any]](0)

    async def receive(self) -> bytes | None:
        try:
            return await self._said.receive()
        except trio.EndOfChannel:
            return None

    async def send(self, message: bytes) -> None:
        await self._told.send(json.loads(message))


class Dialler:
    """A program that dials in, or tries to."""

    def __init__(self, house: House, address: str = "unix", side: AgentSide | None = None) -> None:
        ours, theirs = socket.socketpair()
        if house.send_buffer is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, house.send_buffer)
        stream = SocketStream(ours, house.hub.settings.write_timeout)
        side = side or AgentSide()
        house.nursery.start_soon(side.serve, house.hub, stream, address)
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        house.peers.append(self)  # type: ignore[arg-type] - to be closed with the house
        self.ready: dict[str, Any] = {}
        self._received = bytearray()

    async def send(self, *messages: dict[str, Any] | bytes) -> None:
        """Send messages; bytes go as they are."""
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            await self.stream.send_all(data)

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the server has closed."""
        with trio.fail_after(NEVER):
            while (end := self._received.find(b"\n")) < 0:
                try:
                    data = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    return None
                if not data:
                    return None
                self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return json.loads(line)

    async def expect(self, t: str, **fields: Any) -> dict[str, Any]:
        """The next message of type `t` with `fields`, whatever passes before it."""
        passed = []
        while (message := await self.receive()) is not None:
            if message["t"] == t and fields.items() <= message.items():
                return message
            passed.append(message)
        raise AssertionError(f"closed before {t} {fields}: {passed}")

    async def ask(self, t: str, id: str, **fields: Any) -> dict[str, Any]:
        """Make a request, and return its answer."""
        await self.send({"t": t, "id": id, **fields})
        while (message := await self.receive()) is not None:
            if message["t"] in {"done", "error"} and message.get("id") == id:
                return message
        raise AssertionError(f"closed before the answer to {id}")

    async def turn(self) -> str:
        """The id of the next turn."""
        return (await self.expect("turn"))["turn"]

    async def rest(self) -> list[dict[str, Any]]:
        """All that still comes before the server closes."""
        messages = []
        while (message := await self.receive()) is not None:
            messages.append(message)
        return messages

    async def crash(self) -> None:
        """End without a word, as a process that was killed does."""
        await self.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()


async def dial(house: House, **hello: Any) -> Dialler:
    """An agent that is ready."""
    agent = Dialler(house)
    await agent.send({"t": "hello", "v": 1, **hello})
    ready = await agent.receive()
    assert ready is not None
    assert ready["t"] == "ready", ready
    agent.ready = ready
    return agent
