"""Replies that grow by edits: `/stream N` of the demo agent, about twenty states a second.

`first` is the time to the first state, `edit` the time between two states. What the agent leaves
between them, 50 ms, is no merit of the server; what comes on top is its delay. A state that does not
continue the one before it is an error.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.device import Device
from bench.plan import Load
from bench.scenario import Scenario

if TYPE_CHECKING:
    from bench.worker import Worker


async def drive(worker: Worker) -> None:
    devices = await worker.open_devices(Device, worker.numbers)
    async with worker.repeating(partial(stream, words=worker.load.size), devices):
        await asyncio.sleep(worker.load.warmup)
        async with worker.window("stream"):
            await asyncio.sleep(worker.load.seconds)
    await worker.close_devices(devices)


async def stream(device: Device, words: int) -> None:
    """One streamed reply, from the request to its end."""
    first, edit = device.worker.series("first"), device.worker.series("edit")
    last = time.monotonic()
    device.ask(f"/stream {words}")
    message_id, text, final = None, "", False
    while not final:
        arrival = await device.expect("message")
        frame = arrival.frame
        (first if message_id is None else edit).append(arrival.at - last)
        last, final = arrival.at, frame.get("final") is True
        new = (
            frame.get("id") != message_id
        )  # the first state, or a long reply that goes on under a new id
        if (frame.get("edit") is True) is new or not (new or frame["text"].startswith(text)):
            device.worker.error("bad edit")
        message_id, text = frame.get("id"), frame["text"]
    await device.expect("typing", stop=True)


STREAM: Final = Scenario(
    name="stream",
    unit="edit",
    about=__doc__,
    load=Load(connections=50, size=40),
    tiny=Load(connections=4, size=5, seconds=1.0, warmup=0.2),
    options=("connections", "seconds", "warmup", "size"),
    drive=drive,
)
