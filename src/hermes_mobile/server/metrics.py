"""What a server counts of itself: plain numbers, cheap enough to be kept on every frame.

How things stand now (open connections, queue depths) is not counted here: it is looked up in the hub
when someone asks. Every key comes from a closed set, listed below; no key names a device (D39).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.protocol.frames import (
    Accepted,
    Ack,
    Audio,
    Avatar,
    CardKind,
    Deliver,
    Delivered,
    Error,
    Hello,
    MediaChunk,
    MediaPart,
    Message,
    Ping,
    Pong,
    PromptAnswer,
    PromptCard,
    PromptDone,
    Ready,
    Text,
    Typing,
    Unknown,
    UserTyping,
)

if TYPE_CHECKING:
    from hermes_mobile.protocol.frames import ClientFrame, ServerFrame

INVALID: Final = "invalid"
"""Counts frames that were refused before their type meant anything."""
CLIENT_FRAMES: Final[dict[type[ClientFrame], str]] = {
    Hello: "hello",
    Text: "text",
    Audio: "audio",
    MediaChunk: "media",
    PromptAnswer: "prompt",
    UserTyping: "typing",
    Ping: "ping",
    Ack: "ack",
    Deliver: "deliver",
    Unknown: "unknown",
}
SERVER_FRAMES: Final[dict[type[ServerFrame], str]] = {
    Ready: "ready",
    Message: "message",
    MediaPart: "media",
    PromptCard: "prompt",
    PromptDone: "prompt_done",
    Avatar: "avatar",
    Typing: "typing",
    Pong: "pong",
    Accepted: "accepted",
    Delivered: "delivered",
}
"""All but `Error`, which counts by its code: the two sets of names have nothing in common."""

HELLO_REFUSALS: Final = (
    ErrorCode.AUTH_FAILED,
    ErrorCode.FORBIDDEN,
    ErrorCode.BAD_FRAME,
    ErrorCode.TOO_BIG,
    ErrorCode.INTERNAL_ERROR,
    "timeout",
    "throttled",
    "pending",
    "no_websocket",
)
"""The last three are answered in HTTP: 429, 503, and every other status."""
TURN_OUTCOMES: Final = ("done", "failed", "stopped", "cut")
"""`stopped` by the person, `cut` by the server's shutdown."""
WAKE_OUTCOMES: Final = ("done", "failed")
CARD_OUTCOMES: Final[dict[CardKind, tuple[str, ...]]] = {
    CardKind.EXEC_APPROVAL: ("once", "session", "always", "deny", "expired", "withdrawn"),
    CardKind.SLASH_CONFIRM: ("once", "always", "cancel", "expired", "withdrawn"),
    CardKind.CLARIFY: ("choice", "other", "expired", "withdrawn"),
}

TURN_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the histogram's buckets: from an echo to an afternoon's work."""


class Histogram:
    """How many values fell into each bucket. `bounds` ascend and are inclusive."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """One per bound, and one for what lies beyond the last."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Metrics:
    """Counters since the start; whoever sees something happen counts it here."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "cards",
        "connections",
        "frames_in",
        "frames_out",
        "hello_refusals",
        "received_failed",
        "turn_seconds",
        "turns",
        "units_confirmed",
        "units_dropped",
        "upload_bytes",
        "uploads_completed",
        "uploads_refused",
        "wakes",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.hello_refusals: Counter[str] = Counter()
        self.frames_in: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        """The JSON of the frames."""
        self.frames_out: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        """The JSON of the frames with its WebSocket header."""
        self.turns: Counter[str] = Counter()
        self.turn_seconds = Histogram(TURN_SECONDS)
        self.cards: Counter[tuple[CardKind, str]] = Counter()
        self.uploads_completed = 0
        self.uploads_refused = 0
        self.upload_bytes = 0
        self.received_failed = 0
        self.wakes: Counter[str] = Counter()
        self.units_confirmed = 0
        self.units_dropped = 0

    def refused_in_http(self, status: HTTPStatus) -> None:
        match status:
            case HTTPStatus.TOO_MANY_REQUESTS:
                self.hello_refusals["throttled"] += 1
            case HTTPStatus.SERVICE_UNAVAILABLE:
                self.hello_refusals["pending"] += 1
            case _:
                self.hello_refusals["no_websocket"] += 1

    def received(self, frame: ClientFrame | None, data: str | bytes) -> None:
        """Count a message of a peer, and the frame that it held; None is one that was refused."""
        name = INVALID if frame is None else CLIENT_FRAMES[type(frame)]
        self.frames_in[name] += 1
        # To ask a string whether it is ASCII costs nothing, and what is large always is.
        if isinstance(data, str) and not data.isascii():
            data = data.encode()
        self.bytes_in[name] += len(data)

    def sent(self, name: str, size: int) -> None:
        """Count a frame to a peer; `name` as `frame_name` has it, `size` in bytes on the wire."""
        self.frames_out[name] += 1
        self.bytes_out[name] += size

    def turn_ended(self, outcome: str, seconds: float) -> None:
        self.turns[outcome] += 1
        self.turn_seconds.observe(seconds)

    def card_answered(self, kind: CardKind, option: str) -> None:
        is_choice = kind is CardKind.CLARIFY and option != "other"
        self.cards[kind, "choice" if is_choice else option] += 1

    def upload_completed(self, size: int) -> None:
        self.uploads_completed += 1
        self.upload_bytes += size


def frame_name(frame: ServerFrame) -> str:
    """What a frame to a peer counts as: its type, or an error's code."""
    return frame.code if isinstance(frame, Error) else SERVER_FRAMES[type(frame)]
