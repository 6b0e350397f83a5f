"""What the plugin keeps in mind: open turns, and replies that grow."""

from __future__ import annotations

import asyncio

import pytest

from hermes_mobile.hermes.files import MAX_FILE_BYTES, FileRefusedError, read_file
from hermes_mobile.hermes.link import LinkLostError, RefusedError
from hermes_mobile.hermes.streams import Streams
from hermes_mobile.hermes.turns import Turn, Turns


def test_the_oldest_turn_of_a_device_is_spoken_in():
    """The one that Hermes works on; other devices have their own."""
    turns = Turns()
    for number, device in enumerate(["phone", "tablet", "phone"]):
        turns.begin(Turn(f"t{number}", device, f"m{number}"))
    assert turns.current("phone").id == "t0"
    assert turns.current("tablet").id == "t1"
    assert [turn.id for turn in turns.of("phone")] == ["t0", "t2"]
    assert turns.forget("t0").message == "m0"
    assert turns.forget("t0") is None
    assert turns.current("phone").id == "t2"
    assert turns.current("watch") is None


def test_after_a_new_link_only_what_goes_on_is_kept():
    """What the server forgot is forgotten, and what nobody here knows is told."""
    turns = Turns()
    turns.begin(Turn("t0", "phone", "m0"))
    turns.begin(Turn("t1", "phone", "m1"))
    assert turns.keep({"t1", "t2"}) == {"t2"}
    assert [turn.id for turn in turns.of("phone")] == ["t1"]


class FakeLink:
    def __init__(self):
        self.requests = []
        self.fails = None
        self.ids = iter("123456789")

    def make_id(self):
        return next(self.ids)

    async def request(self, device, t, /, **fields):
        self.requests.append((device, t, fields))
        if self.fails:
            raise self.fails
        return {}

    @property
    def shown(self):
        return [(fields["text"], fields["final"]) for _, _, fields in self.requests]


IN_TURN = {"turn": "t1"}


def test_a_stream_is_shown_in_states():
    """Where it was begun is where it goes on; ended twice it is shown once."""

    async def play():
        link = FakeLink()
        streams = Streams(link)
        name = (await streams.begin("phone", IN_TURN, "one"))["message"]
        await streams.edit("phone", name, "one two", final=False)
        await streams.edit("phone", name, "one two three", final=True)
        await streams.edit("phone", name, "one two three", final=True)
        assert link.shown == [("one", False), ("one two", False), ("one two three", True)]
        assert {fields["stream"] for _, _, fields in link.requests} == {name}
        assert all(fields["turn"] == "t1" for _, _, fields in link.requests)
        with pytest.raises(RefusedError):
            await streams.edit("phone", name, "four", final=False)

    asyncio.run(play())


def test_streams_left_open_end_with_what_they_said():
    """Those of one device, whether the link takes it or not."""

    async def play():
        link = FakeLink()
        streams = Streams(link)
        await streams.begin("phone", IN_TURN, "phone's")
        await streams.begin("tablet", IN_TURN, "tablet's")
        await streams.finish("phone")
        assert link.shown[2:] == [("phone's", True)]
        link.fails = LinkLostError()
        await streams.finish("tablet")
        assert link.shown[3:] == [("tablet's", True)]
        await streams.finish("tablet")
        assert len(link.shown) == 4

    asyncio.run(play())


def test_a_stream_that_fails_is_over():
    """Hermes is told once, and goes on in another message."""

    async def play():
        link = FakeLink()
        streams = Streams(link)
        name = (await streams.begin("phone", IN_TURN, "one"))["message"]
        link.fails = LinkLostError()
        with pytest.raises(LinkLostError):
            await streams.edit("phone", name, "one two", final=False)
        with pytest.raises(RefusedError):
            await streams.edit("phone", name, "one two", final=False)

    asyncio.run(play())


def test_a_file_is_read_for_the_link(tmp_path):
    """Data, name, and a guess at what it is."""
    path = tmp_path / "note.txt"
    path.write_bytes(b"hello")
    assert read_file(str(path), "document", "a note") == {
        "kind": "document",
        "data": "aGVsbG8=",
        "mime": "text/plain",
        "filename": "note.txt",
        "caption": "a note",
    }
    assert read_file(str(path), "document", name="other")["filename"] == "other"


@pytest.mark.parametrize(
    ("size", "said"), [(None, "cannot be read"), (0, "is empty"), (MAX_FILE_BYTES + 1, "at most")]
)
def test_a_file_that_cannot_be_sent_is_told(tmp_path, size, said):
    """In words for the person."""
    path = tmp_path / "file.bin"
    if size is not None:
        with path.open("wb") as file:
            file.truncate(size)
    with pytest.raises(FileRefusedError, match=rf"file\.bin .*{said}"):
        read_file(str(path), "document")
