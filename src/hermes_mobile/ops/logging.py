"""Structured logs on standard error: console for a person, JSON for a machine, priorities for a journal.

Modules say `log = structlog.get_logger()` and use its plain methods; the async ones fail on Trio.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import structlog
from structlog.processors import NAME_TO_LEVEL

if TYPE_CHECKING:
    from typing import TextIO

    from structlog.typing import EventDict, Processor, WrappedLogger

MAX_STEPS: Final = 8
"""Of the calls that led to an exception, the innermost ones that are logged."""
PRIORITIES: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""What syslog, and so the journal, calls the levels (sd-daemon(3))."""


class Logger(structlog.make_filtering_bound_logger(logging.DEBUG)):  # type: ignore[misc] # its type is a function's
    """Filters by a level that may change: loggers are made once, and kept."""

    least: ClassVar[int] = logging.DEBUG

    def _proxy_to_logger(self, method_name: str, *args: Any, **fields: Any) -> Any:
        if NAME_TO_LEVEL[method_name] >= self.least:
            return super()._proxy_to_logger(method_name, *args, **fields)
        return None


def configure(level: str, format: str | None) -> None:
    """Send logs from `level` up to standard error; without a format, JSON unless it is a terminal.

    An exception is logged by type and place, without its text (D39). trio-websocket, which
    logs what peers send, is silent. Lines for systemd's journal begin with their priority.
    """
    logging.getLogger("trio-websocket").setLevel(logging.CRITICAL)
    set_level(level)
    on_terminal = sys.stderr.isatty()
    renderer: Processor = structlog.processors.JSONRenderer()
    if format == "console" or (format is None and on_terminal):
        renderer = _console(structlog.dev.ConsoleRenderer(colors=on_terminal))
    if leads_to_journal(sys.stderr):
        renderer = _with_priority(renderer)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _name_exception,
            renderer,
        ],
        wrapper_class=Logger,
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def set_level(level: str) -> None:
    """Send logs from `level` up from now on, also those of loggers that were used before."""
    Logger.least = NAME_TO_LEVEL[level]


def _console(render: Processor) -> Processor:
    def render_for_people(logger: WrappedLogger, name: str, event: EventDict) -> Any:
        if "exception" in event:
            event["exception"] = "\n".join(event["exception"])
        return render(logger, name, event)

    return render_for_people


def leads_to_journal(stream: TextIO) -> bool:
    """Whether systemd reads `stream` for its journal, and no one has redirected it since."""
    try:
        stat = os.fstat(stream.fileno())
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"


def _with_priority(render: Processor) -> Processor:
    def render_with_priority(logger: WrappedLogger, name: str, event: EventDict) -> str:
        priority = PRIORITIES[event["level"]]
        lines = str(render(logger, name, event)).splitlines()  # to the journal each is an entry
        return "\n".join(f"<{priority}>{line}" for line in lines)

    return render_with_priority


def _name_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exception()
    if isinstance(error, BaseException):
        event["exception"] = _places(error)
    return event


def _places(error: BaseException) -> list[str]:
    """Type and place of `error`, or of each exception in a group."""
    if isinstance(error, BaseExceptionGroup):
        return [place for each in error.exceptions for place in _places(each)]
    steps = reversed(traceback.extract_tb(error.__traceback__)[-MAX_STEPS:])
    calls = [f"{step.name} ({Path(step.filename).name}:{step.lineno})" for step in steps]
    return [" in ".join([type(error).__qualname__, *calls])]
