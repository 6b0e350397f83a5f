"""`docs/protocol.md` says what the code does: its numbers, its codes, its examples, its rules."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pybase64
import pytest

from hermes_mobile.protocol import limits
from hermes_mobile.protocol.codec import decode, decode_hello, encode
from hermes_mobile.protocol.errors import CloseCode, ErrorCode
from hermes_mobile.protocol.frames import (
    Accepted,
    Avatar,
    AvatarState,
    ClientFrame,
    Delivered,
    Device,
    Error,
    Hello,
    MediaPart,
    Message,
    Option,
    Pong,
    PromptCard,
    PromptDone,
    Ready,
    ServerFrame,
    Typing,
    Unknown,
)

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "protocol.md").read_text()


def examples(direction: str) -> list[str]:
    return re.findall(rf"^```json {direction}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def table(heading: str) -> list[list[str]]:
    """The cells of the first table under `heading`, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows[2:]]


def frame_of(wire: dict[str, Any]) -> ServerFrame:  # noqa: C901 - one case per frame
    """The frame that is written as `wire`."""
    match wire:
        case {"t": "ready", "session": session, "device": device, "avatar_url": url, **rest}:
            receipts = rest["capabilities"].get("receipts", False)
            return Ready(session, Device(**device), url, receipts=receipts)
        case {"t": "message", "chunk": chunk, **rest}:
            return Message(**rest, **chunk)
        case {"t": "media", **rest}:
            data = pybase64.b64decode(rest["data"]) if "data" in rest else None
            return MediaPart(**rest | {"data": data})
        case {"t": "prompt", "options": options, **rest}:
            return PromptCard(options=tuple(Option(**each) for each in options), **rest)
        case {"t": "prompt_done", **rest}:
            return PromptDone(**rest)
        case {"t": "avatar", "state": state}:
            return Avatar(AvatarState(state))
        case {"t": "typing", **rest}:
            return Typing(**rest)
        case {"t": "pong", "ts": ts}:
            return Pong(json.dumps(ts).encode())
        case {"t": "error", **rest}:
            return Error(**rest)
        case {"t": "accepted", "id": id}:
            return Accepted(id)
        case {"t": "delivered", **rest}:
            return Delivered(**rest)
        case _:
            raise ValueError(f"no frame of the server: {wire}")


def test_limits() -> None:
    """The table of limits is limits.py, number by number."""
    numbers = {name: value for name, value in vars(limits).items() if name.isupper()}
    del numbers["KIB"], numbers["MIB"]
    told = {name: int(value.split()[0].replace(",", "")) for name, value, _ in table("Limits")}
    assert told == numbers


def test_codes() -> None:
    """Every error code and every close code has its row, and there is no other row."""
    assert [row[0] for row in table("Errors")] == list(ErrorCode)
    assert [int(row[0]) for row in table("Close codes")] == list(CloseCode)


@pytest.mark.parametrize("example", examples("app"))
def test_example_from_the_app(example: str) -> None:
    """Every example of a frame from the app is one that the server takes."""
    frame = decode(example)
    assert not isinstance(frame, Unknown)
    if isinstance(frame, Hello):
        assert decode_hello(example) == frame


@pytest.mark.parametrize("example", examples("server"))
def test_example_to_the_app(example: str) -> None:
    """Every example of a frame to the app is, but for spaces, what the server writes."""
    wire = json.loads(example)
    written = json.dumps(wire, ensure_ascii=False, separators=(",", ":")).encode()
    assert encode(frame_of(wire)) == written


def test_every_type_has_an_example() -> None:
    """No frame, of either direction, is without one."""
    from_app = {type(decode(example)) for example in examples("app")}
    assert from_app == set(get_args(ClientFrame)) - {Unknown}
    to_app = {type(frame_of(json.loads(example))) for example in examples("server")}
    assert to_app == set(get_args(ServerFrame))


@pytest.mark.parametrize(("letter", "last"), [("D", 40), ("T", 10)])
def test_every_rule_is_told(letter: str, last: int) -> None:
    """Each numbered rule has its place in the text, not only in the index."""
    text = PAGE.split("\n## Index of rules\n")[0]
    told = {int(number) for number in re.findall(rf"\b{letter}(\d+)\b", text)}
    assert told == set(range(1, last + 1))


def test_links_lead_somewhere() -> None:
    """Every link inside the page names one of its headings."""
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors: set[str] = set()
    for heading in headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchors.add(f"{anchor}-1" if anchor in anchors else anchor)
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
