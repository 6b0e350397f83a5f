"""The keys of a terminal, and the line that they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.cli.editor import LineEditor

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
HOME, END, DELETE, BACKSPACE = "\x1b[H", "\x1b[F", "\x1b[3~", "\x7f"
CTRL_A, CTRL_B, CTRL_D, CTRL_E, CTRL_F = "\x01", "\x02", "\x04", "\x05", "\x06"
CTRL_K, CTRL_N, CTRL_P, CTRL_U, CTRL_W = "\x0b", "\x0e", "\x10", "\x15", "\x17"
FAMILY = "👩\u200d👩\u200d👧"


@pytest.mark.parametrize(
    ("typed", "before", "after"),
    [
        ("abc", "abc", ""),
        (f"abc{LEFT}{LEFT}x", "ax", "bc"),
        (f"abc{CTRL_B}{CTRL_B}{CTRL_F}x", "abx", "c"),
        ("abc\x1bOD\x1bOC\x1bODx", "abx", "c"),
        (f"bc{HOME}a", "a", "bc"),
        (f"bc{CTRL_A}a{CTRL_E}d", "abcd", ""),
        (f"bc\x1b[1~a{END}d", "abcd", ""),
        (f"abc{BACKSPACE}\x08", "a", ""),
        (f"{BACKSPACE}{LEFT}{RIGHT}{DELETE}a", "a", ""),
        (f"abc{CTRL_A}{DELETE}{CTRL_D}", "", "c"),
        (f"abc{LEFT}{CTRL_U}", "", "c"),
        (f"abc{LEFT}{CTRL_K}", "ab", ""),
        (f"one two  {CTRL_W}", "one ", ""),
        (f"a{FAMILY}{LEFT}", "a", FAMILY),
        (f"a{FAMILY}{BACKSPACE}", "a", ""),
        (f"a{FAMILY}{LEFT}{DELETE}", "a", ""),
        (f"e\u0301{BACKSPACE}", "", ""),
        ("\x1b[1;5Ca\x1b[24~\x1bb\x07\x1b[\x07c", "ab[c", ""),
        ("\x1b[200~two\rlines\x1b[201~", "two\nlines", ""),
    ],
)
def test_keys(typed, before, after):
    """Emacs' keys; characters are what people take for one; an unknown key does nothing."""
    editor = LineEditor()
    assert editor.feed(typed) == []
    assert (editor.before, editor.after) == (before, after)


def test_enter_finishes_a_line():
    """Wherever the cursor stands; several may come at once."""
    editor = LineEditor()
    assert editor.feed(f"abc{LEFT}\rd\n\re") == ["abc", "d", ""]
    assert editor.before == "e"


def test_a_paste_is_one_line():
    """Its line breaks send nothing before Enter is pressed."""
    assert LineEditor().feed("\x1b[200~a\nb\x1b[201~\r") == ["a\nb"]


def test_history():
    """Up and down go through what was entered, once each, and back to an empty line."""
    editor = LineEditor()
    editor.feed("one\rtwo\rtwo\r  \r")
    seen = []
    for key in (UP, CTRL_P, UP, DOWN, CTRL_N, DOWN):
        editor.feed(key)
        seen.append(editor.before)
    assert seen == ["two", "one", "one", "two", "", ""]
    assert editor.feed(f"{UP}!\r") == ["two!"]


def test_the_end_of_input():
    """Ctrl-D ends on an empty line only."""
    editor = LineEditor()
    editor.feed(f"a{CTRL_D}")
    assert not editor.ended
    editor.feed(f"{BACKSPACE}{CTRL_D}")
    assert editor.ended


KEYS = st.sampled_from(
    [
        *(LEFT, RIGHT, UP, DOWN, HOME, END, DELETE, BACKSPACE, CTRL_U, CTRL_K, CTRL_W),
        *("\x1b", "\x1b[", "\x1b[200~", "\x1b[201~", "\r", "a", "é", " ", FAMILY, "世"),
    ]
)


@given(st.lists(KEYS, max_size=30), st.data())
def test_reads_may_end_anywhere(keys, data):
    """How what was typed is cut into reads makes no difference, and no key leaves a control character."""
    typed = "".join(keys)
    at_once, in_parts = LineEditor(), LineEditor()
    lines = at_once.feed(typed)
    cut = data.draw(st.integers(0, len(typed)))
    assert in_parts.feed(typed[:cut]) + in_parts.feed(typed[cut:]) == lines
    assert (at_once.before, at_once.after) == (in_parts.before, in_parts.after)
    assert not any(
        char < " " and char != "\n" for char in "".join((*lines, at_once.before, at_once.after))
    )
