"""What reaches standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
import trio

from hermes_mobile.ops.logging import configure, set_level

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _unconfigured_afterwards() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_fields_appear_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Off a terminal, an event is one JSON object with its fields, its level and a UTC time."""
    configure("info", None)
    structlog.get_logger().info("connection ended", device="tel-1\n", frames_in=3)
    (event,) = logged(capsys)
    written = datetime.fromisoformat(event.pop("timestamp"))
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60
    assert event == {
        "event": "connection ended",
        "level": "info",
        "device": "tel-1\n",
        "frames_in": 3,
    }


def test_the_console_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The console format is a plain line, without colours where there is no terminal."""
    configure("info", "console")
    structlog.get_logger().info("listening", port=8787)
    line = capsys.readouterr().err
    assert "listening" in line
    assert "port=8787" in line
    assert "\x1b" not in line


def test_lower_levels_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Only events from the given level up are written."""
    configure("warning", "json")
    log = structlog.get_logger()
    log.info("not this")
    log.warning("but this")
    assert [event["event"] for event in logged(capsys)] == ["but this"]


def test_the_level_may_change(capsys: pytest.CaptureFixture[str]) -> None:
    """A reload changes it for the loggers that were used before, too."""
    configure("warning", "json")
    log = structlog.get_logger()
    log.warning("first")
    set_level("debug")
    log.debug("second")
    set_level("error")
    log.warning("not this")
    assert [event["event"] for event in logged(capsys)] == ["first", "second"]


class Journal:
    """Standard error as systemd sets it up for its journal."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self.stream = path.open("w", buffering=1)
        stat = os.fstat(self.stream.fileno())
        monkeypatch.setattr(sys, "stderr", self.stream)
        monkeypatch.setenv("JOURNAL_STREAM", f"{stat.st_dev}:{stat.st_ino}")

    def read(self) -> list[str]:
        self.stream.close()
        return self._path.read_text().splitlines()


@pytest.mark.parametrize("format", ["json", "console"])
def test_the_journal_is_told_priorities(tmp_path, monkeypatch, format: str) -> None:
    """Each line begins as sd-daemon(3) has it, and is else as in any other place."""
    journal = Journal(tmp_path / "journal", monkeypatch)
    configure("debug", format)
    log = structlog.get_logger()
    for level in ("debug", "info", "warning", "error", "critical"):
        getattr(log, level)("happened", name="two\nlines")
    lines = journal.read()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    if format == "json":
        assert json.loads(lines[0][3:])["event"] == "happened"


def test_a_line_more_has_its_priority_too(tmp_path, monkeypatch) -> None:
    """The journal takes each line for an entry: an exception for people has one of its own."""
    journal = Journal(tmp_path / "journal", monkeypatch)
    configure("info", "console")
    structlog.get_logger().error("fault", exc_info=ExceptionGroup("g", [OSError(), KeyError()]))
    first, second, third = journal.read()
    assert first.startswith("<3>20")
    assert (second, third) == ("<3>OSError", "<3>KeyError")


def test_only_the_journal_is_told_priorities(tmp_path, monkeypatch) -> None:
    """A file that standard error was redirected to is not it, whatever the environment says."""
    with Journal(tmp_path / "journal", monkeypatch).stream:
        file = Journal(tmp_path / "file", monkeypatch)
        monkeypatch.setenv("JOURNAL_STREAM", "1:2")
        configure("info", "json")
        structlog.get_logger().info("happened")
    (line,) = file.read()
    assert json.loads(line)["event"] == "happened"


def test_people_see_exceptions_too(capsys: pytest.CaptureFixture[str]) -> None:
    """D39: in the console's format each exception is a line, without its text."""
    configure("info", "console")
    structlog.get_logger().error("fault", exc_info=OSError("secret"))
    assert capsys.readouterr().err.splitlines()[1:] == ["OSError"]


async def test_context_follows_a_trio_task(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields bound in a task appear in its events and in no other's."""
    configure("info", "json")
    log = structlog.get_logger()

    async def connection(number: int) -> None:
        structlog.contextvars.bind_contextvars(connection=number)
        await trio.lowlevel.checkpoint()
        log.info("hello", expected=number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(connection, number)
    events = logged(capsys)
    assert len(events) == 3
    assert all(event["connection"] == event["expected"] for event in events)


def test_an_exception_is_named_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    """D39: type and place are logged, for each exception of a group; the text never is."""
    configure("info", "json")

    def fail() -> None:
        raise ValueError("secret text")

    try:
        try:
            fail()
        except ValueError as error:
            raise ExceptionGroup("secret group", [error, KeyError("secret key")]) from error
    except ExceptionGroup:
        structlog.get_logger().exception("fault")
    (event,) = logged(capsys)
    first, second = event["exception"]
    assert first.startswith("ValueError in fail (test_logging.py:")
    assert second.startswith("KeyError")
    assert "secret" not in json.dumps(event)


def test_an_exception_can_be_handed_over(capsys: pytest.CaptureFixture[str]) -> None:
    """`exc_info` may be the exception itself, outside its handler; False adds nothing."""
    configure("info", "json")
    log = structlog.get_logger()
    log.error("fault", exc_info=OSError("secret"))
    log.error("fault", exc_info=False)
    first, second = logged(capsys)
    assert first["exception"] == ["OSError"]
    assert "exception" not in second


def test_trio_websocket_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """The library logs what peers send, so its logger is silent below CRITICAL."""
    configure("debug", "json")
    logging.getLogger("trio-websocket").error("a peer's bytes")
    assert capsys.readouterr().err == ""
