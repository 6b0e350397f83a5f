"""Structured logs on standard error: console for a person, JSON for a machine.

Modules say `log = structlog.get_logger()` and use its plain methods; the async ones fail on Trio.
"""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

MAX_STEPS: Final = 8
"""Of the calls that led to an exception, the innermost ones that are logged."""


def configure(level: str, format: str | None) -> None:
    """Send logs from `level` up to standard error; without a format, JSON unless it is a terminal.

    An exception is logged by type and place, without its text (D39). trio-websocket, which
    logs what peers send, is silent.
    """
    logging.getLogger("trio-websocket").setLevel(logging.CRITICAL)
    on_terminal = sys.stderr.isatty()
    renderer: Processor = structlog.processors.JSONRenderer()
    if format == "console" or (format is None and on_terminal):
        renderer = structlog.dev.ConsoleRenderer(colors=on_terminal)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _name_exception,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


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
