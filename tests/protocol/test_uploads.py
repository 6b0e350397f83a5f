"""Chunks into files, within the budget of a device (D17, D18)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.protocol.frames import MediaChunk, MediaIn
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB
from hermes_mobile.protocol.uploads import (
    REFUSED_UPLOADS_REMEMBERED,
    UploadedFile,
    Uploads,
    guess_mime,
    guess_suffix,
)

ALL = frozenset(MediaIn)


def chunk(
    part: int = 0, parts: int = 1, data: bytes = b"x", *, id: str = "f", kind: str = "document"
) -> MediaChunk:
    return MediaChunk(id=id, kind=kind, data=data, part=part, parts=parts)


def refusal(uploads: Uploads, refused: MediaChunk) -> ProtocolError:
    """Why `refused` is refused; always with its id, never fatally."""
    with pytest.raises(ProtocolError) as caught:
        uploads.add(refused)
    assert caught.value.id == refused.id
    assert not caught.value.fatal
    return caught.value


def test_single_part_is_a_file_at_once() -> None:
    """A file in one frame is whole, and never counts as open (D17)."""
    uploads = Uploads(ALL)
    file = uploads.add(MediaChunk("f", "image", b"\x89PNG", 0, 1, "image/png", "a.png", "look"))
    assert file == UploadedFile("f", MediaIn.IMAGE, "image/png", "a.png", "look", b"\x89PNG")
    assert uploads.open_count == 0


def test_parts_come_in_any_order_and_repeats_are_ignored() -> None:
    """The file is joined by part numbers, whatever came when and how often (D17)."""
    uploads = Uploads(ALL)
    assert uploads.add(chunk(2, 3, b"C")) is None
    assert uploads.add(chunk(0, 3, b"A")) is None
    assert uploads.add(chunk(0, 3, b"other")) is None
    assert uploads.buffered_bytes == 2
    file = uploads.add(chunk(1, 3, b"B"))
    assert file is not None
    assert file.data == b"ABC"
    assert (uploads.open_count, uploads.buffered_bytes) == (0, 0)


def test_metadata_comes_from_the_first_chunk_that_carries_it() -> None:
    """Each of the three for itself; later ones are not looked at (D18)."""
    uploads = Uploads(ALL)
    uploads.add(evolve(chunk(0, 3), filename="a.pdf"))
    uploads.add(evolve(chunk(1, 3), filename="b.png", caption="first"))
    file = uploads.add(evolve(chunk(2, 3), mime="text/x-late", caption="second"))
    assert file is not None
    assert (file.filename, file.caption, file.mime) == ("a.pdf", "first", "text/x-late")


@pytest.mark.parametrize(
    ("filename", "mime"),
    [
        ("a.pdf", "application/pdf"),
        ("photo.JPG", "image/jpeg"),
        ("voice.ogg", "audio/ogg"),
        ("a.tar.gz", "application/octet-stream"),
        ("data:text/html,.x", "application/octet-stream"),
        ("README", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_empty_mime_is_guessed_from_the_name(filename: str, mime: str) -> None:
    """A name that says nothing makes bytes of it; a compressed file is not what it holds (D18)."""
    file = Uploads(ALL).add(evolve(chunk(), filename=filename))
    assert file is not None
    assert file.mime == mime == guess_mime(filename)


@pytest.mark.parametrize(
    ("mime", "suffix"),
    [
        ("image/jpeg", ".jpg"),
        ("text/plain", ".txt"),
        ("audio/mp4", ".m4a"),
        ("video/mp4", ".mp4"),
        ("application/x-unheard-of", ""),
        ("", ""),
    ],
)
def test_a_type_has_its_usual_suffix(mime: str, suffix: str) -> None:
    """The one that people expect, where several stand for a type; none for what is unknown."""
    assert guess_suffix(mime) == suffix


def test_unknown_kind_is_unsupported() -> None:
    """The kind is judged on the first chunk, and the message says what is taken (D17)."""
    error = refusal(Uploads(ALL), chunk(kind="hologram"))
    assert error.code is ErrorCode.UNSUPPORTED_FRAME
    assert (
        error.message == "kind: one of those taken here is expected: image, video, document, audio"
    )


def test_kind_that_the_agent_does_not_take_is_unsupported() -> None:
    """A known kind may still be more than the agent can work with (D18)."""
    error = refusal(Uploads(frozenset({MediaIn.IMAGE})), chunk(kind="video"))
    assert error.code is ErrorCode.UNSUPPORTED_FRAME
    assert error.message.endswith(": image")
    assert refusal(Uploads(frozenset()), chunk()).message.endswith(": none")


@pytest.mark.parametrize(
    ("change", "field"), [({"kind": "image"}, "kind:"), ({"parts": 4}, "parts:")]
)
def test_kind_and_parts_stay_the_same(change: dict[str, Any], field: str) -> None:
    """A chunk that contradicts the first one ends the upload (D17)."""
    uploads = Uploads(ALL)
    uploads.add(chunk(0, 3))
    error = refusal(uploads, evolve(chunk(1, 3), **change))
    assert error.code is ErrorCode.BAD_FRAME
    assert error.message.startswith(f"{field} must stay")
    assert uploads.open_count == 0
    assert uploads.add(chunk(2, 3)) is None
    assert uploads.open_count == 0


def test_single_part_with_the_id_of_an_open_upload_ends_it() -> None:
    """One part where there were three is a change of `parts` as well (D17)."""
    uploads = Uploads(ALL)
    uploads.add(chunk(0, 3))
    assert refusal(uploads, chunk(0, 1)).code is ErrorCode.BAD_FRAME
    assert uploads.add(chunk(1, 3)) is None
    assert uploads.open_count == 0


def test_ninth_open_upload_is_too_big() -> None:
    """The ninth is refused and the eight go on; a single-part file needs no place (D17)."""
    uploads = Uploads(ALL)
    for number in range(8):
        uploads.add(chunk(0, 2, id=f"f{number}"))
    error = refusal(uploads, chunk(0, 2, id="ninth"))
    assert error.code is ErrorCode.TOO_BIG
    assert error.message == "id: at most 8 uploads are open at a time"
    assert uploads.add(chunk(1, 2, id="ninth")) is None
    assert uploads.add(chunk(0, 1, id="single")) is not None
    assert all(uploads.add(chunk(1, 2, id=f"f{number}")) for number in range(8))


def test_sum_of_open_buffers_is_bounded() -> None:
    """At exactly 8 MiB all is well; beyond it the upload that asks for more is dropped (D17)."""
    uploads = Uploads(ALL)
    uploads.add(chunk(0, 2, bytes(5 * MIB), id="a"))
    uploads.add(chunk(0, 3, bytes(3 * MIB), id="b"))
    assert uploads.buffered_bytes == 8 * MIB
    assert refusal(uploads, chunk(1, 3, id="b")).code is ErrorCode.TOO_BIG
    assert uploads.buffered_bytes == 5 * MIB
    file = uploads.add(chunk(1, 2, bytes(3 * MIB), id="a"))
    assert file is not None
    assert len(file.data) == MAX_MEDIA_BYTES


def test_last_part_needs_its_place_too() -> None:
    """A part that would complete its file is held beside the others like any part (D17)."""
    uploads = Uploads(ALL)
    uploads.add(chunk(0, 2, bytes(5 * MIB), id="a"))
    uploads.add(chunk(0, 2, bytes(3 * MIB), id="b"))
    assert refusal(uploads, chunk(1, 2, id="b")).code is ErrorCode.TOO_BIG


@pytest.mark.parametrize("parts", [1, 2])
def test_file_is_bounded(parts: int) -> None:
    """A file holds 8 MiB and not a byte more, in one part or several (D17)."""
    uploads = Uploads(ALL)
    if parts == 2:
        uploads.add(chunk(0, 2))
    big = bytes(MAX_MEDIA_BYTES + 2 - parts)
    error = refusal(uploads, chunk(parts - 1, parts, big))
    assert error.code is ErrorCode.TOO_BIG
    assert error.message == "data: a file is at most 8388608 bytes"
    assert uploads.open_count == 0
    assert uploads.add(chunk(0, 1, bytes(MAX_MEDIA_BYTES), id="fits")) is not None


def test_refused_upload_starts_again_with_part_0() -> None:
    """What follows of a refused upload is ignored, until the app begins it anew (D17)."""
    uploads = Uploads(ALL)
    refusal(uploads, chunk(0, 2, kind="hologram"))
    assert uploads.add(chunk(1, 2, kind="hologram")) is None
    assert uploads.add(chunk(0, 2)) is None
    assert uploads.open_count == 1
    assert uploads.add(chunk(1, 2)) is not None


def test_refused_single_part_leaves_no_trace() -> None:
    """Nothing follows a refused single part, so nothing is ignored for it (D17)."""
    uploads = Uploads(ALL)
    refusal(uploads, chunk(kind="hologram"))
    uploads.add(chunk(1, 2))
    assert uploads.open_count == 1


def test_refused_ids_are_bounded() -> None:
    """Whoever makes up ids makes the server forget old refusals, not remember more (D17)."""
    uploads = Uploads(ALL)
    for number in range(REFUSED_UPLOADS_REMEMBERED + 1):
        refusal(uploads, chunk(0, 2, id=str(number), kind="hologram"))
    assert len(uploads._refused) == REFUSED_UPLOADS_REMEMBERED
    assert uploads.add(chunk(1, 2, id="1", kind="hologram")) is None
    refusal(uploads, chunk(1, 2, id="0", kind="hologram"))


def test_release_drops_everything() -> None:
    """No buffer outlives its connection (D17)."""
    uploads = Uploads(ALL)
    uploads.add(chunk(0, 2))
    uploads.release()
    assert (uploads.open_count, uploads.buffered_bytes) == (0, 0)
    assert uploads.add(chunk(1, 2)) is None


def test_names_stay_out_of_the_representation() -> None:
    """A file that ends up in a log line shows neither name, caption nor bytes (D39)."""
    file = Uploads(ALL).add(evolve(chunk(data=b"secret"), filename="secret", caption="secret"))
    assert "secret" not in repr(file)


@contextmanager
def miniature() -> Iterator[None]:
    """The same rules with a budget of 80 bytes, so that a property meets its edges quickly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hermes_mobile.protocol.uploads.MAX_MEDIA_BYTES", 80)
        patch.setattr("hermes_mobile.protocol.uploads.MAX_UPLOAD_BUFFER_BYTES", 80)
        yield


@st.composite
def interleaved_files(draw: st.DrawFn) -> list[MediaChunk]:
    """The chunks of up to twelve files, at times too many or too large, in any order."""
    chunks = []
    for number in range(draw(st.integers(1, 12))):
        sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
        chunks += [
            chunk(part, len(sizes), bytes([number * 4 + part]) * size, id=f"f{number}")
            for part, size in enumerate(sizes)
        ]
    repeated = draw(st.lists(st.sampled_from(chunks), max_size=5))
    return draw(st.permutations(chunks + repeated))


@miniature()
@given(interleaved_files())
def test_any_interleaving_yields_the_file_or_a_named_refusal(chunks: list[MediaChunk]) -> None:
    """Never more than the budget is held, and a file that comes out is the one sent (D17)."""
    uploads = Uploads(ALL)
    once = {(sent.id, sent.part): sent.data for sent in chunks}
    whole, refused = set(), set()
    for sent in chunks:
        try:
            file = uploads.add(sent)
        except ProtocolError as error:
            refused.add((error.id, error.code))
        else:
            if file is not None:
                assert file.data == b"".join(once[file.id, part] for part in range(sent.parts))
                whole.add(file.id)
        assert uploads.buffered_bytes <= 80
        assert uploads.open_count <= 8
    assert {code for _, code in refused} <= {ErrorCode.TOO_BIG}
    assert whole | {named for named, _ in refused} == {sent.id for sent in chunks}
