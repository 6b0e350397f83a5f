"""A server that runs out of descriptors, and has some again."""

from __future__ import annotations

import resource
from contextlib import AsyncExitStack

import pytest

pytestmark = pytest.mark.slow
ROOM = 10
"""Connections for which there are descriptors."""


async def test_accepting_goes_on_when_there_are_descriptors_again(serve):
    """Who is there is served all the time, who came in vain at first in the end; one log line.

    Messages: every echo, once, in order, amid the shortage and after it. Connections: the witness and
    the early ones live until they leave, and the late ones are ready then, none was refused.
    Descriptors: never above the limit, and as before in the end.
    """
    server = serve()
    pid = server.process.pid
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    async with server.connect("witness") as witness, AsyncExitStack() as late:
        idle = server.descriptors
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (idle + ROOM, most))
        async with AsyncExitStack() as early:
            callers = [
                await early.enter_async_context(server.connect(f"early-{number}"))
                for number in range(ROOM)
            ]
            waiting = [await late.enter_async_context(server.call()) for _ in range(ROOM)]
            await server.wait_logged("cannot accept", level="error")
            for round_ in range(20):
                for caller in (witness, *callers):
                    await echo(caller, f"early {round_}")
            assert server.descriptors == idle + ROOM
        for number, caller in enumerate(waiting):
            await caller.upgrade()
            await caller.hello(server.token, f"late-{number}")
            assert (await caller.expect("ready"))["session"] == f"mobile:late-{number}"
            await echo(caller, "late")
        await echo(witness, "late")
    ends = [await server.wait_logged("connection", device=f"late-{n}") for n in range(ROOM)]
    assert {line["end"] for line in ends} == {"lost"}  # they left without a word
    assert server.descriptors <= idle
    events = [line["event"] for line in server.log if line["level"] != "info"]
    assert events == ["cannot accept"]


async def echo(caller, text: str) -> None:
    """The next message is the answer, and no other."""
    await caller.say(text, text)
    assert (await caller.expect("message"))["text"] == text
