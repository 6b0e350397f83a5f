"""Whatever an app sends once it is connected, it is answered, and nobody else notices."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import structlog
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from house import House, Peer, open_house

if TYPE_CHECKING:
    from collections.abc import Sequence

PRIVATE = "only-between-us"
SENT_TO_APPS = {
    "accepted",
    "avatar",
    "delivered",
    "error",
    "media",
    "message",
    "pong",
    "prompt",
    "prompt_done",
    "typing",
}
"""Every type but `ready`, which comes once."""

ids = st.sampled_from(["a", "b", "c", 7, " a "])
words = st.sampled_from(
    [PRIVATE, f"/ask {PRIVATE} | A | B", f"/ask {PRIVATE}", "/run ls", "/confirm x", "/stop", " "]
)
payloads = st.binary(max_size=8).map(lambda data: base64.b64encode(data).decode())
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def frames_of(t: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Frames of type `t`, where each field is right, or anything, or missing."""
    wrong = {name: st.one_of(right, right, anything) for name, right in fields.items()}
    head = {"t": st.just(t)}
    return st.fixed_dictionaries(head | fields) | st.fixed_dictionaries(head, optional=wrong)


parts = st.integers(-1, 4)
media = st.fixed_dictionaries({"kind": st.sampled_from(["image", "voice"]), "data": payloads})
frames = st.one_of(
    frames_of("text", id=ids, text=words),
    frames_of("audio", id=ids, format=st.sampled_from(["ogg", "mp3"]), data=payloads, text=words),
    frames_of(
        "media",
        id=ids,
        kind=st.sampled_from(["image", "document", "voice"]),
        data=payloads,
        part=parts,
        parts=parts,
        filename=st.just(f"{PRIVATE}.txt"),
        caption=words,
    ),
    frames_of(
        "prompt", prompt_id=ids, option_id=st.sampled_from(["once", "c0", "other"]), text=words
    ),
    frames_of(
        "deliver",
        id=ids,
        target=st.sampled_from(["phone", "mobile:tablet", "nobody"]),
        text=words,
        media=media,
        keep=st.booleans(),
    ),
    frames_of("ping", ts=anything),
    frames_of("hello", token=st.just(PRIVATE), device=anything, user=anything),
    frames_of("ack", id=ids),
    frames_of("typing", stop=st.booleans()),
    st.dictionaries(st.text(max_size=4), anything, max_size=3),
    anything,
)


async def answer_cards(peer: Peer, seen: Sequence[dict[str, Any]]) -> None:
    for card in (frame for frame in seen if frame["t"] == "prompt"):
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})


async def live(house: House, sent: Sequence[Any]) -> list[dict[str, Any]]:
    """Send everything, answer the cards that come of it, and return all that came back."""
    peer, tablet = await house.connect(receipts=True), await house.connect("tablet")
    seen: list[dict[str, Any]] = []
    for frame in sent:
        await peer.send(frame)
        seen += (frames := await peer.drain())
        await answer_cards(peer, frames)
    seen += await peer.receive_for(5.0)
    seen += await peer.drain()
    assert {frame["t"] for frame in await tablet.receive_for(5.0)} <= {"message", "media"}
    return seen


@settings(max_examples=25)
@given(st.lists(frames, max_size=12))
def test_whatever_an_app_sends_it_is_answered(sent: list[Any]) -> None:
    """D2, D14, D35, D39: no frame ends the connection, is a fault, or leaves a word in the log."""
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        async with open_house() as house:
            seen.extend(await live(house, sent))

    with structlog.testing.capture_logs() as logs:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert {frame["t"] for frame in seen} <= SENT_TO_APPS
    assert not any(frame.get("fatal") for frame in seen)
    assert [entry for entry in logs if entry["log_level"] in {"error", "critical"}] == []
    assert PRIVATE not in str(logs)
