"""What a chat is shown on: a terminal, where things change in place, or plain streams."""

from __future__ import annotations

import termios
import tty
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

import click

from hermes_mobile.cli.printable import clusters, printable, rows, width

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from hermes_mobile.cli.editor import LineEditor

BRACKETED_PASTE_ON: Final = "\x1b[?2004h"
BRACKETED_PASTE_OFF: Final = "\x1b[?2004l"
CLEAR_BELOW: Final = "\x1b[J"
MIN_COLUMNS: Final = 20
PROMPT: Final = "> "
LINE_BREAK: Final = "⏎"


class Style(Enum):
    """Who speaks. The values are the mark before the text, and its colour (SGR)."""

    AGENT = ("", "")
    PERSON = (PROMPT, "2")
    CARD = ("? ", "33")
    NOTICE = ("· ", "2")
    ERROR = ("! ", "31")

    @property
    def mark(self) -> str:
        return self.value[0]

    @property
    def colour(self) -> str:
        return self.value[1]


class View(Protocol):
    """Texts are printable already."""

    def say(self, text: str, style: Style) -> None:
        """Show a text for good."""

    def grow(self, text: str) -> None:
        """Show what grows, in the place of what `grow` showed before; empty when nothing does."""

    def show_status(self, status: str) -> None:
        """Show what goes on, in a word or two."""


class PlainView:
    """What the agent says goes to standard output, all else to standard error; nothing is redrawn."""

    def say(self, text: str, style: Style) -> None:
        match style:
            case Style.AGENT | Style.CARD:
                click.echo(style.mark + text)
            case Style.NOTICE | Style.ERROR:
                click.echo(style.mark + text, err=True)
            case Style.PERSON:
                pass  # who wrote it knows it

    def grow(self, text: str) -> None:
        pass

    def show_status(self, status: str) -> None:
        pass


class TerminalView:
    """The end of what was said, and below it, redrawn at each change: what grows, and the prompt.

    What is said for good scrolls away above them. Each change is one write.
    """

    def __init__(
        self,
        editor: LineEditor,
        write: Callable[[str], object],
        size: Callable[[], os.terminal_size],
        *,
        coloured: bool,
    ) -> None:
        self._editor = editor
        self._write = write
        self._size = size
        self._coloured = coloured
        self._growing = ""
        self._status = ""
        self._rows_above = 0
        """Rows of what is redrawn, above the one with the cursor."""

    def open(self) -> None:
        self._write(BRACKETED_PASTE_ON + self._drawn())

    def close(self) -> None:
        """Leave the cursor at the beginning of an empty line."""
        growing = f"{self._growing}\n" if self._growing else ""
        self._write(self._erased() + growing + BRACKETED_PASTE_OFF)

    def say(self, text: str, style: Style) -> None:
        text = style.mark + text
        if self._coloured and style.colour:
            text = f"\x1b[{style.colour}m{text}\x1b[0m"
        self._write(f"{self._erased()}{text}\n{self._drawn()}")

    def grow(self, text: str) -> None:
        self._growing = text
        self.refresh()

    def show_status(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self.refresh()

    def refresh(self) -> None:
        """Draw anew what is drawn in place: a key was pressed, or the window has another size."""
        self._write(self._erased() + self._drawn())

    def _erased(self) -> str:
        up = f"\x1b[{self._rows_above}A" if self._rows_above else ""
        return f"\r{up}{CLEAR_BELOW}"

    def _drawn(self) -> str:
        columns, lines = self._size()
        columns = max(columns, MIN_COLUMNS) - 1  # a row that is full would wrap, or not
        above = self._last_rows(columns, lines - 2)
        self._rows_above = len(above)
        prompt, before, after = self._prompt(columns)
        left = width(after)
        back = f"\x1b[{left}D" if left else ""
        return "".join(f"{row}\n" for row in above) + prompt + before + after + back

    def _last_rows(self, columns: int, most: int) -> list[str]:
        """The end of what grows: all of it would not fit the screen, and is shown when it is whole."""
        if not self._growing or most < 1:
            return []
        return list(rows(self._growing[-columns * most :], columns))[-most:]

    def _prompt(self, columns: int) -> tuple[str, str, str]:
        """The prompt, and as much of the line on both sides of the cursor as there is room for."""
        prompt = f"{self._status} {PROMPT}".lstrip()
        if width(prompt) > columns // 2:
            prompt = PROMPT
        room = columns - width(prompt)
        before = _fitting(reversed(_on_one_row(self._editor.before)), room)[::-1]
        after = _fitting(_on_one_row(self._editor.after), room - sum(map(width, before)))
        return prompt, "".join(before), "".join(after)


def _on_one_row(text: str) -> list[str]:
    return clusters(printable(text).replace("\n", LINE_BREAK))


def _fitting(parts: Iterator[str] | list[str], room: int) -> list[str]:
    """As many of the first ones as there is room for."""
    fitting = []
    for part in parts:
        room -= width(part)
        if room < 0:
            break
        fitting.append(part)
    return fitting


@contextmanager
def key_by_key(fd: int) -> Iterator[None]:
    """Keys of the terminal come one by one, and are not echoed; Ctrl-C still interrupts."""
    before = termios.tcgetattr(fd)
    set_key_by_key(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def set_key_by_key(fd: int) -> None:
    tty.setcbreak(fd, termios.TCSADRAIN)
