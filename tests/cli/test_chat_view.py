"""What a terminal shows of a chat. A screen in memory obeys what is written, as a real one would."""

from __future__ import annotations

import os

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.cli.editor import LineEditor
from hermes_mobile.cli.printable import printable
from hermes_mobile.cli.view import PlainView, Style, TerminalView

LEFT = "\x1b[D"


class Terminal:
    """A terminal of `columns` and `lines`, and the view on it."""

    def __init__(self, columns: int = 40, lines: int = 8, *, coloured: bool = False) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=1000)
        self.screen.set_mode(pyte.modes.LNM)  # as the line discipline does: \n is \r\n
        self._stream = pyte.Stream(self.screen)
        self.written = ""
        self.editor = LineEditor()
        self.view = TerminalView(self.editor, self.write, self.size, coloured=coloured)
        self.view.open()

    def write(self, text: str) -> None:
        self.written += text
        self._stream.feed(text)

    def size(self) -> os.terminal_size:
        return os.terminal_size((self.screen.columns, self.screen.lines))

    def type(self, keys: str) -> None:
        self.editor.feed(keys)
        self.view.refresh()

    @property
    def rows(self) -> list[str]:
        """What is to be seen, without what is empty at the end."""
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip("\n").split("\n")

    @property
    def cursor(self) -> tuple[int, int]:
        return self.screen.cursor.y, self.screen.cursor.x


def test_the_prompt_stays_below_what_is_said():
    """Texts go above it; the line that is being written stays as it is."""
    terminal = Terminal()
    terminal.type("hel")
    terminal.view.say("hello", Style.AGENT)
    terminal.view.say("one\ntwo", Style.NOTICE)
    terminal.type("lo")
    assert terminal.rows == ["hello", "· one", "two", "> hello"]
    assert terminal.cursor == (3, 7)


def test_what_grows_is_redrawn_in_place():
    """Each state takes the place of the one before, also a shorter one, and the whole stays."""
    terminal = Terminal()
    terminal.type("x")
    for text in ("Sen", "Sentence 1\nof a hun", "Sentence"):
        terminal.view.grow(text)
    assert terminal.rows == ["Sentence", "> x"]
    terminal.view.grow("")
    terminal.view.say("Sentence 1.", Style.AGENT)
    assert terminal.rows == ["Sentence 1.", "> x"]


def test_what_grows_beyond_the_screen():
    """Only its end is shown, so that it can be redrawn; nothing of it scrolls away."""
    terminal = Terminal(columns=21, lines=6)
    terminal.view.grow("".join(f"line {n}\n" for n in range(50)) + "x" * 30)
    assert terminal.rows == ["line 48", "line 49", "x" * 20, "x" * 10, ">"]
    assert not terminal.screen.history.top
    terminal.view.grow("short")
    assert terminal.rows == ["short", ">"]


def test_the_status_is_in_the_prompt():
    """It comes and goes there, and the cursor with it."""
    terminal = Terminal()
    terminal.type("hi" + LEFT)
    terminal.view.show_status("thinking")
    assert terminal.rows == ["thinking > hi"]
    assert terminal.cursor == (0, 12)
    terminal.view.show_status("")
    assert terminal.rows == ["> hi"]
    assert terminal.cursor == (0, 3)


def test_the_same_status_draws_nothing():
    """What does not change is not written."""
    terminal = Terminal()
    terminal.view.show_status("thinking")
    written = terminal.written
    terminal.view.show_status("thinking")
    assert terminal.written == written


def test_wide_characters():
    """The cursor stands where the character is, whatever the columns it takes."""
    terminal = Terminal()
    terminal.type(f"世界e\u0301!{LEFT}")
    assert terminal.cursor == (0, 7)
    terminal.type(LEFT + LEFT)
    assert terminal.cursor == (0, 4)


def test_a_line_longer_than_the_screen():
    """What is around the cursor is shown, on one row."""
    terminal = Terminal(columns=22)
    terminal.type("abcdefghijklmnopqrstuvwxyz")
    assert terminal.rows == ["> hijklmnopqrstuvwxyz"]
    terminal.type("\x01")
    assert terminal.rows == ["> abcdefghijklmnopqrs"]
    assert terminal.cursor == (0, 2)


def test_a_pasted_line_break():
    """It is shown on the one row of the line, and does nothing."""
    terminal = Terminal()
    terminal.type("\x1b[200~a\nb\x1b[201~")
    assert terminal.rows == ["> a⏎b"]


def test_another_size():
    """After a change of the window it is drawn for the new one."""
    terminal = Terminal(columns=40)
    terminal.type("abcdefghijklmnopqrstuvwxyz")
    terminal.screen.resize(columns=22)
    terminal.view.refresh()
    assert terminal.rows[-1] == "> hijklmnopqrstuvwxyz"


def test_colours():
    """Marks and colours tell who speaks; without colours there is no code for one."""
    coloured, plain = Terminal(coloured=True), Terminal()
    for terminal in (coloured, plain):
        terminal.view.say("no", Style.ERROR)
        assert terminal.rows == ["! no", ">"]
    assert "\x1b[31m! no\x1b[0m" in coloured.written
    assert "m" not in plain.written


def test_closing():
    """What was growing is left, the prompt is not, and the cursor is on an empty row."""
    terminal = Terminal()
    terminal.view.say("hello", Style.AGENT)
    terminal.view.grow("unfini")
    terminal.view.close()
    assert terminal.rows == ["hello", "unfini"]
    assert terminal.cursor == (2, 0)
    assert terminal.written.endswith("\x1b[?2004l")


def test_plain(capsys: pytest.CaptureFixture[str]):
    """Without a terminal nothing is drawn: what the agent says apart from all else."""
    view = PlainView()
    view.say("hello", Style.AGENT)
    view.say("Allow?", Style.CARD)
    view.say("mine", Style.PERSON)
    view.grow("gro")
    view.show_status("thinking")
    view.say("connected", Style.NOTICE)
    view.say("not sent", Style.ERROR)
    assert capsys.readouterr() == ("hello\n? Allow?\n", "· connected\n! not sent\n")


SAID = st.text(st.sampled_from("ab c世é\n"), max_size=50)


@given(st.lists(st.tuples(st.sampled_from(["say", "grow", "type"]), SAID), max_size=8))
def test_whatever_happens_the_prompt_is_one(steps):
    """After any steps the screen ends in one prompt with the line, and nothing is left of others."""
    terminal = Terminal(columns=60, lines=30)
    said, grown = [], ""
    for step, text in steps:
        text = printable(text)  # noqa: PLW2901 - so that a row is a line
        if step == "say":
            terminal.view.say(text, Style.NOTICE)
            said += f"· {text}".split("\n")
        elif step == "grow":
            terminal.view.grow(text)
            grown = text
        else:
            terminal.type("\x15" + text.replace("\n", "")[:20])
    line = "> " + terminal.editor.before
    expected = [*said, *(grown.split("\n")[-28:] if grown else []), line]
    history = ["".join(row[x].data for x in range(60)) for row in terminal.screen.history.top]
    seen = [*history, *terminal.screen.display]
    seen = [row.rstrip() for row in seen][: len(expected)]
    assert seen == [row.rstrip() for row in expected]
