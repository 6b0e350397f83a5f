"""A flood of hellos with wrong tokens, and devices that have nothing to do with it."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from census import take_census

pytestmark = pytest.mark.slow
FLOODERS = 4
"""Connections at a time from the bad address."""
FAILURES = 5
"""After so many within a minute, an address is refused or slowed (D37)."""
BAD, GOOD = "127.0.0.2", "127.0.0.3"
ECHOES = 200
PROMPT = 5.0
"""Seconds: what nobody is made to wait for, even where the machine is busy."""
REFUSED = b"HTTP/1.1 429 Too Many Requests"
SPARE_BYTES = 4 << 20


class Flood:
    """Connections from one address, with wrong tokens, as fast as they are refused."""

    def __init__(self, server) -> None:
        self.server = server
        self.refused = 0
        """In HTTP."""
        self.failed = 0
        """In the protocol."""
        self.throttled = trio.Event()
        """As many failed as make the address suspect."""

    async def pour(self) -> None:
        while True:
            async with self.server.call(BAD) as caller:
                status_line = await caller.ask_upgrade()
                if b" 101 " not in status_line:
                    assert status_line == REFUSED
                    self.refused += 1
                    continue
                await caller.hello("a wrong token", "phone")
                error = await caller.expect("error")
                assert (error["code"], error["fatal"]) == ("auth_failed", True)
                assert await caller.receive_end() == (1008, "auth_failed")
                self.failed += 1
                if self.failed == FAILURES:
                    self.throttled.set()


@asynccontextmanager
async def open_flood(server):
    flood = Flood(server)
    async with trio.open_nursery() as nursery:
        for _ in range(FLOODERS):
            nursery.start_soon(flood.pour)
        yield flood
        nursery.cancel_scope.cancel()


@pytest.fixture
def server(serve):
    return serve(
        *("--agent", "census:CensusAgent"),
        MOBILE_TRUSTED_PROXIES="",
        MOBILE_THROTTLE_FAILURES=FAILURES,
    )


async def chat(caller, echoes: int = ECHOES) -> None:
    """Every echo comes once, in order, and promptly."""
    for number in range(echoes):
        with trio.fail_after(PROMPT):
            await caller.say(f"m{number}", f"echo {number}")
            assert (await caller.expect("message"))["text"] == f"echo {number}"


async def test_a_flood_from_another_address(server):
    """D37: it is refused in HTTP after the first failures, and costs a device elsewhere nothing.

    Messages: every echo, once, in order, promptly. Connections: the device's lives, and another
    one from its address comes in promptly. Descriptors, tasks and memory: nothing is left.
    """
    idle = await take_census(server, source=GOOD)
    async with server.connect("witness", source=GOOD) as witness, open_flood(server) as flood:
        await flood.throttled.wait()
        await chat(witness)
        with trio.fail_after(PROMPT):
            async with server.connect("tablet", source=GOOD) as newcomer:
                await chat(newcomer, 1)
    after = await take_census(server, idle, source=GOOD)
    assert flood.failed < FAILURES + FLOODERS
    assert flood.refused > FLOODERS
    assert (after.tasks, after.descriptors) == (idle.tasks, idle.descriptors)
    assert after.resident_bytes - idle.resident_bytes < SPARE_BYTES


async def test_a_flood_from_the_address_of_a_device(server):
    """D37: an address with a live session is not refused; its hellos take a second each, in turn.

    Messages: every echo of the device, once, in order, promptly. Connections: the device's
    lives, and another device at the address is ready when it is its turn.
    """
    async with server.connect("witness", source=BAD) as witness, open_flood(server) as flood:
        await flood.throttled.wait()
        failed, since = flood.failed, trio.current_time()
        await chat(witness)
        came = trio.current_time()
        async with server.connect("tablet", source=BAD) as newcomer:
            waited = trio.current_time() - came
            await chat(newcomer, 1)
        assert flood.failed - failed <= trio.current_time() - since + FLOODERS
        assert 1 <= waited < FLOODERS + PROMPT
        assert flood.refused == 0
