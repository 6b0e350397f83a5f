"""Replies into pieces, files into chunks (D28, D31)."""

from itertools import pairwise

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MEDIA_CHUNK_BYTES, REPLY_PIECE_CHARS
from hermes_mobile.protocol.slicing import cut, parts, pieces

FAMILY = "👩\u200d👩\u200d👧"
E_ACUTE = "e\u0301"

tricky = st.text(
    st.sampled_from(
        [
            *"ab \n\r🇩🇪👩🏽",
            "\u0301",
            "\u200d",
            "\ufe0f",
            "\u0600",
            "क",
            "\u094d",
            "ष",
            "\u0903",
            "한",
            "\u1100",
        ]
    )
    | st.characters(codec="utf-8"),
    max_size=80,
)


def boundaries(text: str) -> set[int]:
    """Where clusters end, found by reading the whole text: the slow truth."""
    return {match.end() for match in regex.finditer(r"\X", text)}


def test_short_text_is_one_piece() -> None:
    """What fits is not cut, up to the last code point (D28)."""
    text = "x" * REPLY_PIECE_CHARS
    assert cut(text) == len(text)
    assert pieces(text) == [text]
    assert pieces("") == [""]


def test_line_break_wins_over_a_later_space() -> None:
    """In the last fifth a line break is the better place, and stays with the first piece (D28)."""
    assert pieces("12345678\n abc", 10) == ["12345678\n", " abc"]
    assert pieces("123456789 abc", 10) == ["123456789 ", "abc"]


def test_separators_before_the_last_fifth_do_not_count() -> None:
    """A piece is never shorter than four fifths for the sake of a word (D28)."""
    assert cut("12345678 " + "x" * 9, 10) == 9
    assert cut("1234567 " + "x" * 9, 10) == 10
    assert cut("1234567\n" + "x" * 9, 10) == 10


def test_separator_that_does_not_fit_stays_with_the_rest() -> None:
    """The piece may not grow beyond the limit to take its separator along (D28)."""
    assert cut("1234567890 1", 10) == 10


def test_space_that_carries_a_mark_is_no_place_to_cut() -> None:
    """A space with a combining mark is one cluster; the one before it serves (D28)."""
    assert cut("12345678  \u0301xyz", 10) == 9


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        pytest.param("abc\r\nd", 4, 3, id="CRLF"),
        pytest.param("a🇩🇪🇫🇷", 4, 3, id="flags are paired from the left"),
        pytest.param("ab" + FAMILY, 6, 2, id="family"),
        pytest.param("abc" + E_ACUTE, 4, 3, id="combining mark"),
        pytest.param("abक\u094dष", 4, 2, id="conjunct"),
        pytest.param("ab한글"[:2] + "\u1100\u1161\u11a8x", 4, 2, id="jamo"),
        pytest.param("👩" + "\u200d👩" * 3, 4, 4, id="cluster beyond the piece"),
    ],
)
def test_clusters_stay_whole(text: str, limit: int, expected: int) -> None:
    """No cut falls inside a cluster, unless it alone exceeds the piece (D28)."""
    assert cut(text, limit) == expected


@given(tricky, st.integers(1, 12))
def test_pieces_give_the_text_back(text: str, limit: int) -> None:
    """Joined they are the text, none exceeds the limit, and none is empty (D28)."""
    cuts = pieces(text, limit)
    assert "".join(cuts) == text
    assert all(0 < len(piece) <= limit for piece in cuts) or cuts == [""]


@given(tricky, st.integers(1, 12))
def test_cuts_fall_between_clusters(text: str, limit: int) -> None:
    """Each cut is a boundary of the text that was left, or its first cluster exceeds it (D28)."""
    rest = text
    for piece in pieces(text, limit)[:-1]:
        ends = boundaries(rest)
        assert len(piece) in ends or min(ends) > limit == len(piece)
        rest = rest[len(piece) :]


@given(tricky, st.integers(1, 12))
def test_texts_without_huge_clusters_are_cut_at_their_own_boundaries(text: str, limit: int) -> None:
    """Cutting piece by piece forgets nothing that matters of what went before (D28)."""
    ends = sorted(boundaries(text))
    if any(later - earlier > limit for earlier, later in pairwise([0, *ends])):
        return
    at = 0
    for piece in pieces(text, limit):
        at += len(piece)
        assert at in ends or not text


@given(tricky, st.integers(1, 12))
def test_first_piece_is_what_cut_says(text: str, limit: int) -> None:
    """A stream that ends at the cut agrees with a reply that is cut as a whole (D28, D29)."""
    assert pieces(text, limit)[0] == text[: cut(text, limit)]


@pytest.mark.parametrize("unit", ["🇩", "\u0301", "👩\u200d", " \u0301", "क\u094d", "word "])
def test_huge_texts_take_linear_time(unit: str) -> None:
    """A million code points of the worst kind are cut in milliseconds."""
    text = unit * (100_000 // len(unit))
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    ("size", "count"),
    [(0, 1), (1, 1), (MEDIA_CHUNK_BYTES, 1), (MEDIA_CHUNK_BYTES + 1, 2), (MAX_MEDIA_BYTES, 3)],
)
def test_parts_of_a_file(size: int, count: int) -> None:
    """A file takes as few chunks as hold it, and at least one (D31)."""
    assert parts(size, MEDIA_CHUNK_BYTES) == count
