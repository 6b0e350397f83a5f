"""Files from apps, in chunks of 3 MiB, one after the other on each connection.

`upload` is the time from the first chunk to the agent's answer, which names the file's SHA-256: it has
to be the right one.
"""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pybase64
from attrs import frozen

from bench.device import TEXT, Device
from bench.plan import Load
from bench.scenario import Figure, Scenario
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MEDIA_CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.run import Run
    from bench.worker import Worker


@frozen
class File:
    """A file that is ready to be sent: `chunks` are base64."""

    chunks: tuple[bytes, ...]
    digest: str

    @classmethod
    def of(cls, size: int) -> File:
        data = random.Random(size).randbytes(size)  # noqa: S311 - no secret
        starts = range(0, size, MEDIA_CHUNK_BYTES)
        chunks = (data[start : start + MEDIA_CHUNK_BYTES] for start in starts)
        return cls(tuple(map(pybase64.b64encode, chunks)), sha256(data).hexdigest())


async def drive(worker: Worker) -> None:
    file = File.of(worker.load.size)
    devices = await worker.open_devices(Device, worker.numbers)
    async with worker.repeating(partial(upload, file=file), devices):
        await asyncio.sleep(worker.load.warmup)
        async with worker.window("upload"):
            await asyncio.sleep(worker.load.seconds)
    await worker.close_devices(devices)


async def upload(device: Device, file: File) -> None:
    """Send a file and wait for the end of its turn."""
    begin = time.monotonic()
    file_id = device.make_id().encode()
    for part, chunk in enumerate(file.chunks):
        head = (
            b'{"t":"media","id":"%b","kind":"document","mime":"application/octet-stream",'
            b'"filename":"bench.bin","part":%d,"parts":%d,"data":"'
        ) % (file_id, part, len(file.chunks))
        device.transport.send(TEXT, b'%b%b"}' % (head, chunk))
    reply = await device.expect("message", final=True)
    device.worker.series("upload").append(reply.at - begin)
    if not device.worker.load.any_reply and file.digest not in reply.frame["text"]:
        device.worker.error("bad digest")
    await device.expect("typing", stop=True)


def figures(run: Run) -> Iterator[Figure]:
    window = run.first
    yield Figure("throughput", window.rate("upload") * run.load.size / 1e6, "MB/s")
    if window.after is not None:
        yield Figure("peak memory", window.after.peak_rss / 1024**2, "MiB")


UPLOAD: Final = Scenario(
    name="upload",
    unit="upload",
    about=__doc__,
    load=Load(connections=4, size=MAX_MEDIA_BYTES),
    tiny=Load(connections=2, size=MAX_MEDIA_BYTES, seconds=1.0, warmup=0.0),
    options=("connections", "seconds", "warmup", "size", "any_reply"),
    drive=drive,
    figures=figures,
)
