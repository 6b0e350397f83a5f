"""One line that is being written: what the keys of a terminal do to it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from hermes_mobile.cli.printable import clusters

KEY: Final = re.compile(
    r"(?P<unfinished>\x1b(\[[0-?]*[ -/]*|O)?\Z)|\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[@-~]|.", re.DOTALL
)
"""A key as terminals send it: a sequence, perhaps not all of it yet, or a character."""
PASTE_BEGINS: Final = "\x1b[200~"
PASTE_ENDS: Final = "\x1b[201~"
WORD: Final = re.compile(r"\S*\s*\Z")
ENTER: Final = {"\r", "\n"}


class LineEditor:
    """Emacs' keys, as shells have them, and a history. The cursor stands between two texts."""

    def __init__(self) -> None:
        self.before = ""
        self.after = ""
        self.ended = False
        """Ctrl-D was pressed on an empty line."""
        self._unfinished = ""
        self._pasting = False
        self._history: list[str] = []
        self._place = 0

    def feed(self, typed: str) -> list[str]:
        """Take what was typed; the lines that were finished with it."""
        lines = []
        typed = self._unfinished + typed
        self._unfinished = ""
        for match in KEY.finditer(typed):
            key = match[0]
            if match["unfinished"]:
                self._unfinished = key
            elif key == PASTE_BEGINS:
                self._pasting = True
            elif key == PASTE_ENDS:
                self._pasting = False
            elif key in ENTER and not self._pasting:
                lines.append(self._finish())
            else:
                self._press(key)
        return lines

    def _finish(self) -> str:
        line = self.before + self.after
        if line.strip() and line not in self._history[-1:]:
            self._history.append(line)
        self._place = len(self._history)
        self.before = self.after = ""
        return line

    def _press(self, key: str) -> None:  # noqa: C901, PLR0912 - one case per key
        match key:
            case "\x1b[D" | "\x1bOD" | "\x02":
                self._move_left()
            case "\x1b[C" | "\x1bOC" | "\x06":
                self._move_right()
            case "\x1b[H" | "\x1bOH" | "\x1b[1~" | "\x1b[7~" | "\x01":
                self.before, self.after = "", self.before + self.after
            case "\x1b[F" | "\x1bOF" | "\x1b[4~" | "\x1b[8~" | "\x05":
                self.before, self.after = self.before + self.after, ""
            case "\x7f" | "\x08":
                self.before = "".join(clusters(self.before)[:-1])
            case "\x04" if not self.before + self.after:
                self.ended = True
            case "\x1b[3~" | "\x04":
                self.after = "".join(clusters(self.after)[1:])
            case "\x15":
                self.before = ""
            case "\x0b":
                self.after = ""
            case "\x17":
                self.before = WORD.sub("", self.before)
            case "\x1b[A" | "\x1bOA" | "\x10":
                self._recall(-1)
            case "\x1b[B" | "\x1bOB" | "\x0e":
                self._recall(+1)
            case "\r" | "\n":
                self.before += "\n"  # of a paste
            case _ if len(key) == 1 and unicodedata.category(key) not in {"Cc", "Cs"}:
                self.before += key

    def _move_left(self) -> None:
        passed = clusters(self.before)[-1:]
        self.before = self.before[: len(self.before) - sum(map(len, passed))]
        self.after = "".join(passed) + self.after

    def _move_right(self) -> None:
        passed = "".join(clusters(self.after)[:1])
        self.before += passed
        self.after = self.after[len(passed) :]

    def _recall(self, step: int) -> None:
        place = self._place + step
        if 0 <= place <= len(self._history):
            self._place = place
            self.before = (*self._history, "")[place]
            self.after = ""
