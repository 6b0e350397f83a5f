"""What the kernel tells of a process of this machine, read from /proc."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from attrs import frozen

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
AFTER_NAME: Final = 3
"""The number, from 1, of the first field of `stat` that follows the name in parentheses."""


@frozen
class Usage:
    """`cpu` in seconds of all threads since the start; `rss` and `peak_rss` in bytes."""

    pid: int
    cpu: float
    rss: int
    peak_rss: int
    threads: int
    descriptors: int | None
    """None where only the process's own user may look."""

    def cpu_since(self, earlier: Usage | None) -> float | None:
        """Seconds of CPU since then; None when it was another process then, or none."""
        return self.cpu - earlier.cpu if earlier is not None and earlier.pid == self.pid else None


def read_usage(pid: int) -> Usage:
    """*Errors*: OSError when there is no such process."""
    directory = Path(f"/proc/{pid}")
    fields = _stat_fields((directory / "stat").read_text())
    status = read_status((directory / "status").read_text())
    try:
        descriptors = len(list((directory / "fd").iterdir()))
    except PermissionError:
        descriptors = None
    return Usage(
        pid=pid,
        cpu=(fields[14] + fields[15]) / TICKS_PER_SECOND,
        rss=status["VmRSS"] * 1024,
        peak_rss=status["VmHWM"] * 1024,
        threads=status["Threads"],
        descriptors=descriptors,
    )


def _stat_fields(text: str) -> dict[int, int]:
    """The numbers of `stat` by their place in proc(5): 14 is utime, 15 stime."""
    _, _, rest = text.rpartition(") ")  # a process may have any name, parentheses included
    values = rest.split()
    return {AFTER_NAME + index: int(value) for index, value in enumerate(values) if index}


def read_status(text: str) -> dict[str, int]:
    """The numbers of `status`; those in kB stay in kB."""
    pairs = (line.split(":", 1) for line in text.splitlines())
    numbers = ((name, value.split()) for name, value in pairs)
    return {name: int(words[0]) for name, words in numbers if words and words[0].isdecimal()}


def reset_peak(pid: int) -> None:
    """Let the peak begin anew from what is resident now, where the kernel lets us."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return  # of another user's process: the peak is that of its whole life


def allow_descriptors() -> None:
    """Let this process, and those that it starts, have as many connections as the machine allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def pin(pid: int, core: int | None) -> None:
    """Keep a process on one core, threads that it makes later too; None leaves it free."""
    if core is not None:
        os.sched_setaffinity(pid, {core})
