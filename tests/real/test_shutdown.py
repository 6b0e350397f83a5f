"""How the server process ends, and what it tells those who are there (D35)."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest
import trio

from street import PATIENCE, UPGRADE, environment

pytestmark = pytest.mark.slow
GRACE = 1
MIB = 1 << 20


class Crowd:
    """Callers in every state that a connection can be in."""

    def __init__(self, server, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack
        self._count = 0
        self._stuck = ""

    async def call(self, **how):
        return await self._stack.enter_async_context(self._server.call(**how))

    async def connect(self, **how):
        self._count += 1
        device = f"phone-{self._count}"
        return await self._stack.enter_async_context(self._server.connect(device, **how))

    async def silent(self):
        return await self.call()

    async def half_an_upgrade(self):
        caller = await self.call()
        await caller.send(UPGRADE[:40])
        return caller

    async def no_hello(self):
        caller = await self.call()
        await caller.upgrade()
        return caller

    async def idle(self):
        return await self.connect()

    async def at_work(self):
        caller = await self.connect()
        await caller.say("m1", "/think 60")
        await caller.say("m2", "waits behind it")
        await caller.expect("typing")
        return caller

    async def asked(self):
        caller = await self.connect()
        await caller.say("m1", "/run ls")
        await caller.expect("prompt")
        return caller

    async def streaming(self):
        caller = await self.connect()
        await caller.say("m1", "/stream 10000")
        await caller.expect("message", edit=True)
        return caller

    async def uploading(self):
        caller = await self.connect()
        chunk = base64.b64encode(bytes(4096)).decode()
        media = {"t": "media", "id": "f1", "kind": "image", "part": 0, "parts": 9, "data": chunk}
        await caller.send_frame(media)
        return caller

    async def half_a_frame(self):
        caller = await self.connect()
        await caller.send(bytes((0x81, 0xFE, 0x10)))
        return caller

    async def never_reading(self):
        caller = await self.connect(receive_buffer=4096)
        await caller.say("m1", f"/file {MIB}")
        self._stuck = f"phone-{self._count}"
        return caller

    async def delivering(self):
        """To one that never reads: there is no outcome, and so no pong (D25)."""
        caller = await self.connect()
        await caller.send_frame({"t": "deliver", "id": "d1", "target": self._stuck, "text": "hey"})
        await caller.send_frame({"t": "ping"})
        return caller


CUT = {"at_work": ["m1", "m2"], "asked": ["m1"], "streaming": ["m1"]}
"""The messages of each that come to nothing."""
HEAR_NOTHING = {"silent": 50, "half_an_upgrade": 50}
HEAR_IT = {
    "no_hello": 50,
    "idle": 100,
    "at_work": 60,
    "asked": 60,
    "streaming": 10,
    "uploading": 50,
    "half_a_frame": 30,
    "delivering": 20,
}
CROWD = {**HEAR_NOTHING, "never_reading": 20, **HEAR_IT}
"""How many callers there are in each state: 500 in all."""
SHUTDOWN = (1001, "shutdown")


async def test_sigterm_with_five_hundred_connections_in_all_states(serve):
    """D35: ends with 0 within grace + 5 s; who can hear is told all, and nobody is reset.

    What had been accepted and comes to nothing is told to its sender, and counted in the log.
    """
    server = serve(MOBILE_SHUTDOWN_GRACE=GRACE)
    heard = []

    async def hear_nothing(caller) -> None:
        heard.append(await caller.receive_rest())

    async def hear_it(caller, state: str) -> None:
        errors = []
        while (frame := await caller.receive()) is not None:
            assert frame["t"] != "pong"
            if frame["t"] == "error":
                assert not frame["fatal"]
                errors.append((frame["code"], frame["id"]))
        if state == "delivering":
            assert errors in ([], [("device_offline", "d1")])
        else:
            assert sorted(errors) == [("internal_error", cut) for cut in CUT.get(state, [])]
        heard.append(caller.closed)

    async with AsyncExitStack() as stack:
        crowd = Crowd(server, stack)
        callers = {
            state: [await getattr(crowd, state)() for _ in range(count)]
            for state, count in CROWD.items()
        }
        server.terminate()
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            for state in HEAR_NOTHING:
                for caller in callers[state]:
                    nursery.start_soon(hear_nothing, caller)
            for state in HEAR_IT:
                for caller in callers[state]:
                    nursery.start_soon(hear_it, caller, state)
            await server.wait_logged("stopping", connections=500)
            with pytest.raises(ConnectionRefusedError):
                await crowd.call()
        assert await trio.to_thread.run_sync(server.wait) == 0
        assert GRACE <= trio.current_time() - started < GRACE + 5
    assert heard.count(b"") == sum(HEAR_NOTHING.values())
    assert heard.count(SHUTDOWN) == sum(HEAR_IT.values())
    lines = server.log
    ends = [line["end"] for line in lines if line["event"] == "connection"]
    assert ends == ["shutdown"] * 500
    assert not [line for line in lines if line["level"] == "error"]
    (cut,) = [line for line in lines if line["event"] == "cut short"]
    assert cut["turns"] == sum(CROWD[state] for state in CUT)
    assert cut["messages"] == CROWD["at_work"]
    assert lines[-1]["event"] == "stopped"
    assert lines[-1]["units_lost"] >= CROWD["never_reading"]  # at least the files that nobody read


@pytest.mark.parametrize("agent", ["cast:Shielded", "cast:Threaded"])
async def test_an_agent_that_does_not_let_go_is_left_behind(serve, agent):
    """D35: shielded from being cancelled, or waiting for a thread, it holds up nothing; it is logged."""
    server = serve("--agent", agent, MOBILE_SHUTDOWN_GRACE=0)
    async with server.connect() as caller:
        await caller.say("m1", "60")
        await server.wait_logged("held up")
        server.terminate()
        started = trio.current_time()
        assert await caller.receive_end() == SHUTDOWN
        assert await trio.to_thread.run_sync(server.wait) == 0
        assert trio.current_time() - started < 5.5
    overdue = server.log[-1]
    assert (overdue["event"], overdue["level"]) == ("ended overdue", "error")
    assert overdue["turns_lost"] == 1


async def test_a_second_signal_ends_an_agent_that_does_not_let_go(serve):
    """It need not wait for the time that is left."""
    server = serve("--agent", "cast:Shielded", MOBILE_SHUTDOWN_GRACE=0)
    async with server.connect() as caller:
        await caller.say("m1", "60")
        await server.wait_logged("held up")
        server.terminate()
        assert await caller.receive_end() == SHUTDOWN
        server.terminate()
        assert await trio.to_thread.run_sync(server.wait) == -signal.SIGTERM


def test_without_anyone_sigterm_ends_at_once(serve):
    """D35: nothing is waited for that is not there."""
    server = serve()
    server.terminate()
    assert server.wait(timeout=5) == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_at_once(serve, second):
    """It ends the process as if nobody took it, and the log counts what that loses."""
    server = serve()
    async with server.connect() as caller:
        await caller.say("m1", "/think 60")
        await caller.say("m2", "waits behind it")
        await caller.expect("typing")
        server.terminate()
        await server.wait_logged("stopping")
        server.terminate(second)
        assert await trio.to_thread.run_sync(server.wait) == -second
    lost = server.log[-1]
    assert (lost["event"], lost["level"], lost["signal"]) == ("ended at once", "warning", second)
    assert (lost["connections"], lost["turns_lost"], lost["messages_lost"]) == (1, 1, 1)


async def test_sigint_ends_with_130(serve):
    """Ctrl-C is an orderly stop too, and says that it was one."""
    server = serve(MOBILE_SHUTDOWN_GRACE=GRACE)
    async with server.connect() as caller:
        server.terminate(signal.SIGINT)
        assert await caller.receive_end() == SHUTDOWN
        assert await trio.to_thread.run_sync(server.wait) == 130
    assert "Traceback" not in server.log_text


def test_a_port_that_is_taken_is_told_in_one_line(serve):
    """Exit status 78, and no traceback."""
    port = serve().port
    problem = refuse_to_serve(MOBILE_TOKEN="t" * 16, MOBILE_PORT=port, MOBILE_HTTP_PORT="off")
    assert f"port {port} of 127.0.0.1 is taken" in problem


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"MOBILE_PORT": "high"}, "MOBILE_PORT"),
        ({"MOBILE_HOST": "0.0.0.0"}, "MOBILE_TOKEN"),  # noqa: S104 - refused without a token
        ({"MOBILE_AGENT": "absent:Agent"}, "absent"),
        ({"MOBILE_TOKEN_FILE": "/nowhere/token"}, "MOBILE_TOKEN_FILE"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_line(settings, problem):
    """Exit status 78, a line that names what is wrong, and no traceback (D36)."""
    assert problem in refuse_to_serve(**settings)


def refuse_to_serve(**settings: object) -> str:
    """The one line with which `hermes-mobile serve` refuses."""
    refused = subprocess.run(
        [sys.executable, "-m", "hermes_mobile", "serve"],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (os.EX_CONFIG, "")
    (line,) = refused.stderr.splitlines()
    return line
