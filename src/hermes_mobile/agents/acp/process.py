"""The agent's program: how it is started, what it inherits, how it ends, what it writes beside."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog
import trio
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from hermes_mobile.agents import AgentSettings

log = structlog.get_logger()

TERM_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL. The server's own stop waits for it, within its 5 seconds (D35)."""

NOT_INHERITED: Final = frozenset(
    ("CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "LISTEN_FDNAMES", "LISTEN_FDS")
) | {"LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}
"""What systemd tells the server alone."""

MAX_LINE_CHARS: Final = 1_000
MAX_LINES: Final = 100
"""Of standard error that are logged, in each window."""
WINDOW_SECONDS: Final = 10.0


@frozen
class Program:
    """The agent's program while it runs."""

    stdin: trio.abc.SendStream
    stdout: trio.abc.ReceiveStream
    stderr: trio.abc.ReceiveStream
    wait: Callable[[], Awaitable[int]]
    """Waits for its end; returns its exit status, negative for a signal."""


@asynccontextmanager
async def open_program(settings: AgentSettings) -> AsyncIterator[Program]:
    """Run the agent's program as long as the block, in a process group of its own.

    On every way out the whole group is ended: what the agent had started goes with it.

    *Errors*: OSError when it cannot be started.
    """
    process = await trio.lowlevel.open_process(
        list(settings.command),
        cwd=settings.directory,
        env=inherited(settings.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - all three are pipes
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    program = Program(process.stdin, process.stdout, process.stderr, process.wait)
    try:
        yield program
    finally:
        with trio.CancelScope(shield=True):
            await program.stdin.aclose()
            await _end(process)
            await program.stdout.aclose()
            await program.stderr.aclose()


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: the server's, without the server's own settings and secrets."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("MOBILE_") and name not in NOT_INHERITED
    }


async def _end(process: trio.Process) -> None:
    """End the whole group, whether or not the program itself has ended."""
    _signal_group(process, signal.SIGTERM)
    with trio.move_on_after(TERM_SECONDS):
        await process.wait()
    _signal_group(process, signal.SIGKILL)
    await process.wait()


def _signal_group(process: trio.Process, number: signal.Signals) -> None:
    # Once all of a group has ended, its number may come to be another one's, which is not ours to end.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def log_standard_error(stream: trio.abc.ReceiveStream) -> None:
    """Read what the agent writes to standard error, for who debugs: it may hold what people say.

    The log gets it at `debug` only (D39), each line up to 1,000 characters, 100 lines in 10 seconds.
    """
    rest = b""
    logged = dropped = 0
    window_ends = trio.current_time() + WINDOW_SECONDS
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while received := await stream.receive_some():
            *lines, rest = (rest[:MAX_LINE_CHARS] + received).split(b"\n")
            if trio.current_time() >= window_ends:
                if dropped:
                    log.debug("agent's standard error", lines_dropped=dropped)
                logged = dropped = 0
                window_ends = trio.current_time() + WINDOW_SECONDS
            for line in lines[: MAX_LINES - logged]:
                text = line[:MAX_LINE_CHARS].decode(errors="replace")
                log.debug("agent's standard error", line=text)
            dropped += len(lines[MAX_LINES - logged :])
            logged = min(MAX_LINES, logged + len(lines))
