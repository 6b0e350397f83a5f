"""Ten thousand connections come and go, and leave nothing behind in the server's process."""

from __future__ import annotations

import socket
import struct
from itertools import count

import pytest
import trio

from census import take_census
from street import CLOSE, masked

pytestmark = pytest.mark.slow
SOURCES = [f"127.0.0.{n}" for n in range(2, 10)]
WARM_UP = 1_000
CYCLES = 10_000
SPARE_OBJECTS = 100
"""One object left per hundred connections would be found; a few belong to the counting itself."""
SPARE_BYTES = 3 << 20
"""What the allocator may spread out by: 314 bytes a connection, of which each takes some 30 KiB."""


async def test_ten_thousand_connections_leave_nothing_behind(serve):
    """Whoever they are, and however they leave: no task, no descriptor, no object and no memory.

    All that stays is one line for each new device: `devices` lists who was here, 10,000 at most.
    """
    server = serve("--agent", "census:CensusAgent", MOBILE_LOG_LEVEL="warning")
    numbers = count()

    async def come_and_go(source: str, cycles: int) -> None:
        for _ in range(cycles):
            number = next(numbers)
            async with server.call(source) as caller:
                await caller.upgrade()
                await caller.hello(server.token, name(number))
                if await caller.receive() is not None:
                    await leave(caller, number // 3)

    async def cycle(cycles: int) -> None:
        async with trio.open_nursery() as nursery:
            for source in SOURCES:
                nursery.start_soon(come_and_go, source, cycles // len(SOURCES))

    idle = await take_census(server)
    await cycle(WARM_UP)
    before = await take_census(server, idle)
    await cycle(CYCLES)
    after = await take_census(server, idle)
    assert after.tasks == idle.tasks
    assert after.descriptors == idle.descriptors
    new_devices = CYCLES // 3
    assert after.objects - before.objects < new_devices + SPARE_OBJECTS
    assert after.resident_bytes - before.resident_bytes < SPARE_BYTES
    assert server.log_text == ""


def name(number: int) -> str | None:
    """The device that comes: always the same one, which takes over from itself; another; nobody."""
    return ("phone", f"phone-{number}", None)[number % 3]


async def leave(caller, number: int) -> None:
    match number % 3:
        case 0:  # politely
            await caller.send(masked(CLOSE, (1000).to_bytes(2)))
            assert await caller.receive_end() in {(1000, ""), (4001, "replaced")}
        case 1:  # without a word
            pass
        case 2:  # by a reset
            caller.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
