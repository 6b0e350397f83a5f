"""The tables of all frames to the app: whatever a scenario is about, each frame has its shape."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import define, field

from hermes_mobile.conformance.difference import Difference, Frame
from hermes_mobile.conformance.scenario import Scenario, Skip
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.protocol.frames import AvatarState, CardKind, MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_PARTS, REPLY_PIECE_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hermes_mobile.conformance.stage import Stage

Check: TypeAlias = "Callable[[Any], str]"
"""Says what a value should have been, or nothing."""


def text(value: object) -> str:
    return "" if isinstance(value, str) else "a string"


def name(value: object) -> str:
    return "" if isinstance(value, str) and value else "a string that is not empty"


def flag(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false"


def whole(low: int, high: int | None = None) -> Check:
    def check(value: object) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= low
        bound = f"{low} or more" if high is None else f"{low} to {high}"
        return "" if fits and (high is None or value <= high) else f"a whole number, {bound}"  # type: ignore[operator]

    return check


def one_of(*values: str) -> Check:
    return lambda value: "" if value in values else f"one of {', '.join(map(repr, values))}"


def anything(_: object) -> str:
    return ""


def piece(value: object) -> str:
    fits = isinstance(value, str) and len(value) <= REPLY_PIECE_CHARS
    return "" if fits else f"a string of at most {REPLY_PIECE_CHARS} characters"


def obj(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, dict):
            return "an object"
        for key, inner in required.items():
            if key not in value:
                return f"a field {key}"
            if problem := inner(value[key]):
                return f"{key}: {problem}"
        for key, inner in (optional or {}).items():
            if key in value and (problem := inner(value[key])):
                return f"{key}: {problem}"
        return ""

    return check


def array(inner: Check) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, list):
            return "an array"
        return next((f"in it, {problem}" for item in value if (problem := inner(item))), "")

    return check


DEVICE: Final = obj({"id": text, "name": text})
CAPABILITIES: Final = obj(
    {
        "text": flag,
        "voice": flag,
        "typing": flag,
        "avatar_states": array(text),
        "media_in": array(text),
        "media_out": array(text),
        "prompts": array(text),
        "edit": flag,
        "max_media_bytes": whole(1),
        "max_text_chars": whole(1),
    },
    {"receipts": flag},
)
OPTION: Final = obj({"id": name, "label": text, "style": one_of("primary", "danger", "")})

FRAMES: Final[Mapping[str, Check]] = {
    "ready": obj(
        {
            "v": whole(1),
            "session": text,
            "device": DEVICE,
            "avatar_url": text,
            "capabilities": CAPABILITIES,
        }
    ),
    "message": obj(
        {
            "id": name,
            "text": piece,
            "chunk": obj({"index": whole(0), "total": whole(1)}),
            "final": flag,
        },
        {"edit": flag},
    ),
    "media": obj(
        {
            "id": name,
            "kind": one_of(*MediaOut),
            "mime": text,
            "filename": text,
            "part": whole(0),
            "parts": whole(1, MAX_MEDIA_PARTS),
            "final": flag,
            "size": whole(0),
        },
        {"caption": text, "data": text, "url": text, "reply_to": text},
    ),
    "prompt": obj(
        {
            "id": name,
            "kind": one_of(*CardKind),
            "text": text,
            "options": array(OPTION),
            "session": text,
            "timeout_seconds": whole(0),
        },
        {"command": text, "description": text},
    ),
    "prompt_done": obj({"id": name}, {"option_id": text, "expired": flag}),
    "avatar": obj({"state": one_of(*AvatarState)}),
    "typing": obj({}, {"stop": flag}),
    "pong": obj({}, {"ts": anything}),
    "error": obj({"code": one_of(*ErrorCode), "message": text, "fatal": flag}, {"id": text}),
    "accepted": obj({"id": text}),
    "delivered": obj({"id": text, "device": text}),
}
EXTENSION: Final = {"accepted"}
"""What the reference does not know; an app sees it only when it asked for it."""
NOT_A_FRAME: Final = "anything"


@define
class Shapes:
    """Everything that was heard in a run, judged by its shape alone.

    One fault is one difference, however many scenarios meet it.
    """

    _heard: set[str] = field(factory=set)
    faults: dict[str, Difference] = field(factory=dict)
    """The first of each type."""

    def hear(self, message: str | bytes) -> Frame | None:
        """Judge a message; the frame in it, if it is one that an app has to look at (T7)."""
        self._heard.add(NOT_A_FRAME)
        frame = None
        with suppress(ValueError):
            frame = json.loads(message, object_hook=Frame)
        if (
            isinstance(message, bytes)
            or not isinstance(frame, Frame)
            or not isinstance(frame.get("t"), str)
        ):
            self._fault(NOT_A_FRAME, "text messages, each a JSON object with a string t", message)
            return None
        t = frame["t"]
        if t not in FRAMES:
            return None
        self._heard.add(t)
        if problem := FRAMES[t](frame):
            self._fault(t, f"in {t}, {problem}", frame)
        return frame

    def _fault(self, t: str, expected: str, got: object) -> None:
        self.faults.setdefault(t, Difference(expected, got))

    def judge(self, t: str) -> None:
        """*Errors*: Difference; Skip where no frame of this type was heard."""
        if fault := self.faults.get(t):
            raise fault
        if t not in self._heard:
            raise Skip(f"the server sent no {t}")


def of_all_frames() -> Iterable[Scenario]:
    """One scenario per type, to be judged when all others have been played."""
    for t in (NOT_A_FRAME, *FRAMES):
        yield Scenario(
            group="shapes",
            name=t,
            rules=(),
            reference=t not in EXTENSION,
            needs=frozenset(),
            play=partial(_judged, t),
            comes_last=True,
        )


async def _judged(t: str, stage: Stage) -> None:
    stage.shapes.judge(t)
