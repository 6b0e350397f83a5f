"""A reply into pieces, a file into chunks (D28, D31)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from hermes_mobile.protocol.limits import REPLY_PIECE_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLUSTER: Final = regex.compile(r"\X")


def cut(text: str, limit: int = REPLY_PIECE_CHARS) -> int:
    """The length of the first piece of `text`, in code points; `limit` is at least 1.

    The whole text where it fits. Else the piece ends after a line break, or failing that a space,
    in its last fifth; else before the grapheme cluster that would not fit; else, when that cluster
    alone exceeds the piece, inside it (D28). Only the end of the piece is looked at.
    """
    if len(text) <= limit:
        return len(text)
    return next((end for end in _wished_ends(text, limit) if _ends_cluster(text, end)), limit)


def pieces(text: str, limit: int = REPLY_PIECE_CHARS) -> list[str]:
    """`text` as pieces of at most `limit` code points that give it back when joined; at least one.

    What follows a piece is a text of its own, as it is for the app that reads it.
    """
    found = []
    start = 0
    while len(text) - start > limit:
        # Whether a piece may end somewhere is decided by what it holds and one code point more.
        end = start + cut(text[start : start + limit + 1], limit)
        found.append(text[start:end])
        start = end
    found.append(text[start:])
    return found


def parts(size: int, chunk_bytes: int) -> int:
    """How many chunks a file of `size` bytes takes; an empty file takes one."""
    return max(1, -(-size // chunk_bytes))


def _wished_ends(text: str, limit: int) -> Iterator[int]:
    """Where the piece would best end, the best first."""
    last_fifth = limit - limit // 5
    for separator in ("\n", " "):
        end = limit + 1
        while (end := text.rfind(separator, last_fifth, end - 1) + 1) > 0:
            yield end
    yield from range(limit, 0, -1)


def _ends_cluster(text: str, end: int) -> bool:
    # A match starts where it is told to, but ends by the rules of the whole text before it: flags
    # are paired, and families joined, from their true beginning.
    match = _CLUSTER.match(text, end - 1, end + 1)
    return match is not None and match.end() == end
