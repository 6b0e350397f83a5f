"""Devices that are connected and silent: what each costs in memory and CPU.

Measured with a fifth of the connections and with all of them. What the server has resident after one
device came and left is not theirs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from bench.device import Device
from bench.plan import Load
from bench.scenario import Figure, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.run import Run
    from bench.worker import Worker

NOBODY: Final = "nobody"


async def drive(worker: Worker) -> None:
    load = worker.load
    await worker.close_devices(await worker.open_devices(Device, [worker.share]))
    async with worker.window(NOBODY):
        await asyncio.sleep(min(load.warmup, load.seconds))
    devices: list[Device] = []
    for total in steps(load):
        new = [number for number in worker.numbers[len(devices) :] if number < total]
        devices += await worker.open_devices(Device, new)
        await asyncio.sleep(load.warmup)
        async with worker.window(str(total)):
            await asyncio.sleep(load.seconds)
    await worker.close_devices(devices)


def steps(load: Load) -> tuple[int, int]:
    """How many connections there are in each window."""
    return max(load.connections // 5, 1), load.connections


def figures(run: Run) -> Iterator[Figure]:
    before = run.windows[NOBODY].after
    for total in steps(run.load):
        window = run.windows[str(total)]
        if before is None or window.after is None or window.server_cpu is None:
            return
        memory = (window.after.rss - before.rss) / total
        cpu = window.server_cpu / window.seconds / total
        yield Figure(f"memory per connection at {total:,}", memory / 1024, "KiB")
        yield Figure(f"CPU per connection at {total:,}", cpu * 1e6, "us/s")


IDLE: Final = Scenario(
    name="idle",
    unit="",
    about=__doc__,
    load=Load(connections=5000, seconds=35.0, warmup=3.0),  # a heartbeat every 30 s is in it
    tiny=Load(connections=50, seconds=0.5, warmup=0.2),
    options=("connections", "seconds", "warmup"),
    drive=drive,
    figures=figures,
)
