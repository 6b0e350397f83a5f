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
        await caller.say("m1", f"/file {8 * MIB}")
        return caller


CUT = {"at_work": ["m1", "m2"], "asked": ["m1"], "streaming": ["m1"]}
"""The messages of each that come to nothing."""
HEAR_NOTHING = ("silent", "half_an_upgrade")
HEAR_IT = ("no_hello", "idle", "at_work", "asked", "streaming", "uploading", "half_a_frame")
SHUTDOWN = (1001, "shutdown")


async def test_sigterm_with_a_hundred_connections_in_all_states(serve):
    """D35: ends with 0 within grace + 5 s; who can hear is told all, and who cannot is not reset."""
    server = serve(MOBILE_SHUTDOWN_GRACE=GRACE)
    heard = []

    async def hear_nothing(caller) -> None:
        heard.append(await caller.receive_rest())

    async def hear_it(caller, state: str) -> None:
        cut = []
        while (frame := await caller.receive()) is not None:
            if frame["t"] == "error":
                assert (frame["code"], frame["fatal"]) == ("internal_error", False)
                cut.append(frame["id"])
        assert sorted(cut) == CUT.get(state, [])
        heard.append(caller.closed)

    async with AsyncExitStack() as stack:
        crowd = Crowd(server, stack)
        callers = {
            state: [await getattr(crowd, state)() for _ in range(10)]
            for state in (*HEAR_NOTHING, *HEAR_IT, "never_reading")
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
            await trio.sleep(GRACE / 2)
            with pytest.raises(ConnectionRefusedError):
                await crowd.call()
        assert await trio.to_thread.run_sync(server.wait) == 0
        assert GRACE <= trio.current_time() - started < GRACE + 5
    assert heard.count(b"") == 10 * len(HEAR_NOTHING)
    assert heard.count(SHUTDOWN) == 10 * len(HEAR_IT)
    lines = server.log
    ends = [line["end"] for line in lines if line["event"] == "connection"]
    assert ends == ["shutdown"] * 100
    assert not [line for line in lines if line["level"] == "error"]


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
