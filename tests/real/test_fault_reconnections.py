"""A device that comes back two hundred times, while its old connections die late."""

from __future__ import annotations

from collections import deque
from contextlib import AsyncExitStack

import pytest
import trio

from census import take_census
from hermes_mobile.client import Device, open_client

pytestmark = pytest.mark.slow
RECONNECTIONS = 200
LATE = 5
"""Connections that the device has had since, when one of them dies."""
COURIER = "a-token-of-the-courier"


async def test_a_device_that_comes_back_two_hundred_times(serve):
    """D11, D25, D32: whoever delivers to it always finds it.

    Messages: no delivery is `device_offline`, each arrives at least once, what is repeated has its
    old id and text, and the new ones come in their order. Connections: the newest lives, each older
    one was told 4001, or died before it could be. Descriptors and tasks: as before.
    """
    server = serve("--agent", "census:CensusAgent", MOBILE_DELIVER_TOKENS=COURIER)
    delivered: list[str] = []
    received: dict[str, str] = {}
    repeats = 0

    def take(message) -> None:
        nonlocal repeats
        if message["id"] in received:
            assert received[message["id"]] == message["text"]
            repeats += 1
        received[message["id"]] = message["text"]

    async def deliver(*, task_status) -> None:
        async with open_client(server.url, token=COURIER, device=Device("cron")) as courier:
            enough = trio.Event()
            task_status.started(enough)
            while not enough.is_set():
                text = f"delivery {len(delivered)}"
                delivered.append(await courier.deliver("mobile:phone", text, id=text))
            await courier.deliver("mobile:phone", "the end", id="end")

    idle = await take_census(server)
    async with AsyncExitStack() as dying:
        phones = deque([await dying.enter_async_context(server.connect("phone"))])
        async with trio.open_nursery() as nursery:
            enough = await nursery.start(deliver)
            for _ in range(RECONNECTIONS):
                phones.append(await dying.enter_async_context(server.connect("phone")))
                take(await phones[-1].expect("message"))
                if len(phones) > LATE:
                    phones.popleft().socket.close()
            enough.set()
            while (message := await phones[-1].expect("message"))["id"] != "end":
                take(message)
        for phone in list(phones)[:-1]:
            assert await phone.receive_end() == (4001, "replaced")
    after = await take_census(server, idle)
    assert len(delivered) > RECONNECTIONS
    assert list(received) == [f"delivery {number}" for number in range(len(received))]
    assert set(delivered) <= received.keys()
    assert all(received[name] == name for name in received)
    assert repeats > 0
    assert (after.tasks, after.descriptors) == (idle.tasks, idle.descriptors)
