"""Many peers that send an upgrade request a byte a second, and one that means it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest
import trio

from census import take_census
from street import UPGRADE

pytestmark = pytest.mark.slow
UPGRADE_TIMEOUT = 5
"""Seconds; nothing else tells how long this test takes."""
PER_ADDRESS = 32
BEYOND = 8
"""Connections of each address that it may not have."""
SOURCES = [f"127.0.1.{n}" for n in range(1, 13)]
LATE = 5
"""Seconds that a busy machine may add to what was promised."""
COST = 64 << 10
"""Bytes that a request may cost which is on its way."""


async def test_requests_that_come_a_byte_a_second(serve):
    """D4, D37: each address has 32 of them for as long as an upgrade may take, and no longer.

    Messages: a device at another address gets every echo meanwhile, within 5 s. Connections:
    what is beyond 32 is told 503 at once, the others end without a word at their deadline, and the
    device's lives. Descriptors, tasks and memory: a slow request costs less than 64 KiB, and nothing
    is left of it.
    """
    server = serve(
        *("--agent", "census:CensusAgent"),
        MOBILE_TRUSTED_PROXIES="",
        MOBILE_UPGRADE_TIMEOUT=UPGRADE_TIMEOUT,
    )
    answers: Counter[bytes] = Counter()
    delays: list[float] = []

    async def trickle(source: str) -> None:
        async with server.call(source) as caller, trio.open_nursery() as nursery:

            @nursery.start_soon
            async def send_slowly() -> None:
                with suppress(BrokenPipeError, ConnectionResetError):
                    for byte in UPGRADE:
                        await caller.send(bytes((byte,)))
                        await trio.sleep(1)

            answer = b""
            with suppress(ConnectionResetError):
                answer = await caller.receive_rest()
            nursery.cancel_scope.cancel()
            answers[answer.partition(b"\r\n")[0]] += 1

    async def chat(caller) -> None:
        while True:
            started = trio.current_time()
            text = f"echo {len(delays)}"
            await caller.say(text, text)
            assert (await caller.expect("message"))["text"] == text
            delays.append(trio.current_time() - started)
            await trio.sleep(0.05)

    idle = await take_census(server)
    async with server.connect("witness") as witness, trio.open_nursery() as chatting:
        chatting.start_soon(chat, witness)
        async with trio.open_nursery() as flood:
            for source in SOURCES:
                for _ in range(PER_ADDRESS + BEYOND):
                    flood.start_soon(trickle, source)
            await trio.sleep(UPGRADE_TIMEOUT / 2)
            amid = await take_census(server)
        chatting.cancel_scope.cancel()
    after = await take_census(server, idle)
    held = len(SOURCES) * PER_ADDRESS
    beyond = len(SOURCES) * BEYOND
    assert answers == {b"": held, b"HTTP/1.1 503 Service Unavailable": beyond}
    lasted = [line["seconds"] for line in server.log if line.get("end") == "no upgrade"]
    assert len(lasted) == held
    assert UPGRADE_TIMEOUT <= min(lasted) <= max(lasted) < UPGRADE_TIMEOUT + LATE
    assert max(delays) < LATE
    assert amid.tasks - idle.tasks >= held
    assert amid.resident_bytes - idle.resident_bytes < held * COST
    assert (after.tasks, after.descriptors) == (idle.tasks, idle.descriptors)
