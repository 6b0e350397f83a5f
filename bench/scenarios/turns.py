"""Texts that are echoed, over and over.

Closed loop: every connection keeps `--depth` turns going, so the server sets the pace. Open loop
(`--rate`): texts come when they are due, whether or not the server keeps up, and latency counts from
that moment.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from bench.echo import Echo, last_turns, send_when_due
from bench.plan import Load
from bench.scenario import Scenario
from bench.worker import background

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.worker import Worker


async def drive(worker: Worker) -> None:
    load = worker.load
    devices = await worker.open_devices(Echo, worker.numbers)
    async with AsyncExitStack() as stack:
        if load.rate is None:
            await stack.enter_async_context(background([begin_in_turn(devices, load)]))
        await asyncio.sleep(load.warmup)
        async with worker.window("turns"):
            if load.rate is None:
                await asyncio.sleep(load.seconds)
            else:
                await send_when_due(worker, devices, load.seconds)
                await last_turns(devices)
    await last_turns(devices)
    await worker.close_devices(devices)


async def begin_in_turn(devices: Sequence[Echo], load: Load) -> None:
    """Begin all devices, one after the other if there is a ramp."""
    for device in devices:
        device.begin(load.depth)
        if load.ramp:
            await asyncio.sleep(load.ramp / len(devices))


TURNS: Final = Scenario(
    name="turns",
    unit="turn",
    about=__doc__,
    load=Load(connections=50, seconds=10.0),
    tiny=Load(connections=5, seconds=1.0, warmup=0.2, sample=2),
    options=(
        "connections",
        "depth",
        "rate",
        "ramp",
        "seconds",
        "warmup",
        "size",
        "sample",
        "any_reply",
    ),
    drive=drive,
)
