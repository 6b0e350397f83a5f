"""What the agent says, frame by frame: replies in pieces, files in chunks, and misuse of the port."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from trio.testing import MockClock

from cast import Scripted
from hermes_mobile.agents import Mode, OutgoingFile, TurnError
from hermes_mobile.protocol.frames import MediaOut
from hermes_mobile.protocol.slicing import pieces
from hermes_mobile.server.turn import MAX_CHOICES, MAX_WORDS_CHARS
from house import open_house

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermes_mobile.agents import Turn


def words(count: int, name: str = "word") -> str:
    return " ".join(f"{name}{number}" for number in range(count))


def spoken(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The message and media frames among `frames`."""
    return [frame for frame in frames if frame["t"] in {"message", "media"}]


# Replies, in pieces


async def test_a_long_reply_is_pieces_of_one_message(autojump_clock: MockClock) -> None:
    """D28: one id, indexes from 0, at most 3,500 code points each, final on the last, nothing lost."""
    text = words(1500)
    async with open_house() as house:
        peer = await house.connect()
        await house.hub.conversation("phone").reply(text)
        frames = spoken(await peer.drain())
    assert "".join(frame["text"] for frame in frames) == text
    assert [frame["text"] for frame in frames] == pieces(text)
    assert max(len(frame["text"]) for frame in frames) <= 3500
    assert [frame["chunk"] for frame in frames] == [{"index": i, "total": 4} for i in range(4)]
    assert [frame["final"] for frame in frames] == [False, False, False, True]
    assert len({frame["id"] for frame in frames}) == 1
    assert not any("edit" in frame for frame in frames)


async def test_reply_returns_the_id_of_its_message(autojump_clock: MockClock) -> None:
    """The port: the id that `reply` and `send_file` return is the one on the wire."""
    async with open_house() as house:
        peer = await house.connect()
        talk = house.hub.conversation("phone")
        ids = [await talk.reply("a"), await talk.send_file(OutgoingFile(MediaOut.IMAGE, b"x"))]
        frames = spoken(await peer.drain())
    assert [frame["id"] for frame in frames] == ids


async def test_pieces_and_chunks_are_consecutive(autojump_clock: MockClock) -> None:
    """D28: of turns that speak at once, no piece or chunk stands between those of another's unit."""

    async def speak(turn: Turn) -> None:
        for _ in range(4):
            await turn.reply(words(1000))
            await turn.send_file(OutgoingFile(MediaOut.DOCUMENT, bytes(20_000)))

    async with open_house(
        Scripted(speak, Mode.CONCURRENT), media_chunk_bytes=4096, outbox_frames=3
    ) as house:
        house.send_buffer = 4096
        peer = await house.connect()
        for message in ("m1", "m2", "m3"):
            await peer.say(message, "go")
        frames: list[dict[str, Any]] = []
        while sum(frame["final"] for frame in frames) < 3 * 8:
            frames += spoken([await peer.receive()])  # type: ignore[list-item]
    parts = iter(frames)
    for first in parts:
        total = first["parts"] if first["t"] == "media" else first["chunk"]["total"]
        unit = [first, *(next(parts) for _ in range(total - 1))]
        assert {frame["id"] for frame in unit} == {first["id"]}
        assert [frame["final"] for frame in unit] == [False] * (total - 1) + [True]


async def test_a_file_of_some_chunks_has_size_and_metadata(autojump_clock: MockClock) -> None:
    """D31: parts from 0 of the set size, `size` of the whole, `final` on the last, all the data."""
    data = bytes(range(256)) * 40
    file = OutgoingFile(MediaOut.DOCUMENT, data, "a.bin", caption="Look", reply_to="m1")
    async with open_house(media_chunk_bytes=4096) as house:
        peer = await house.connect()
        await house.hub.conversation("phone").send_file(file)
        frames = spoken(await peer.drain())
    assert [(frame["part"], frame["parts"], frame["final"]) for frame in frames] == [
        (0, 3, False),
        (1, 3, False),
        (2, 3, True),
    ]
    assert {frame["size"] for frame in frames} == {10_240}
    assert b"".join(base64.b64decode(frame["data"]) for frame in frames) == data
    assert frames[0]["caption"] == "Look"
    assert {(frame["kind"], frame["filename"], frame["reply_to"]) for frame in frames} == {
        ("document", "a.bin", "m1")
    }


# Misuse


BIG = OutgoingFile(MediaOut.VIDEO, bytes(8 * 1024 * 1024 + 1))


async def use_after_the_end(turn: Turn) -> None:
    async with turn.stream() as stream:
        await stream.update("a")
    await stream.update("b")


async def stream_bytes(turn: Turn) -> None:
    async with turn.stream() as stream:
        await stream.update(b"bytes")


@pytest.mark.parametrize(
    "misuse",
    [
        lambda turn: turn.reply(""),
        lambda turn: turn.reply("x" * 30_000),
        lambda turn: turn.send_file(OutgoingFile(MediaOut.IMAGE)),
        lambda turn: turn.send_file(BIG),
        lambda turn: turn.ask_approval(" "),
        lambda turn: turn.ask_approval("ls", options=("perhaps",)),
        lambda turn: turn.ask_confirmation(""),
        lambda turn: turn.ask(""),
        lambda turn: turn.ask("What?", ["a", ""]),
        lambda turn: turn.ask("What?", ttl=0),
        lambda turn: turn.ask("What?", ttl=-1),
        lambda turn: turn.ask("What?", ttl=float("inf")),
        lambda turn: turn.ask("What?", ttl=float("nan")),
        use_after_the_end,
        lambda turn: turn.reply(b"bytes"),
        stream_bytes,
        lambda turn: turn.ask_approval("ls", description=b"bytes"),
        lambda turn: turn.ask_confirmation(b"bytes"),
        lambda turn: turn.ask("What?", [b"bytes"]),
        lambda turn: turn.ask("What?", ["a"] * (MAX_CHOICES + 1)),
        lambda turn: turn.ask("What?", ["a" * MAX_WORDS_CHARS]),
        lambda turn: turn.ask_approval("ls", description="a" * MAX_WORDS_CHARS),
        lambda turn: turn.send_file(
            OutgoingFile(MediaOut.IMAGE, b"x", filename="a" * (MAX_WORDS_CHARS + 1))
        ),
    ],
)
async def test_misuse_of_the_port_is_a_turn_error(
    autojump_clock: MockClock, misuse: Callable[[Turn], Awaitable[None]]
) -> None:
    """The port: what cannot be said raises TurnError, and nothing of it reaches the app."""

    async def speak(turn: Turn) -> None:
        with pytest.raises(TurnError):
            await misuse(turn)
        await turn.reply("done")

    async with open_house(Scripted(speak), keep_bytes=100_000) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        frames = await peer.receive_until("typing", stop=True)
    said = [frame for frame in frames if frame["t"] not in {"avatar", "typing"}]
    assert [frame.get("text") for frame in said if not frame.get("edit")][-1] == "done"
    assert all(frame["t"] == "message" for frame in said)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "image"},
        {"data": "text"},
        {"filename": None},
        {"mime": b"image/png"},
        {"caption": 1},
        {"url": b"https://example.com"},
        {"reply_to": 7},
    ],
)
def test_a_file_is_made_of_the_right_types(values: dict[str, Any]) -> None:
    """The port: what would fail in the writer, for each connection anew, fails in the agent's hands."""
    with pytest.raises(TypeError):
        OutgoingFile(**{"kind": MediaOut.IMAGE, "data": b"x", **values})


async def test_a_lone_surrogate_is_replaced(autojump_clock: MockClock) -> None:
    """D2: what no UTF-8 can hold becomes U+FFFD, in replies, streams, files and cards alike."""

    async def speak(turn: Turn) -> None:
        await turn.reply("a\ud800b")
        async with turn.stream() as stream:
            await stream.update("c\udc00")
        await turn.send_file(OutgoingFile(MediaOut.IMAGE, b"x", "\ud800.png", caption="\udfff"))
        await turn.ask("\ud800?", ["\udc00"])

    async with open_house(Scripted(speak)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        frames = await peer.receive_until("prompt")
    texts = [frame["text"] for frame in frames if "text" in frame]
    assert texts == ["a\ufffdb", "c\ufffd", "\ufffd?"]
