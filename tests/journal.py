"""What a client was told, for the tests of it."""

from __future__ import annotations

import trio

NEVER = 10_000.0
"""Seconds after which a test that waits has failed: virtual, so they cost nothing."""


async def events_until(client, last, *, and_one_more: bool = False):
    """The events up to and with the first that equals `last`, or is of that type."""
    events = []
    with trio.fail_after(NEVER):
        async for event in client:
            events.append(event)
            if event == last or (isinstance(last, type) and isinstance(event, last)):
                break
        if and_one_more:
            events.append(await anext(client))
    return events
