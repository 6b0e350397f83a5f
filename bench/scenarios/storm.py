"""Everybody comes at once: connect and hello, as fast as the server lets them in.

`--depth` handshakes are under way at any time. Then the server is restarted (or, where the bench has
not started it, left by all at once), and the devices come back as the client libraries do: after a
random time that grows with each attempt. `away` is how long each was without a connection.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from bench.device import Device, DeviceError
from bench.plan import Load
from bench.scenario import Figure, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.run import Run
    from bench.worker import Worker

FIRST_BACKOFF_SECONDS: Final = 0.5
LAST_BACKOFF_SECONDS: Final = 5.0


class Guest(Device):
    """A device that does not mind being sent away."""

    def ended_unasked(self) -> None:
        pass


async def drive(worker: Worker) -> None:
    devices: list[Guest] = []
    async with worker.window("storm"):
        await asyncio.gather(*(come(worker, numbers, devices) for numbers in queues(worker)))
    if worker.load.once:
        await worker.close_devices(devices)
        return
    async with worker.window("return"):
        returning = asyncio.gather(*map(come_back, devices))
        if not await worker.stage("restart"):
            await worker.close_devices(devices)
        devices = await returning
    await worker.close_devices(devices)


def queues(worker: Worker) -> Iterator[range]:
    """The worker's devices in as many queues as handshakes may be under way."""
    at_once = max(worker.load.depth // worker.load.processes, 1)
    return (worker.numbers[start::at_once] for start in range(at_once))


async def come(worker: Worker, numbers: range, devices: list[Guest]) -> None:
    """Open one device after the other."""
    for number in numbers:
        try:
            devices.append(await open_guest(worker, number))
        except DeviceError as error:
            worker.error(error.code)


async def open_guest(worker: Worker, number: int) -> Guest:
    """*Errors*: DeviceError."""
    begin = time.monotonic()
    guest = Guest(worker, number, worker.target.identity(number))
    await guest.open()
    worker.series("hello").append(time.monotonic() - begin)
    return guest


async def come_back(guest: Guest) -> Guest:
    """The next connection of a device, once this one has ended."""
    await guest.wait_ended()
    backoff = FIRST_BACKOFF_SECONDS
    while True:
        await asyncio.sleep(random.uniform(0, backoff))  # noqa: S311 - no secret
        try:
            again = await open_guest(guest.worker, guest.number)
        except DeviceError:
            backoff = min(2 * backoff, LAST_BACKOFF_SECONDS)
        else:
            guest.worker.series("away").append(time.monotonic() - guest.closed_at)
            return again


def figures(run: Run) -> Iterator[Figure]:
    if "return" in run.windows:
        yield Figure("all back after", run.windows["return"].percentile("away", 100), "s")


STORM: Final = Scenario(
    name="storm",
    unit="hello",
    about=__doc__,
    load=Load(connections=2000, depth=64),
    tiny=Load(connections=50, depth=10),
    options=("connections", "depth", "once"),
    drive=drive,
    figures=figures,
)
