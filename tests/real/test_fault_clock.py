"""The wall clock is stepped by a day, forwards and backwards, while the server runs."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
import trio

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")),
        reason="Debian's faketime is not installed",
    ),
]
PROMPT_TTL = 4
LATE = 5
"""Seconds that a busy machine may add to what was promised."""


class WallClock:
    """What a server takes for the time of day; the monotonic clock is the machine's own."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self.step(0)
        [library] = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
        self.environment = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": self._file,
            "FAKETIME_DONT_FAKE_MONOTONIC": 1,
            "FAKETIME_NO_CACHE": 1,
            "NO_FAKE_STAT": 1,
        }

    def step(self, days: int) -> None:
        """Let it differ from the true one by so many days."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{days:+d}d\n")
        new.replace(self._file)


async def test_the_wall_clock_is_stepped_by_a_day(serve, tmp_path):
    """D40: the log's timestamps move, and nothing else does.

    Messages: every echo once and in order; a message of before a step is still known (D19), what was
    kept before it arrives (D32), and no id is used twice. Cards: they are answered or expire when they
    would have (D34). Connections: one lives through all of it, with its heartbeat (D5) and its idle
    avatar (D30).
    """
    clock = WallClock(tmp_path)
    server = serve(
        **clock.environment,
        MOBILE_PROMPT_TTL=PROMPT_TTL,
        MOBILE_TYPING_IDLE=1,
        MOBILE_PING_INTERVAL=1,
        MOBILE_PING_TIMEOUT=PROMPT_TTL,
        MOBILE_STATE_DIR=tmp_path / "state",
    )
    numbers = count()
    ids: list[str] = []

    async def echo(caller, text: str) -> None:
        """The next message is the answer, and no other."""
        await caller.say(text, text)
        message = await caller.expect("message")
        assert message["text"] == text
        ids.append(message["id"])

    async def days_ahead() -> int:
        """By the newest line of the log."""
        device = f"visitor-{next(numbers)}"
        async with server.connect(device) as visitor:
            await echo(visitor, device)
        line = await server.wait_logged("connection", device=device)
        stamp = datetime.fromisoformat(line["timestamp"])
        return round((stamp - datetime.now(UTC)).total_seconds() / 86_400)

    async with server.connect("phone") as phone:
        assert await days_ahead() == 0
        for days in (1, -1):
            before, after = f"before {days}", f"after {days}"
            await echo(phone, before)
            await phone.send_frame(
                {
                    "t": "deliver",
                    "id": f"kept {days}",
                    "target": f"tablet {days}",
                    "text": "k",
                    "keep": True,
                }
            )
            await phone.say(f"card {days}", "/run ls")
            card = await phone.expect("prompt")
            clock.step(days)
            assert await days_ahead() == days
            await phone.send_frame({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
            done = await phone.expect("prompt_done", id=card["id"])
            assert (done["option_id"], done.get("expired")) == ("once", None)
            assert (await phone.expect("message"))["text"] == "Applied: once"
            await phone.say(before, before)
            await echo(phone, after)
            async with server.connect(f"tablet {days}") as tablet:
                assert (await tablet.receive())["id"] == f"kept {days}"
            await phone.expect("avatar", state="idle")
        asked = trio.current_time()
        await phone.say("expires", "/run ls")
        card = await phone.expect("prompt")
        clock.step(0)
        assert await days_ahead() == 0
        assert (await phone.expect("prompt_done"))["expired"] is True
        assert PROMPT_TTL <= trio.current_time() - asked < PROMPT_TTL + LATE
        await phone.expect("typing", stop=True)
        await echo(phone, "the end")
        assert not [line for line in server.log if line.get("device") == "phone"]
    assert len(set(ids)) == len(ids)
    assert not [line for line in server.log if line["level"] in {"warning", "error"}]
