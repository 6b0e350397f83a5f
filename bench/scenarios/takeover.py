"""Devices that flap: a second connection of the same device comes while the first one still works.

In every round a device says a text, and is taken over by its next connection while the agent has it.
The old connection has to be told `4001` (`replaced` is when, counted from the new one's first byte), and
the echo has to arrive on the one or the other: a reply that neither got is an error, `lost`.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

from bench.device import Device, DeviceError
from bench.plan import Load
from bench.scenario import Scenario
from bench.worker import background

if TYPE_CHECKING:
    from bench.device import Frame
    from bench.plan import Identity
    from bench.worker import Worker

REPLACED: Final = 4001
REPLY_SECONDS: Final = 10.0
DWELL_SECONDS: Final = 1.0
"""How long a connection is left alone, on average: some are confirmed what they got, some not."""


class Flapping(Device):
    """One connection of a device that has several; `heard` is what the device was told on all."""

    def __init__(
        self, worker: Worker, number: int, identity: Identity, heard: asyncio.Queue[str]
    ) -> None:
        super().__init__(worker, number, identity)
        self._heard_texts = heard

    def hear(self, frame: Frame) -> None:
        if frame.get("t") == "message":
            self._heard_texts.put_nowait(frame["text"])
        super().hear(frame)

    def ended_unasked(self) -> None:
        if self.close_code != REPLACED:
            super().ended_unasked()


async def drive(worker: Worker) -> None:
    async with background([flap(worker, number) for number in worker.numbers]):
        await asyncio.sleep(worker.load.warmup)
        async with worker.window("takeover"):
            await asyncio.sleep(worker.load.seconds)


async def flap(worker: Worker, number: int) -> None:
    """Take a device over from itself, until cancelled."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    old: Flapping | None = None
    while True:
        new = Flapping(worker, number, worker.target.identity(number), heard)
        try:
            if old is None:
                await new.open()
            else:
                await take_over(old, new, heard)
            old = new
        except DeviceError as error:
            worker.error(error.code)
            old = None
        await asyncio.sleep(random.uniform(0, 2 * DWELL_SECONDS))  # noqa: S311 - no secret


async def take_over(old: Flapping, new: Flapping, heard: asyncio.Queue[str]) -> None:
    """Say something on `old`, go on with `new`, and see that all of it is right.

    *Errors*: DeviceError.
    """
    text = old.make_id()
    old.ask(text)
    await old.expect("typing")  # from here on the server owes an answer
    begin = time.monotonic()
    await new.open()
    new.worker.series("takeover").append(time.monotonic() - begin)
    await old.wait_ended()
    new.worker.series("replaced").append(old.closed_at - begin)
    try:
        async with asyncio.timeout(REPLY_SECONDS):
            while await heard.get() != text:
                pass  # of an earlier round: what was not confirmed is told again
    except TimeoutError:
        raise DeviceError("lost") from None


TAKEOVER: Final = Scenario(
    name="takeover",
    unit="takeover",
    about=__doc__,
    load=Load(connections=50),
    tiny=Load(connections=20, seconds=1.0, warmup=0.5),
    options=("connections", "seconds", "warmup"),
    drive=drive,
)
