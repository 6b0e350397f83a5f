"""The wake hook: when the operator's command runs, what it is told, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from hermes_mobile.server.values import Command
from hermes_mobile.server.wake import Wake, environment, run_command
from house import Peer, attachment, delivery, open_house

WAKE = Command(("wake-up", "--now"))


class Phones:
    """Stands in for the command: notes when it ran, and for whom."""

    def __init__(self, *statuses: int | Exception, seconds: float = 0.0) -> None:
        self.woken: list[tuple[float, str, str]] = []
        self.running = self.most_running = 0
        self.killed = 0
        self._statuses = list(statuses)
        self._seconds = seconds

    async def run(self, argv, environ) -> int:
        assert argv == WAKE.argv
        device, kind = environ["HERMES_MOBILE_DEVICE"], environ["HERMES_MOBILE_KIND"]
        self.woken.append((trio.current_time(), device, kind))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.sleep(self._seconds)
        except trio.Cancelled:
            self.killed += 1
            raise
        finally:
            self.running -= 1
        status = self._statuses.pop(0) if self._statuses else 0
        if isinstance(status, Exception):
            raise status
        return status


@asynccontextmanager
async def open_bedroom(phones: Phones, **settings: Any):
    """A server whose command is played by `phones`."""
    async with open_house(wake_command=WAKE, **settings) as house:
        house.hub.wake = Wake(house.hub, phones.run)
        yield house


async def confirm(peer: Peer) -> None:
    """Let the server learn that all of it arrived (D32)."""
    await trio.sleep(1)
    await peer.drain()


async def test_a_device_that_is_away_is_woken(autojump_clock):
    """At once, by what is kept for it; one that is there is not."""
    async with open_bedroom(phones := Phones()) as house:
        there = await house.connect("there")
        await house.say("hello", device="there")
        await there.expect("message")
        await confirm(there)
        await house.say("hello", device="away")
        await trio.testing.wait_all_tasks_blocked()
    assert phones.woken == [(1.0, "away", "message")]


@pytest.mark.parametrize("what", ["media", "prompt", "keep"])
async def test_the_kind_is_told(autojump_clock, what):
    """D25, D32: files, cards and kept deliveries wake too; each says what it is."""
    async with open_bedroom(phones := Phones()) as house:
        if what == "prompt":
            house.hub.turns.start_soon(house.hub.conversation("phone").ask_approval, "make")
        else:
            courier = await house.connect("courier")
            how = {"media": attachment(b"123"), "text": ""} if what == "media" else {}
            await courier.send(delivery("d1", keep=True, **how))
            await courier.drain()
        await trio.testing.wait_all_tasks_blocked()
    kind = "message" if what == "keep" else what
    assert phones.woken == [(0.0, "phone", kind)]


async def test_the_end_of_a_card_wakes_nobody(autojump_clock):
    """There is nothing to look at."""
    async with open_bedroom(phones := Phones(), prompt_ttl=100.0) as house:
        peer = await house.connect()
        await peer.say("m1", "/run make")
        await peer.expect("prompt")
        await confirm(peer)
        await house.lose(peer)
        assert phones.woken == []
        await trio.sleep(200)
        kept = [unit.frame_name for unit in house.hub.registry.get("phone").mailbox]
        assert kept == ["prompt_done", "message"]
    assert phones.woken == [(100.0, "phone", "message")]


async def test_not_more_often_than_the_interval(autojump_clock):
    """What is kept within it wakes at its end, once for all of it; then there is silence."""
    async with open_bedroom(phones := Phones(), wake_interval=60.0) as house:
        await house.say("1")
        await trio.sleep(10)
        await house.say("2", "3")
        await trio.sleep(100)
        assert [at for at, _, _ in phones.woken] == [0.0, 60.0]
        await trio.sleep(100)
        await house.say("4")
        await trio.sleep(100)
    assert [at for at, _, _ in phones.woken] == [0.0, 60.0, 210.0]


async def test_one_who_came_is_not_woken(autojump_clock):
    """At the end of the interval the device is there, or has been and got everything."""
    async with open_bedroom(phones := Phones(), ping_interval=1e3) as house:
        await house.say("1", device="stays")
        await house.say("1", device="goes")
        await trio.sleep(10)
        await house.say("2", device="stays")
        await house.say("2", device="goes")
        stays, goes = await house.connect("stays"), await house.connect("goes")
        for peer in (stays, goes):
            await confirm(peer)
        await house.lose(goes)
        await trio.sleep(100)
    assert sorted(phones.woken) == [(0.0, "goes", "message"), (0.0, "stays", "message")]


async def test_what_its_connection_took_along_wakes_it(autojump_clock):
    """D32: what was written and not confirmed is kept when the connection ends."""
    async with open_bedroom(phones := Phones()) as house:
        peer = await house.connect()
        await house.say("1", "2")
        await peer.expect("message")
        await house.lose(peer)
        await trio.sleep(100)
    assert phones.woken == [(0.0, "phone", "message")]


async def test_a_stream_wakes_once(autojump_clock):
    """However long it grows."""
    async with (
        open_bedroom(phones := Phones()) as house,
        house.hub.conversation("phone").stream() as stream,
    ):
        for _ in range(30):
            await stream.append("word ")
            await trio.sleep(10)
    assert phones.woken == [(0.0, "phone", "message")]


async def test_a_device_that_keeps_nothing_is_not_woken(autojump_clock):
    """D32: nobody can come back to a generated id."""
    async with open_bedroom(phones := Phones()) as house:
        peer = await house.connect("")
        device = peer.ready["device"]["id"]
        await peer.say("m1", "/think 5")
        await peer.expect("typing")
        await house.lose(peer)
        await trio.sleep(100)
        assert device.startswith("dev-")
    assert phones.woken == []


async def test_few_commands_run_at_a_time(autojump_clock):
    """Four; the other devices wait for their turn, and all of them get it."""
    async with open_bedroom(phones := Phones(seconds=5.0)) as house:
        for number in range(10):
            await house.say("hello", device=f"dev-{number}")
        await trio.sleep(20)
    assert phones.most_running == 4
    assert [at for at, _, _ in phones.woken] == [0.0] * 4 + [5.0] * 4 + [10.0] * 2


async def test_a_command_that_hangs_is_killed(autojump_clock, logs):
    """After 10 s; the device gets its next one as if nothing had been."""
    async with open_bedroom(phones := Phones(seconds=1e6)) as house:
        await house.say("1")
        await trio.sleep(11)
        assert phones.killed == 1
        await house.say("2")
        await trio.sleep(60)
        assert house.hub.metrics.wakes == {"failed": 2}
    assert [at for at, _, _ in phones.woken] == [0.0, 60.0]
    assert told(logs) == [{"error": "took too long"}] * 2


@pytest.mark.parametrize(
    ("failure", "field"),
    [
        (3, {"status": 3}),
        (-9, {"status": -9}),
        (FileNotFoundError(2, "No such file or directory"), {"error": "No such file or directory"}),
        (ValueError("embedded null byte"), {"error": "ValueError"}),
    ],
)
async def test_a_failure_is_told(autojump_clock, logs, failure, field):
    """By its status or reason; nothing else happens, and what was kept is kept."""
    async with open_bedroom(Phones(failure)) as house:
        await house.say("secret words")
        await trio.sleep(100)
        assert house.hub.metrics.wakes == {"failed": 1}
        assert len(house.hub.registry.get("phone").mailbox) == 1
    assert told(logs) == [field]
    assert "secret" not in str(logs)


def told(logs) -> list[dict[str, object]]:
    """What the warnings say beside the device and the kind."""
    known = {"event": "wake failed", "log_level": "warning", "device": "phone", "kind": "message"}
    found = [line for line in logs if known.items() <= line.items()]
    return [{key: line[key] for key in line.keys() - known} for line in found]


async def test_the_end_of_the_server_ends_it(autojump_clock):
    """D35: a command that runs is killed, and none begins once the server stops."""
    async with open_bedroom(phones := Phones(seconds=8.0)) as house:
        await house.say("1")
        await trio.testing.wait_all_tasks_blocked()
        house.hub.stopping = True
        await house.say("1", device="tablet")
        await trio.testing.wait_all_tasks_blocked()
    assert (len(phones.woken), phones.killed) == (1, 1)


async def test_without_a_command_nothing_is_done(autojump_clock):
    """Not even a task."""
    async with open_house() as house:
        await trio.testing.wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        await house.say("1")
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_reload_may_take_it_away(autojump_clock):
    """Also from a device whose interval runs."""
    async with open_bedroom(phones := Phones()) as house:
        await house.say("1")
        await trio.sleep(1)
        await house.say("2")
        house.hub.settings = type(house.hub.settings)(token="t")
        await trio.sleep(100)
    assert len(phones.woken) == 1


# The process


def test_it_inherits_no_secrets(monkeypatch):
    """Of the server's environment it gets what any program needs, by name."""
    monkeypatch.setenv("MOBILE_TOKEN", "secret")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/secret")
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.delenv("LC_ALL", raising=False)
    environ = environment("tel-1", "media")
    assert environ.keys() <= {"PATH", "HOME", "LANG", "TZ", *HOOK}
    assert (environ["PATH"], environ["HERMES_MOBILE_DEVICE"]) == ("/bin", "tel-1")
    assert "secret" not in str(environ)


HOOK = ("HERMES_MOBILE_DEVICE", "HERMES_MOBILE_KIND")


def python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


async def test_a_real_command(tmp_path, capfd):
    """It gets its arguments and the environment to the letter, no input, and nobody sees its output."""
    script = """if True:
        import os, sys
        with open(sys.argv[1], "w") as file:
            print(*sys.argv[2:], os.environ["HERMES_MOBILE_DEVICE"], repr(sys.stdin.read()), file=file)
        print("output")
        print("trouble", file=sys.stderr)
        sys.exit(3)
    """
    environ = {"PATH": os.environ["PATH"], "HERMES_MOBILE_DEVICE": "$(reboot) 'tel'"}
    file = tmp_path / "told"
    assert await run_command(python(script, file, "$HOME", "*"), environ) == 3
    assert file.read_text() == "$HOME * $(reboot) 'tel' ''\n"
    assert capfd.readouterr() == ("", "")


async def test_a_real_command_is_killed_with_its_children(tmp_path):
    """Both of them hold a pipe, and it ends long before they would have let it go."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = """if True:
        import os, sys, time
        os.fork()
        with open(sys.argv[1], "w") as file:
            print("here", file=file, flush=True)
            time.sleep(20)
    """
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_command, python(script, fifo), dict(os.environ))
            pipe = await trio.open_file(fifo)
            assert [await pipe.readline() for _ in range(2)] == ["here\n"] * 2
            nursery.cancel_scope.cancel()
        async with pipe:
            assert await pipe.read() == ""


@pytest.mark.parametrize("refusal", [PermissionError, ProcessLookupError])
async def test_a_real_command_that_may_not_be_killed(monkeypatch, refusal):
    """It has become another user's, or is gone: it is waited for, and no fault reaches the server."""
    gone = []

    def refuse(group, _):
        os.kill(group, signal.SIGTERM)  # as if it had ended by itself
        gone.append(group)
        raise refusal

    monkeypatch.setattr(os, "killpg", refuse)
    with trio.fail_after(10):
        with trio.move_on_after(0.1) as waiting:
            await run_command(["sleep", "20"], {"PATH": os.environ["PATH"]})
    assert waiting.cancelled_caught
    assert len(gone) == 1


async def test_a_program_that_is_not_there():
    """It is an OSError, as everywhere."""
    with pytest.raises(FileNotFoundError):
        await run_command(["/nonexistent/wake-up"], {})


async def test_the_example_for_ntfy(tmp_path):
    """The script of `docs/operations.md` tells each phone's topic the kind, and others nothing."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    script, curl, told_curl = tmp_path / "wake", tmp_path / "curl", tmp_path / "told"
    script.write_text(
        re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    )
    curl.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$7: $9: $last" >> {told_curl}\n')
    for program in (script, curl):
        program.chmod(0o700)
    for device, kind in (("tel-1", "message"), ("tel-2", "prompt"), ("*", "media")):
        environ = environment(device, kind) | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        assert await run_command([str(script)], environ) == 0
    assert told_curl.read_text().splitlines() == [
        "Priority: default: You have a new message: https://ntfy.example.org/hermes-f3Kq81",
        "Priority: high: A question waits for your answer: https://ntfy.example.org/hermes-Zp07xw",
    ]
