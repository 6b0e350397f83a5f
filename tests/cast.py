"""Agents for tests: small parts to play beside the demo agent's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog
import trio

from hermes_mobile.agents import Agent, Mode, TextInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermes_mobile.agents import Input, Turn

log = structlog.get_logger()


class Recorder(Agent):
    """Notes what it is given, and says `noted`, without waiting for anything."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []

    async def handle(self, turn: Turn) -> None:
        self.inputs.append(turn.input)
        await turn.reply("noted")

    @property
    def ids(self) -> list[str]:
        return [each.id for each in self.inputs]


class ConcurrentRecorder(Recorder):
    mode = Mode.CONCURRENT


class Scripted(Agent):
    """Does with each turn what a test wrote down as `script`."""

    def __init__(self, script: Callable[[Turn], Awaitable[None]], mode: Mode = Mode.SERIAL) -> None:
        self.script = script
        self.mode = mode  # type: ignore[misc] - of this one instance

    async def handle(self, turn: Turn) -> None:
        await self.script(turn)


class Worker(Recorder):
    """Works on each message until it is `released`."""

    def __init__(self) -> None:
        super().__init__()
        self.released = trio.Event()
        self.cancelled: list[str] = []

    async def handle(self, turn: Turn) -> None:
        self.inputs.append(turn.input)
        try:
            await self.released.wait()
        except trio.Cancelled:
            self.cancelled.append(turn.input.id)
            raise
        await turn.reply("noted")


class ConcurrentWorker(Worker):
    mode = Mode.CONCURRENT


class Blocker(Agent):
    """Holds up the whole event loop for as many seconds as it is told, which no agent may."""

    async def handle(self, turn: Turn) -> None:
        assert isinstance(turn.input, TextInput)
        log.info("held up")
        time.sleep(float(turn.input.text))  # noqa: ASYNC251 - the fault in question
        await turn.reply("noted")


class Shielded(Agent):
    """Works on for as many seconds as it is told, whoever cancels it."""

    async def handle(self, turn: Turn) -> None:
        assert isinstance(turn.input, TextInput)
        log.info("held up")
        with trio.CancelScope(shield=True):
            await trio.sleep(float(turn.input.text))


class Threaded(Agent):
    """Waits as long for a thread, which nobody can cancel."""

    async def handle(self, turn: Turn) -> None:
        assert isinstance(turn.input, TextInput)
        log.info("held up")
        await trio.to_thread.run_sync(time.sleep, float(turn.input.text))
