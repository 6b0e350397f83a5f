"""A demo agent that also counts what its own process holds, for tests that look for leaks."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import asdict, frozen

from hermes_mobile.agents import TextInput
from hermes_mobile.agents.demo import DemoAgent
from street import PATIENCE

if TYPE_CHECKING:
    from hermes_mobile.agents import Turn

DEADLINE = {"CancelScope", "CancelReason", "tuple"}
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@frozen
class Census:
    """`objects` are those that the garbage collector follows, after a collection.

    What a deadline of Trio's is made of does not count: it keeps up to a thousand that are over.
    """

    tasks: int
    descriptors: int
    objects: int
    resident_bytes: int

    @classmethod
    def take(cls) -> Census:
        gc.collect()
        return cls(
            tasks=trio.lowlevel.current_statistics().tasks_living,
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            objects=sum(type(each).__name__ not in DEADLINE for each in gc.get_objects()),
            resident_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES,
        )


class CensusAgent(DemoAgent):
    """Answers `/census`, beside the demo's commands."""

    async def handle(self, turn: Turn) -> None:
        if turn.input == TextInput(turn.input.id, "/census"):
            await turn.reply(json.dumps(asdict(Census.take())))
        else:
            await super().handle(turn)


async def take_census(server, idle: Census | None = None, **how: str) -> Census:
    """What the server holds, once it holds no more tasks than it did when idle, if it ever does."""
    patience = trio.current_time() + PATIENCE
    while True:
        async with server.connect(device=None, **how) as caller:
            await caller.say("census", "/census")
            message = await caller.expect("message")
        census = Census(**json.loads(message["text"]))
        if idle is None or census.tasks == idle.tasks or trio.current_time() > patience:
            return census
