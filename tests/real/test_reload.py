"""SIGHUP, as an operator sends it: the process goes on, with what its files say now."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from street import CLOSE, PATIENCE, ServerProcess, masked

pytestmark = pytest.mark.slow

OLD, NEW = "the-old-token-of-all-phones", "the-new-token-of-all-phones"
WITHDRAWN = (1008, "auth_failed")


class Operator:
    """Writes the settings of a server, and reloads it."""

    def __init__(self, serve: Any, directory: Path) -> None:
        self._config = directory / "hermes-mobile.toml"
        self._secret = directory / "token"
        self._serve = serve
        self.server: ServerProcess

    def start(self, token: str, settings: str = "") -> None:
        self.write(token, settings)
        self.server = self._serve("--config", str(self._config), MOBILE_TOKEN="")

    def write(self, token: str, settings: str = "") -> None:
        self._secret.write_text(token)
        self._config.write_text(f'token_file = "{self._secret}"\n{settings}\n')

    async def reload(self) -> dict[str, Any]:
        """Send SIGHUP; returns the line of the log that tells what came of it."""
        told = len(self._told())
        self.server.terminate(signal.SIGHUP)
        with trio.fail_after(PATIENCE):
            while True:
                for line in self._told()[told:]:
                    return line
                await trio.sleep(0.01)

    def _told(self) -> list[dict[str, Any]]:
        return [line for line in self.server.log if line["event"].startswith("reload")]


@pytest.fixture
def operator(serve, tmp_path):
    return Operator(serve, tmp_path)


async def test_rotation_of_the_app_token(operator):
    """Old and new token side by side, then the old one withdrawn: who changed over stays on."""
    operator.start(OLD)
    server = operator.server
    async with server.connect("late", token=OLD) as late:
        async with server.connect("early", token=OLD) as early:
            await early.say("m1", "/think 2")
            await early.expect("typing")
            operator.write(NEW, f'extra_tokens = ["{OLD}"]')
            told = await operator.reload()
            assert (told["event"], told["closed"]) == ("reloaded", 0)
            assert told["applied"] == ["MOBILE_TOKEN", "MOBILE_EXTRA_TOKENS"]
            await early.send(masked(CLOSE, (1000).to_bytes(2)))
            await early.receive_rest()
        async with server.connect("early", token=NEW) as early:
            operator.write(NEW)
            assert (await operator.reload())["closed"] == 1
            assert (await late.expect("error"))["code"] == "auth_failed"
            assert await late.receive_end() == WITHDRAWN
            assert (await early.expect("message"))["text"] == "Thought for 2 s."
    async with server.call() as refused:
        await refused.upgrade()
        await refused.hello(OLD, "late")
        assert await refused.receive_end() == WITHDRAWN
    assert OLD not in server.log_text
    assert NEW not in server.log_text


async def test_a_broken_file_keeps_everything(operator):
    """One line says what is wrong; a later reload of a mended file is none the worse for it."""
    operator.start(OLD)
    async with operator.server.connect("phone", token=OLD) as phone:
        operator.write(NEW, "port = ")
        told = await operator.reload()
        assert (told["event"], told["level"]) == ("reload refused", "error")
        assert "not TOML" in told["problem"]
        await phone.say("m1", "still there?")
        assert (await phone.expect("message"))["text"] == "still there?"
        operator.write(OLD, "prompt_ttl = 60")
        assert (await operator.reload())["applied"] == ["MOBILE_PROMPT_TTL"]
        await phone.say("m2", "/run ls")
        assert (await phone.expect("prompt"))["timeout_seconds"] == 60


async def test_the_log_level_and_what_stays(operator):
    """From now on debug lines are written, too; another port waits for a restart, and is named."""
    operator.start(OLD)
    async with operator.server.connect("phone", token=OLD) as phone:
        await phone.say("m1", "before")
        await phone.expect("typing", stop=True)
        operator.write(OLD, 'log_level = "debug"\nport = 1')
        told = await operator.reload()
        assert told["applied"] == ["MOBILE_LOG_LEVEL"]
        # The port of this server comes from its environment, and so does the rest of what it is given.
        assert told["need_restart"] == []
        assert {"MOBILE_PORT", "MOBILE_HTTP_PORT"} <= set(told["not_read_again"])
        await phone.say("m2", "after")
        assert (await operator.server.wait_logged("turn"))["id"] == "m2"


async def test_a_made_up_token_survives(serve):
    """D36: the console link that was printed at the start goes on working."""
    server = serve(MOBILE_TOKEN="")
    server.process.stdout.readline()
    token = next(
        line.split()[1] for line in iter(server.process.stdout.readline, "") if " token " in line
    )
    async with server.connect("phone", token=token) as phone:
        server.terminate(signal.SIGHUP)
        await server.wait_logged("reloaded", applied=[], closed=0)
        await phone.say("m1", "still there?")
        assert (await phone.expect("message"))["text"] == "still there?"
    async with server.connect("tablet", token=token):
        pass
