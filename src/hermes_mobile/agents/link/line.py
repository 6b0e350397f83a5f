"""What carries the messages of the link, as far as an agent knows of it."""

from __future__ import annotations

from typing import Protocol


class OverlongError(Exception):
    """A message of the agent is longer than any may be."""


class GoneError(Exception):
    """The agent has left before it was told."""


class Line(Protocol):
    """A connection to an agent, on which whole messages come and go.

    *Errors* of both: trio.BrokenResourceError when it is of no more use.
    """

    async def receive(self) -> bytes | str | None:
        """The next message; None when the agent has ended. Errors: OverlongError."""

    async def send(self, message: bytes) -> None:
        """Send a message whole. *Cancellation*: nothing can follow what was begun."""
