"""Deadlines that all fall into one moment, and how far from it they are kept.

Every device asks for a card and lets it expire; as many connections never say hello. A deadline counts
from the frame that announced it, or from the upgrade; `card` and `stranger` are the distances from it,
with the difference in what both frames took on their way. `--seconds` is the lifetime of both, for a
server that the bench starts; for another one it has to be that server's hello timeout.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from bench.device import Device, DeviceError
from bench.plan import Load
from bench.scenario import Figure, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.run import Run
    from bench.worker import Worker

REFUSED: Final = 1008


class Stranger(Device):
    """A connection that never says hello."""

    upgraded_at = 0.0

    async def open(self) -> None:
        await self.connect()
        self.upgraded_at = time.monotonic()


async def drive(worker: Worker) -> None:
    devices = await worker.open_devices(Device, worker.numbers)
    async with worker.window("cards"):
        await asyncio.gather(*map(let_expire, devices))
    await worker.close_devices(devices)
    async with worker.window("strangers"):
        strangers = await worker.open_devices(Stranger, worker.numbers)
        await asyncio.gather(*map(say_nothing, strangers))


async def let_expire(device: Device) -> None:
    device.ask("/ask Which? | This | That")
    try:
        card = await device.expect("prompt")
        done = await device.expect("prompt_done", id=card.frame["id"], expired=True)
    except DeviceError as error:
        device.worker.error(error.code)
        return
    distance = done.at - card.at - card.frame["timeout_seconds"]
    device.worker.series("card").append(abs(distance))


async def say_nothing(stranger: Stranger) -> None:
    try:
        await stranger.wait_ended()
    except DeviceError as error:
        stranger.worker.error(error.code)
        return
    distance = stranger.closed_at - stranger.upgraded_at - stranger.worker.load.seconds
    stranger.worker.series("stranger").append(abs(distance))
    if stranger.close_code != REFUSED:
        stranger.worker.error(f"closed {stranger.close_code}")


def figures(run: Run) -> Iterator[Figure]:
    for window, series in (("cards", "card"), ("strangers", "stranger")):
        worst = run.windows[window].percentile(series, 100)
        yield Figure(f"furthest {series} deadline", worst * 1000, "ms")


def settings(load: Load) -> Mapping[str, object]:
    return {
        "MOBILE_PROMPT_TTL": load.seconds,
        "MOBILE_HELLO_TIMEOUT": load.seconds,
        "MOBILE_MAX_PENDING": 0,  # strangers are what is measured
    }


CARDS: Final = Scenario(
    name="cards",
    unit="card",
    about=__doc__,
    load=Load(connections=1000, seconds=5.0),
    tiny=Load(connections=20, seconds=1.0),
    options=("connections", "seconds"),
    drive=drive,
    figures=figures,
    settings=settings,
)
