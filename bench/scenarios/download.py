"""Files to apps: `/file N` of the demo agent, one after the other on each connection.

Every chunk's frame is read around its data; the data of every `--sample`-th file is decoded, and has to
have the size that was announced.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import orjson
import pybase64

from bench.device import Device
from bench.plan import Load
from bench.scenario import Figure, Scenario
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.device import Frame
    from bench.plan import Identity
    from bench.run import Run
    from bench.worker import Worker

DATA: Final = b'"data":"'
ENDS_BYTES: Final = 2048
"""What is looked at of a large frame, at its begin and at its end."""


class Downloader(Device):
    """Reads large frames without their data, unless `checks`."""

    def __init__(self, worker: Worker, number: int, identity: Identity) -> None:
        super().__init__(worker, number, identity)
        self.files = count()
        self.checks = False

    def parse(self, payload: memoryview) -> Frame:
        if self.checks or len(payload) <= 2 * ENDS_BYTES:
            return super().parse(payload)
        without = skim(bytes(payload[:ENDS_BYTES]), bytes(payload[-ENDS_BYTES:]))
        return super().parse(payload) if without is None else without


def skim(head: bytes, tail: bytes) -> Frame | None:
    """A frame without its data, from its two ends; None where the data does not join them."""
    start, end = head.find(DATA), tail.find(b'"')
    if start < 0 or end < 0:
        return None
    try:
        frame: Frame = orjson.loads(head[: start + len(DATA)] + tail[end:])
    except ValueError:
        return None
    return frame


async def drive(worker: Worker) -> None:
    devices = await worker.open_devices(Downloader, worker.numbers)
    async with worker.repeating(partial(download, size=worker.load.size), devices):
        await asyncio.sleep(worker.load.warmup)
        async with worker.window("download"):
            await asyncio.sleep(worker.load.seconds)
    await worker.close_devices(devices)


async def download(device: Downloader, size: int) -> None:
    """Ask for a file and wait for the end of its turn."""
    device.checks = next(device.files) % device.worker.load.sample == 0
    begin = time.monotonic()
    device.ask(f"/file {size}")
    sizes: list[int] = []
    final = False
    while not final:
        arrival = await device.expect("media")
        frame = arrival.frame
        if frame.get("part") != len(sizes):
            device.worker.error("bad part")
        if device.checks:
            sizes.append(len(pybase64.b64decode(frame["data"], validate=True)))
        else:
            sizes.append(0)
        final = frame.get("final") is True
    device.worker.series("download").append(arrival.at - begin)
    if len(sizes) != frame.get("parts") or (device.checks and sum(sizes) != frame.get("size")):
        device.worker.error("bad size")
    await device.expect("typing", stop=True)


def figures(run: Run) -> Iterator[Figure]:
    yield Figure("throughput", run.first.rate("download") * run.load.size / 1e6, "MB/s")
    if run.first.after is not None:
        yield Figure("peak memory", run.first.after.peak_rss / 1024**2, "MiB")


DOWNLOAD: Final = Scenario(
    name="download",
    unit="download",
    about=__doc__,
    load=Load(connections=4, size=MAX_MEDIA_BYTES, sample=10),
    tiny=Load(connections=2, size=MAX_MEDIA_BYTES, seconds=1.0, warmup=0.0, sample=2),
    options=("connections", "seconds", "warmup", "size", "sample"),
    drive=drive,
    figures=figures,
)
