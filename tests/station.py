"""A house from whose host, or with whose token, services deliver (D25, D26)."""

from __future__ import annotations

from typing import Any

from house import House, Peer, open_house

CRON = "cron-token"
"""It may only deliver."""
ELSEWHERE = "203.0.113.5"
"""The address of a device that is not on this host."""


def open_station(**settings: Any) -> Any:
    """A house with a deliver token."""
    return open_house(deliver_tokens=frozenset({CRON}), **settings)


async def courier(house: House, device: str | None = None, **hello: Any) -> Peer:
    """A service with the deliver token."""
    return await house.connect(device, token=CRON, **hello)


def message(id: str) -> dict[str, Any]:
    """What the device gets of `delivery(id)`."""
    frame = {"t": "message", "id": id, "text": f"text of {id}"}
    return {**frame, "chunk": {"index": 0, "total": 1}, "final": True}
