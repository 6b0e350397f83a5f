"""One process of the load generator: it drives its share of the devices and reports to the parent.

What is measured lies in *windows*. All workers enter and leave a window together, by way of the
parent, which looks at the server's process at both moments.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import time
import traceback
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import uvloop
from attrs import frozen

from bench.device import Device, DeviceError
from bench.histogram import Recorder
from bench.process import allow_descriptors, pin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
    from multiprocessing.connection import Connection

    from bench.plan import Identity, Load, Target
    from bench.scenario import Scenario

TICK_SECONDS: Final = 1.0
OPENING_AT_ONCE: Final = 32
"""Handshakes of one worker that are under way at once while its devices gather."""
PAUSE_AFTER_ERROR: Final = 0.1
"""Seconds, so that a server in trouble is not asked as fast as it can refuse."""

AnyDevice = TypeVar("AnyDevice", bound=Device)


@frozen
class Tick:
    """What a worker saw since its last tick. `cpu` is its own, over `seconds`."""

    histograms: Mapping[str, bytes]
    errors: Mapping[str, int]
    cpu: float
    seconds: float


@frozen
class Stage:
    """A worker waits here until all have come and the parent answers."""

    name: str


@frozen
class Ended:
    """A worker's last word; `failure` is a traceback."""

    failure: str = ""


class Worker:
    """What a scenario drives with; `share` is the worker's number, from 0."""

    def __init__(self, pipe: Connection, target: Target, load: Load, share: int) -> None:
        self.target = target
        self.load = load
        self.share = share
        self._pipe = pipe
        self._recorder = Recorder()
        self._errors: Counter[str] = Counter()
        self._since = self._cpu = 0.0

    @property
    def numbers(self) -> range:
        """The numbers of this worker's devices."""
        return range(self.share, self.load.connections, self.load.processes)

    def series(self, name: str) -> list[float]:
        """The list of that series, to append durations in seconds to."""
        return self._recorder.series(name)

    def error(self, code: str) -> None:
        self._errors[code] += 1

    async def open_devices(
        self, make: Callable[[Worker, int, Identity], AnyDevice], numbers: Iterable[int]
    ) -> list[AnyDevice]:
        """Devices that are ready; one that cannot be is counted as an error."""
        room = asyncio.Semaphore(OPENING_AT_ONCE)
        opened = []

        async def open_one(number: int) -> None:
            device = make(self, number, self.target.identity(number))
            async with room:
                try:
                    await device.open()
                except DeviceError as error:
                    self.error(error.code)
                else:
                    opened.append(device)

        await asyncio.gather(*map(open_one, numbers))
        return opened

    async def close_devices(self, devices: Iterable[Device]) -> None:
        await asyncio.gather(*(device.close() for device in devices))

    @asynccontextmanager
    async def repeating(
        self,
        once: Callable[[AnyDevice], Awaitable[None]],
        devices: Iterable[AnyDevice],
        pause: float = 0.0,
    ) -> AsyncIterator[None]:
        """Do `once` with each device over and over, until the block ends or the device does.

        `pause` is in seconds, between two times.
        """

        async def repeat(device: AnyDevice) -> None:
            while device.close_code is None:
                try:
                    await once(device)
                    await asyncio.sleep(pause)
                except DeviceError as error:
                    self.error(error.code)
                    await asyncio.sleep(PAUSE_AFTER_ERROR)

        async with background(repeat(device) for device in devices):
            yield

    @asynccontextmanager
    async def window(self, name: str) -> AsyncIterator[None]:
        """Measure what happens in the block, under `name`, in all workers at the same time."""
        gc.collect()
        gc.freeze()  # what lives now lives on: a collection in the middle need not look at it
        await self.stage(f"begin {name}")
        self._recorder.take()  # what went wrong before is told, what went well is not counted
        self._since, self._cpu = time.monotonic(), time.process_time()
        async with background([self._tick_for_ever()]):
            yield
        self._tick()
        await self.stage(f"end {name}")

    async def stage(self, name: str) -> Any:
        """Wait until all workers are here; returns what the parent has to say."""
        self._pipe.send(Stage(name))
        return await asyncio.to_thread(self._pipe.recv)

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._tick()

    def _tick(self) -> None:
        now, cpu = time.monotonic(), time.process_time()
        self._pipe.send(
            Tick(self._recorder.take(), dict(self._errors), cpu - self._cpu, now - self._since)
        )
        self._errors.clear()
        self._since, self._cpu = now, cpu


@asynccontextmanager
async def background(jobs: Iterable[Awaitable[None]]) -> AsyncIterator[None]:
    """Run `jobs` while the block does, and cancel them at its end. *Errors*: what a job raised."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def run_worker(
    pipe: Connection, scenario: str, target: Target, load: Load, share: int, core: int | None
) -> None:
    """The whole life of a worker process."""
    from bench.scenarios import SCENARIOS  # noqa: PLC0415 - scenarios know what a worker is

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its workers
    pin(0, core)
    allow_descriptors()
    chosen: Scenario = SCENARIOS[scenario]
    try:
        uvloop.run(chosen.drive(Worker(pipe, target, load, share)))
    except Exception:  # noqa: BLE001 - whatever it is, the parent tells it
        pipe.send(Ended(traceback.format_exc()))
    else:
        pipe.send(Ended())
