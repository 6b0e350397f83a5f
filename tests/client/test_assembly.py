"""Chunks of files from the agent (T6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.client.assembly import MAX_BYTES, MAX_FILES, Assembly
from hermes_mobile.client.events import ReceivedFile
from hermes_mobile.protocol.frames import MediaOut, MediaPart
from hermes_mobile.protocol.limits import MIB


def part(id: str, data: bytes | None, number: int = 0, parts: int = 1, **fields: str) -> MediaPart:
    return MediaPart(
        id,
        MediaOut.DOCUMENT,
        fields.pop("mime", ""),
        fields.pop("filename", ""),
        0,
        number,
        parts,
        final=number == parts - 1,
        data=data,
        **fields,
    )


def test_a_file_of_one_chunk_is_whole_at_once() -> None:
    """D31: with all that the frame says of it."""
    frame = MediaPart(
        *("f1", MediaOut.IMAGE, "image/png", "sky.png", 4),
        caption="now",
        data=b"abcd",
        reply_to="m1",
    )
    assert Assembly().add(frame) == ReceivedFile(
        *("f1", MediaOut.IMAGE, "image/png", "sky.png", 4, b"abcd", "now"), reply_to="m1"
    )


def test_a_link_is_a_file_without_data() -> None:
    """D31: the app gets it itself."""
    file = Assembly().add(part("f1", None, url="https://files.example.com/f1"))
    assert file is not None
    assert (file.data, file.url) == (None, "https://files.example.com/f1")


@given(st.permutations(range(5)))
def test_chunks_are_placed_by_their_number(order: list[int]) -> None:
    """T6: whatever the order they come in; only the last to come completes the file."""
    assembly = Assembly()
    *before, last = [assembly.add(part("f1", b"%d" % n, n, 5)) for n in order]
    assert before == [None] * 4
    assert last is not None
    assert last.data == b"01234"
    assert (assembly.open_count, assembly.buffered_bytes) == (0, 0)


def test_what_one_chunk_lacks_another_may_carry() -> None:
    """T6: the first that has it counts."""
    assembly = Assembly()
    assembly.add(part("f1", b"a", 0, 3))
    assembly.add(part("f1", b"b", 1, 3, filename="a.txt", caption="now"))
    file = assembly.add(part("f1", b"c", 2, 3, filename="b.txt", mime="text/plain", reply_to="m1"))
    assert file is not None
    assert (file.filename, file.caption, file.mime) == ("a.txt", "now", "text/plain")
    assert file.reply_to == "m1"


@pytest.mark.parametrize(("number", "parts"), [(-1, 2), (2, 2), (0, 0), (0, 2049)])
def test_a_chunk_that_makes_no_sense_is_ignored(number: int, parts: int) -> None:
    """T7: it has no place."""
    assembly = Assembly()
    assert assembly.add(part("f1", b"a", number, parts)) is None
    assert assembly.open_count == 0


def test_a_repeated_chunk_is_ignored() -> None:
    """T6: the first one counts."""
    assembly = Assembly()
    assembly.add(part("f1", b"a", 0, 2))
    assembly.add(part("f1", b"x", 0, 2))
    file = assembly.add(part("f1", b"b", 1, 2))
    assert file is not None
    assert file.data == b"ab"


def test_another_count_of_parts_begins_the_file_anew() -> None:
    """T6: chunks of two files under one id are never mixed."""
    assembly = Assembly()
    assembly.add(part("f1", b"a", 0, 3))
    assembly.add(part("f1", b"b", 0, 2))
    file = assembly.add(part("f1", b"c", 1, 2))
    assert file is not None
    assert file.data == b"bc"


def test_a_disconnect_drops_them() -> None:
    """T6: they come again from the first chunk."""
    assembly = Assembly()
    assembly.add(part("f1", b"a", 0, 2))
    assembly.clear()
    assert (assembly.open_count, assembly.buffered_bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.sampled_from([1, MIB]))))
def test_memory_is_bounded(chunks: list[tuple[int, int, int]]) -> None:
    """T6: 16 files and 32 MiB, whatever comes; the count of bytes stays true."""
    assembly = Assembly()
    megabyte = bytes(MIB)
    for file, number, size in chunks:
        assembly.add(part(str(file), megabyte[:size], number, 4))
        assert assembly.open_count <= MAX_FILES
        assert 0 <= assembly.buffered_bytes <= MAX_BYTES
    assembly.clear()
    assert assembly.buffered_bytes == 0


def test_the_oldest_file_goes_first() -> None:
    """T6: the seventeenth pushes out the first."""
    assembly = Assembly()
    for number in range(17):
        assembly.add(part(str(number), b"a", 0, 2))
    assert assembly.add(part("0", b"b", 1, 2)) is None
    assert assembly.add(part("16", b"b", 1, 2)) is not None
