"""Connections that die on the way."""

from __future__ import annotations

import socket
import struct

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
