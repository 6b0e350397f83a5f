"""What others wrote, on a terminal: nothing of it is obeyed, and what is approved is seen."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.cli.printable import exact, printable, rows, width

anything = st.text(st.characters(), max_size=40)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", "two\nlines"),
        ("a\r\nb\rc", "a\nb<U+000D>c"),
        ("\x1b[2J\x07", "<U+001B>[2J<U+0007>"),
        ("\x9b31m", "<U+009B>31m"),
        ("a\tb", "a   b"),
        ("\u202egnp.exe", "<U+202E>gnp.exe"),
        ("\u2066\u2028\ufeff", "<U+2066><U+2028><U+FEFF>"),
        ("naïve 世界 👩\u200d👧 می\u200cخوری", "naïve 世界 👩\u200d👧 می\u200cخوری"),
    ],
)
def test_control_characters_are_spelled_out(text, shown):
    """Those that move, ring or turn text around; those that scripts and emoji need are left."""
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("rm -rf  build", "rm -rf  build"),
        ("a\nb\tc", "a\nb<U+0009>c"),
        ("ls\u00a0x\u3000y", "ls<U+00A0>x<U+3000>y"),
        ("cat e\u0301", "cat e<U+0301>"),
        ("go\u200d\ufe0f", "go<U+200D><U+FE0F>"),
        ("x\u3164\u2800", "x<U+3164><U+2800>"),
        ("echo 世界", "echo 世界"),
    ],
)
def test_a_command_is_shown_to_the_character(command, shown):
    """Whatever has no ink of its own is spelled out."""
    assert exact(command) == shown


@given(anything)
def test_nothing_unprintable_is_left(text):
    """Of any text at all, neither function lets a control character through."""
    for shown in (printable(text), exact(text)):
        categories = {unicodedata.category(char) for char in shown if char != "\n"}
        assert not categories & {"Cc", "Cs", "Zl", "Zp"}


@given(anything, st.integers(2, 20))
def test_rows_fit_and_lose_nothing(text, columns):
    """Rows are no wider than they may be, and are the text when they are joined."""
    shown = printable(text)
    found = list(rows(shown, columns))
    assert "".join(found) == shown.replace("\n", "")
    assert all(width(row) <= columns for row in found)
