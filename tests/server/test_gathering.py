"""What a task says between two of its waits goes out in one write, by the task itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.server.gathering import gathering

if TYPE_CHECKING:
    from trio.testing import MockClock


class FakeWriter:
    """Notes when it was told to gather, and when to write."""

    def __init__(self, notes: list[str], name: str = "") -> None:
        self._notes = notes
        self._name = name

    def gather(self) -> None:
        self._notes.append(f"gather{self._name}")

    def write_gathered(self) -> None:
        self._notes.append(f"write{self._name}")


async def test_it_writes_before_each_wait_and_at_the_end(autojump_clock: MockClock) -> None:
    """What an agent says is out before the agent is waited for."""
    notes: list[str] = []

    async def work() -> str:
        notes.append("thinking")
        await trio.sleep(1)
        notes.append("hello")
        return "result"

    assert await gathering(work(), lambda: FakeWriter(notes)) == "result"
    assert notes == ["gather", "thinking", "write", "gather", "hello", "write"]


async def test_work_that_never_waits_is_one_write() -> None:
    """All of a short turn, states and reply, is gathered."""
    notes: list[str] = []

    async def work() -> None:
        notes.extend(["a", "b", "c"])

    await gathering(work(), lambda: FakeWriter(notes))
    assert notes == ["gather", "a", "b", "c", "write"]


async def test_whose_writer_it_is_is_asked_anew(autojump_clock: MockClock) -> None:
    """D11: the connection may be another one, or none, when the work goes on."""
    notes: list[str] = []
    writers = iter([FakeWriter(notes, " 1"), None, FakeWriter(notes, " 2")])

    async def work() -> None:
        await trio.sleep(1)
        notes.append("without a connection")
        await trio.sleep(1)

    await gathering(work(), lambda: next(writers))
    assert notes == ["gather 1", "write 1", "without a connection", "gather 2", "write 2"]


async def test_a_failure_leaves_after_the_write() -> None:
    """D35: what was said before a failure is said."""
    notes: list[str] = []

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError

    with pytest.raises(LookupError):
        await gathering(work(), lambda: FakeWriter(notes))
    assert notes == ["gather", "write"] * (len(notes) // 2)


async def test_cancelling_reaches_the_work(autojump_clock: MockClock) -> None:
    """Cancellation is delivered where the work waits, and its last words are written."""
    notes: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            notes.append("last words")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gathering_task, work, notes)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert notes == ["gather", "write", "gather", "last words", "write"]


async def gathering_task(work, notes: list[str]) -> None:
    await gathering(work(), lambda: FakeWriter(notes))


def test_work_that_is_given_up_is_closed() -> None:
    """A coroutine that nobody goes on with runs its clean-up, as if it were awaited directly."""
    notes: list[str] = []

    async def work() -> None:
        try:
            await trio.lowlevel.cancel_shielded_checkpoint()
        finally:
            notes.append("closed")

    step = gathering(work(), lambda: None)
    step.send(None)
    step.close()
    assert notes == ["closed"]
