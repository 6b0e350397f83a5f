"""What an app is told, for `match`. Most events are frames of the protocol, as they came."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

from hermes_mobile.protocol.app_codec import Ready
from hermes_mobile.protocol.frames import (
    Avatar,
    Delivered,
    Error,
    MediaOut,
    Message,
    PromptCard,
    PromptDone,
    Typing,
)


class ConnectionState(StrEnum):
    IDLE = "idle"
    """Not connected, and not trying to be: before and after the `async with` block."""
    CONNECTING = "connecting"
    """The first connection is being made; what is sent waits for it."""
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    """The connection was lost or could not be made; attempts follow by themselves."""
    FAILED = "failed"
    """Refused, replaced, or given up: nothing follows."""


@frozen
class StateChanged:
    """`attempt` counts from 1 while reconnecting; `pause` is the time until then, in seconds."""

    state: ConnectionState
    attempt: int = 0
    pause: float = 0.0


@frozen
class ReceivedFile:
    """A whole file: `data`, or a `url` where the app gets it itself. `size` is in bytes."""

    id: str
    kind: MediaOut
    mime: str
    filename: str = field(repr=False)
    size: int
    data: bytes | None = field(default=None, repr=False)
    caption: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    reply_to: str = ""


Event: TypeAlias = (
    StateChanged
    | Ready
    | Message
    | Typing
    | Avatar
    | PromptCard
    | PromptDone
    | ReceivedFile
    | Error
    | Delivered
)
