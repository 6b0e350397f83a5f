"""The agent's program as a process: where it runs, what it inherits, and that nothing of it is left."""

from __future__ import annotations

import os

import pytest
import trio

from hermes_mobile.agents import AgentSettings
from hermes_mobile.agents.acp.process import TERM_SECONDS, open_program


def shell(script, directory, **environ):
    return AgentSettings(
        command=("sh", "-c", script),
        directory=directory,
        environ={"PATH": os.environ["PATH"], **environ},
    )


async def read_all(stream):
    return b"".join([chunk async for chunk in stream]).decode()


async def test_where_a_program_runs(tmp_path):
    """Issue 7: in its directory, with the server's environment but for what is the server's own."""
    script = "pwd; echo $KEY-$MOBILE_TOKEN; cat; echo aside >&2; exit 3"
    async with open_program(shell(script, tmp_path, KEY="k", MOBILE_TOKEN="secret")) as program:
        await program.stdin.send_all(b"said\n")
        await program.stdin.aclose()
        assert await read_all(program.stdout) == f"{tmp_path}\nk-\nsaid\n"
        assert await read_all(program.stderr) == "aside\n"
        assert await program.wait() == 3


async def test_a_program_that_is_not_there(tmp_path):
    """Issue 7: OSError, whose reason the log can have."""
    with pytest.raises(OSError, match="No such file"):
        async with open_program(AgentSettings(command=("no-such-program",), directory=tmp_path)):
            pass


async def test_what_a_program_started_ends_with_it(tmp_path):
    """Issue 7: also what outlived the program itself, which holds its streams open."""
    async with open_program(shell("sleep 1000 & echo $!", tmp_path)) as program:
        pid = int(await program.stdout.receive_some())
        await program.wait()
        os.kill(pid, 0)  # it is there
    with trio.fail_after(5):
        while alive(pid):  # noqa: ASYNC110 - of another process
            await trio.sleep(0.01)


def alive(pid):
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
async def test_a_program_that_will_not_end(tmp_path):
    """D35: half a second after SIGTERM it is killed, also where the server itself is cancelled."""
    with trio.CancelScope() as scope:
        async with open_program(
            shell("trap '' TERM; echo up; while :; do sleep 1; done", tmp_path)
        ) as program:
            await program.stdout.receive_some()
            wait = program.wait
            start = trio.current_time()
            scope.cancel()
    assert TERM_SECONDS <= trio.current_time() - start < TERM_SECONDS + 2
    assert await wait() == -9
