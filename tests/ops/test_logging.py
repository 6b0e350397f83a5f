"""What reaches standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
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
