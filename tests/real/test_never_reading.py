"""Peers that ask for much and never read: what they cost, whom they delay, and when they are dropped."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, suppress
from statistics import median

import pytest
import trio

from street import PING, TEXT, masked

MIB = 1 << 20
WRITE_TIMEOUT = 1
COST = 48 * MIB
"""What one peer may cost: 16 MiB kept (D32), a file that waits for room, a chunk on its way."""

pytestmark = pytest.mark.slow


@pytest.fixture
def server(serve):
    return serve(MOBILE_WRITE_TIMEOUT=WRITE_TIMEOUT, MOBILE_SHUTDOWN_GRACE=0)


async def ask_for_files(caller) -> None:
    """Ask for 160 MiB."""
    for number in range(20):
        await caller.say(f"file {number}", f"/file {8 * MIB}")


async def ask_for_a_stream(caller) -> None:
    await caller.say("stream", "/stream 10000")


async def test_a_peer_that_never_reads_costs_bounded_memory(server):
    """D32, D33: not what was asked for, neither while it is there nor when it was dropped."""
    devices = ["phone", "tablet", "watch"]
    most = 0

    async def watch_memory() -> None:
        nonlocal most
        while True:
            most = max(most, server.resident_bytes)
            await trio.sleep(0.01)

    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        witness = await stack.enter_async_context(server.connect("witness"))
        await echo(witness, 0)
        before = server.resident_bytes
        nursery.start_soon(watch_memory)
        for device in devices:
            caller = await stack.enter_async_context(server.connect(device, receive_buffer=4096))
            await ask_for_files(caller)
        for device in devices:
            await server.wait_logged("connection", device=device)
        await trio.sleep(1)  # the turns go on
        nursery.cancel_scope.cancel()
    assert most - before < len(devices) * COST


async def test_a_peer_that_never_reads_delays_nobody(server):
    """D33: medians of echoes alone, and beside six such peers, taken in turns."""
    alone: list[float] = []
    beside: list[float] = []
    async with server.connect("witness") as witness:
        for run in range(3):
            alone += [await echo(witness, 1000 * run + n) for n in range(200)]
            async with AsyncExitStack() as stack:
                for ask in (ask_for_files, ask_for_a_stream) * 3:
                    connected = server.connect(device=None, receive_buffer=4096)
                    await ask(await stack.enter_async_context(connected))
                beside += [await echo(witness, 1000 * run + 500 + n) for n in range(200)]
    assert median(beside) < 2 * median(alone)
    assert max(beside) < WRITE_TIMEOUT


async def echo(caller, number: int) -> float:
    """Seconds that an echo takes."""
    started = trio.current_time()
    await caller.say(f"echo {number}", "hello")
    await caller.expect("typing", stop=True)
    return trio.current_time() - started


async def test_a_peer_that_never_reads_is_dropped(server):
    """D33: one write timeout after it took something for the last time, not two."""
    async with server.connect("phone", receive_buffer=4096) as caller:
        await ask_for_files(caller)
        line = await server.wait_logged("connection", device="phone")
    assert line["end"] == "lost"
    assert WRITE_TIMEOUT <= line["seconds"] < 2 * WRITE_TIMEOUT


@pytest.mark.parametrize(
    ("flood", "end"),
    [
        (masked(PING, b"x" * 125), "lost"),
        (masked(TEXT, json.dumps({"t": "ping", "ts": "x" * 1000}).encode()), "outbox full"),
        (masked(TEXT, b"no frame"), "outbox full"),
    ],
    ids=["pings of WebSocket", "pings", "errors"],
)
async def test_a_peer_that_sends_and_never_reads_is_dropped(server, flood, end):
    """D33: answers to its own frames are not piled up for it, and it cannot send for ever."""
    before = server.resident_bytes
    async with (
        server.connect("phone", receive_buffer=4096) as caller,
        trio.open_nursery() as nursery,
    ):

        @nursery.start_soon
        async def send_on() -> None:
            with suppress(ConnectionResetError, BrokenPipeError):
                while True:
                    await caller.send(flood * 100)

        line = await server.wait_logged("connection", device="phone")
        nursery.cancel_scope.cancel()
    assert line["end"] == end
    assert line["seconds"] < 3 * WRITE_TIMEOUT
    assert server.resident_bytes - before < 4 * MIB
