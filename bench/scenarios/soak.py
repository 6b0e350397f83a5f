"""A mixed load for as long as you like, to see whether anything grows that should not.

Of ten devices five echo (at `--rate` in all), one reads streams, one uploads, one downloads, and two
come, say something and leave. The slope of the server's memory is that of its second half, when
caches and queues are filled, and the ten minutes of deduplication too if it ran for twice as long.
What is still there when everybody has left for three seconds has leaked.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.device import Device, DeviceError
from bench.echo import Echo, last_turns, send_when_due
from bench.plan import Load
from bench.scenario import Figure, Scenario
from bench.scenarios.download import Downloader, download
from bench.scenarios.stream import stream
from bench.scenarios.upload import File, upload
from bench.worker import background

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.run import Run, Second
    from bench.worker import Worker

FILE_BYTES: Final = 256 * 1024
STREAM_WORDS: Final = 40
SETTLE_SECONDS: Final = 3.0
"""For turns that outlive their connection, streams above all, to end."""
PAUSE_SECONDS: Final = 0.2
"""Between two things that one device does."""
ECHOES, STREAMS, UPLOADS, DOWNLOADS, VISITS = range(5), [5], [6], [7], [8, 9]
"""By the last digit of a device's number."""


async def drive(worker: Worker) -> None:
    load = worker.load
    file = File.of(FILE_BYTES)

    def numbers(digits: Sequence[int]) -> list[int]:
        return [number for number in worker.numbers if number % 10 in digits]

    echoes = await worker.open_devices(Echo, numbers(ECHOES))
    streams = await worker.open_devices(Device, numbers(STREAMS))
    uploads = await worker.open_devices(Device, numbers(UPLOADS))
    downloads = await worker.open_devices(Downloader, numbers(DOWNLOADS))
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        await enter(worker.repeating(partial(stream, words=STREAM_WORDS), streams, PAUSE_SECONDS))
        await enter(worker.repeating(partial(upload, file=file), uploads, PAUSE_SECONDS))
        await enter(worker.repeating(partial(download, size=FILE_BYTES), downloads, PAUSE_SECONDS))
        await enter(background(visit_for_ever(worker, number) for number in numbers(VISITS)))
        await asyncio.sleep(load.warmup)
        async with worker.window("soak"):
            await send_when_due(worker, echoes, load.seconds)
    await last_turns(echoes)
    await worker.close_devices([*echoes, *streams, *uploads, *downloads])
    await asyncio.sleep(SETTLE_SECONDS)


async def visit_for_ever(worker: Worker, number: int) -> None:
    """Come, say something, hear the answer, leave."""
    while True:
        visitor = Device(worker, number, worker.target.identity(number))
        try:
            await visitor.open()
            visitor.ask("Hello, and good bye.")
            await visitor.expect("typing", stop=True)
            await visitor.close()
        except DeviceError as error:
            worker.error(error.code)
        await asyncio.sleep(PAUSE_SECONDS)


def slope(timeline: Sequence[Second]) -> float | None:
    """Bytes per second that memory grows in the second half, by least squares."""
    half = timeline[len(timeline) // 2 :]
    points = [(each.at, each.server_rss) for each in half if each.server_rss is not None]
    if len(points) < 2:  # noqa: PLR2004 - a line needs two points
        return None
    middle = sum(at for at, _ in points) / len(points)
    mean = sum(rss for _, rss in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    return sum((at - middle) * (rss - mean) for at, rss in points) / spread


def figures(run: Run) -> Iterator[Figure]:
    grows = slope(run.first.timeline)
    if grows is not None:
        yield Figure("memory slope", grows * 60 / 1024, "KiB/min")
    before, after = run.at_rest
    if before is not None and after is not None:
        if before.descriptors is not None and after.descriptors is not None:
            yield Figure("leaked descriptors", after.descriptors - before.descriptors)
        yield Figure("threads more", after.threads - before.threads)
    was, now = run.gauges
    for name in was.keys() & now.keys():
        yield Figure(f"leaked {name.replace('_', ' ')}", now[name] - was[name])


SOAK: Final = Scenario(
    name="soak",
    unit="",  # there are many
    about=__doc__,
    load=Load(connections=50, rate=(100.0, 100.0), seconds=120.0),
    tiny=Load(connections=10, rate=(20.0, 20.0), seconds=2.0, warmup=0.2, sample=2),
    options=("connections", "rate", "seconds", "warmup", "sample", "any_reply"),
    drive=drive,
    figures=figures,
    settings=lambda _: {"MOBILE_HTTP_PORT": 0},  # for its gauges
)
