"""What others wrote, made fit for a terminal: it can move no cursor, and hide nothing."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import regex
from wcwidth import wcswidth, wcwidth

if TYPE_CHECKING:
    from collections.abc import Iterator

TAB_COLUMNS: Final = 4
UNPRINTABLE: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""General categories: control, format, surrogate, line and paragraph separator."""
WRITING: Final = frozenset("\u061c\u200c\u200d\u200e\u200f")
"""Format characters that scripts and emoji are written with; they turn no text around."""
BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols without ink."""


def printable(text: str) -> str:
    """`text` with line breaks, and every other control character spelled out: `<U+001B>`."""
    return "".join(
        _spelled(char)
        if char != "\n" and unicodedata.category(char) in UNPRINTABLE and char not in WRITING
        else char
        for char in text.replace("\r\n", "\n").expandtabs(TAB_COLUMNS)
    )


def exact(text: str) -> str:
    """`text` with line breaks, and whatever else cannot be seen spelled out.

    For what somebody approves: two texts that differ look different.
    """
    return "".join(char if char == "\n" or _has_ink(char) else _spelled(char) for char in text)


def _has_ink(char: str) -> bool:
    if char.isspace():
        return char == " "
    return wcwidth(char) > 0 and char not in BLANKS


def _spelled(char: str) -> str:
    return f"<U+{ord(char):04X}>"


def width(text: str) -> int:
    """The columns that printable text of one line takes."""
    return max(0, wcswidth(text))


def clusters(text: str) -> list[str]:
    """What a person takes for characters, each of one code point or more."""
    return regex.findall(r"\X", text)


def rows(text: str, columns: int) -> Iterator[str]:
    """Printable text in rows of at most `columns`, broken where a terminal would break it."""
    for line in text.split("\n"):
        row, used = "", 0
        for cluster in clusters(line):
            taken = width(cluster)
            if used + taken > columns:
                yield row
                row, used = "", 0
            row += cluster
            used += taken
        yield row
