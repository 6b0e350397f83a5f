"""Connections that die on the way, and a server that runs out of descriptors."""

from __future__ import annotations

import resource
import socket
import struct
from contextlib import AsyncExitStack

import pytest

pytestmark = pytest.mark.slow
QUICK_HEARTBEAT = {"MOBILE_PING_INTERVAL": 0.5, "MOBILE_PING_TIMEOUT": 0.5}


@pytest.mark.parametrize("death", ["silent", "noticed", "reset"])
async def test_a_reply_that_died_with_its_connection_arrives_on_the_next(serve, death):
    """D32, D19: it was written, and never read; and a second copy of the question is not asked."""
    server = serve(**(QUICK_HEARTBEAT if death == "noticed" else {}))
    async with server.connect("phone") as dying:
        await dying.say("m1", "Did you get this?")
        await dying.wait_received(b"Did you get this?")
        match death:
            case "silent":
                pass
            case "noticed":
                await server.wait_logged("connection", device="phone", end="lost")
            case "reset":
                linger = struct.pack("ii", 1, 0)
                dying.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                dying.socket.close()
        async with server.connect("phone") as caller:
            message = await caller.receive()
            assert message is not None
            assert (message["t"], message["text"]) == ("message", "Did you get this?")
            await caller.say("m1", "Did you get this?")
            await caller.say("m2", "And this?")
            assert (await caller.expect("message"))["text"] == "And this?"
        if death == "silent":
            assert (await dying.expect("message"))["id"] == message["id"]
            assert await dying.receive_end() == (4001, "replaced")


async def test_accepting_goes_on_when_there_are_descriptors_again(serve):
    """Who is there is served all the time; who came in vain at first is served in the end."""
    server = serve()
    pid = server.process.pid
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    async with server.connect("witness") as witness, AsyncExitStack() as late:
        idle = server.descriptors
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (idle + 10, most))
        async with AsyncExitStack() as early:
            for _ in range(10):
                await early.enter_async_context(server.connect(None))
            waiting = [await late.enter_async_context(server.call()) for _ in range(10)]
            await server.wait_logged("cannot accept", level="error")
            await witness.say("m1", "Still there?")
            assert (await witness.expect("message"))["text"] == "Still there?"
            assert server.descriptors == idle + 10
        for number, caller in enumerate(waiting):
            await caller.upgrade()
            await caller.hello(server.token, f"late-{number}")
            assert (await caller.expect("ready"))["session"] == f"mobile:late-{number}"
    for number in range(10):
        await server.wait_logged("connection", device=f"late-{number}")
    assert server.descriptors <= idle
