"""A thousand uploads that are begun and never finished."""

from __future__ import annotations

import base64
import json
from contextlib import AsyncExitStack

import pytest
import trio

from census import take_census
from street import PATIENCE, TEXT, masked

pytestmark = pytest.mark.slow
UPLOADS = 1000
CHUNK = bytes(range(256)) * 512
"""128 KiB: the first half of each file."""
SPARE_BYTES = 16 << 20
"""What the allocator may keep for itself."""


async def test_a_thousand_half_uploads(serve):
    """D17: each costs what was sent of it, and all of that is given back when they leave.

    Half of them have sent one of two chunks, the others half a chunk. Messages: a device gets its
    echoes and its own file of two chunks through, once and in order, while they wait and after they
    left. Connections: all of them live until they leave. Descriptors, tasks and memory: as before.
    """
    server = serve("--agent", "census:CensusAgent", MOBILE_PING_INTERVAL=600)  # nobody answers
    frame = masked(TEXT, json.dumps(chunk(0)).encode())
    sent = UPLOADS // 2 * (len(CHUNK) + len(frame) // 2)
    idle = await take_census(server)
    async with server.connect("witness") as witness:
        await upload(witness, "before")
        descriptors = server.descriptors
        async with AsyncExitStack() as stack:
            callers = [
                await stack.enter_async_context(server.connect(f"phone-{number}"))
                for number in range(UPLOADS)
            ]
            connected = server.resident_bytes
            for caller in callers[::2]:
                await caller.send(frame[: len(frame) // 2])
            for caller in callers[1::2]:
                await caller.send(frame)
                await caller.send_frame({"t": "ping", "ts": 1})
                assert await caller.receive() == {"t": "pong", "ts": 1}
            await upload(witness, "amid")
            assert server.descriptors == descriptors + UPLOADS
            assert sent < server.resident_bytes - connected
            await wait_resident(server, connected + sent + SPARE_BYTES)
        await wait_resident(server, connected + SPARE_BYTES)
        await upload(witness, "after")
    after = await take_census(server, idle)
    assert (after.tasks, after.descriptors) == (idle.tasks, idle.descriptors)


async def wait_resident(server, most: int) -> None:
    """Wait until the server holds no more than `most` bytes."""
    with trio.fail_after(PATIENCE):
        while server.resident_bytes > most:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.1)


def chunk(part: int, id: str = "f1") -> dict[str, object]:
    data = base64.b64encode(CHUNK).decode()
    return {"t": "media", "id": id, "kind": "document", "part": part, "parts": 2, "data": data}


async def upload(caller, id: str) -> None:
    """A file of two chunks arrives, and an echo after it."""
    for part in (0, 1):
        await caller.send_frame(chunk(part, id))
    assert f"size: {2 * len(CHUNK)} bytes" in (await caller.expect("message"))["text"]
    await caller.say(f"{id}, in words", id)
    assert (await caller.expect("message"))["text"] == id
