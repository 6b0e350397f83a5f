"""Cancelling a call, at any moment, harms nobody else."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from cast import Recorder
from hermes_mobile.client import RefusedError
from hermes_mobile.testing import open_server

CALLS = {
    "text": lambda client: client.send_text("cancelled"),
    "file": lambda client: client.send_document(bytes(300_000), chunk_bytes=50_000),
    "recording": lambda client: client.send_audio(bytes(100_000), "ogg"),
    "delivery": lambda client: client.deliver("phone", "cancelled", keep=True),
    "question": lambda client: client.ask("cancelled"),
    "typing": lambda client: client.send_typing(),
    "ping": lambda client: client.ping(),
    "event": lambda client: client.__anext__(),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.floats(0.0, 8.0)), min_size=1))
def test_any_call_at_any_moment(calls: list[tuple[str, float]]) -> None:
    """The connection stays, no half of a message is on it, and what comes after arrives."""

    async def scenario() -> None:
        agent = Recorder()
        async with open_server(agent) as server, server.open_client() as client:
            await client.wait_ready()
            server.streams[0].bytes_per_second = 100_000
            async with trio.open_nursery() as tasks:
                for name, seconds in calls:
                    tasks.start_soon(give_up_after, seconds, partial(CALLS[name], client))
            await client.send_text("after", id="after")
            assert agent.inputs[-1].id == "after"
            assert len(server.streams) == 1
            for each in agent.inputs:
                assert len(getattr(each, "data", b"")) in {0, 300_000, 100_000}

    async def give_up_after(seconds: float, call) -> None:
        # Two questions at once are busy, and so is a second reader of the events.
        with trio.move_on_after(seconds), suppress(trio.BusyResourceError, RefusedError):
            await call()

    trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0))
