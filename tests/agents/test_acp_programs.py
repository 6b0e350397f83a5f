"""The agent's program: started, introduced, lost and started again; in memory, in virtual time."""

from __future__ import annotations

import errno
import json
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acp_stage import Stage, open_stage
from hermes_mobile.agents import AgentSettings, AgentSettingsError, load_agent
from hermes_mobile.agents.acp import AcpAgent
from hermes_mobile.agents.acp.jsonrpc import Connection, ConnectionLostError
from hermes_mobile.agents.acp.process import inherited, log_standard_error
from house import open_house, texts


@pytest.fixture(autouse=True)
def no_luck(monkeypatch):
    """Pauses are as long as they may be."""
    monkeypatch.setattr("hermes_mobile.agents.acp.supervisor.random", lambda: 1.0)


def starts(logs):
    """The pauses before each new start."""
    return [entry["seconds"] for entry in logs if entry["event"] == "agent is started again"]


async def test_a_program_that_fails_is_started_ever_more_rarely(tmp_path, autojump_clock, logs):
    """Issue 7: the pauses double up to 30 s, and begin anew after a life of 10 s."""
    async with open_stage(tmp_path) as (_, stage):
        for _ in range(8):
            (await stage.actor()).exit()
        actor = await stage.actor()
        await actor.introduce()
        await trio.sleep(10)
        actor.exit()
        await stage.actor()
    assert starts(logs) == [0.5, 1, 2, 4, 8, 16, 30, 30, 0.5]


async def test_a_program_that_cannot_be_started(tmp_path, autojump_clock, logs):
    """Issue 7: it is tried again, and the log has the reason."""

    @asynccontextmanager
    async def open_program(settings):
        raise OSError(errno.ENOENT, "No such file or directory")
        yield

    agent = AcpAgent(AgentSettings(command=("gone",), directory=tmp_path), open_program)
    async with open_house(agent):
        await trio.sleep(1)
        assert not agent.ready
    assert {"event": "agent cannot be started", "error": "No such file or directory"} in [
        {key: entry.get(key) for key in ("event", "error")} for entry in logs
    ]


@pytest.mark.parametrize(
    "answer",
    [{"protocolVersion": 2}, {"protocolVersion": "1"}, {}],
)
async def test_another_version_of_the_protocol(tmp_path, autojump_clock, logs, answer):
    """Issue 7: an agent that speaks another one is not used, and is tried again."""
    async with open_stage(tmp_path) as (house, stage):
        actor = await stage.actor()
        await actor.answer(await actor.expect("initialize"), **answer)
        await stage.actor()
        assert not house.hub.agent.ready
    assert "VersionError" in [entry.get("error") for entry in logs]


async def test_an_agent_that_does_not_introduce_itself(tmp_path, autojump_clock, logs):
    """Issue 7: after two minutes its program is ended; an error instead of an answer ends it at once."""
    async with open_stage(tmp_path) as (_, stage):
        start = trio.current_time()
        await stage.actor()
        actor = await stage.actor()
        assert stage.closed == [start + 120]
        await actor.fail(await actor.expect("initialize"), -32603)
        await stage.actor()
    errors = [entry["error"] for entry in logs if "does not answer" in entry["event"]]
    assert errors == ["TooSlowError", "RpcError"]


async def test_a_message_waits_for_the_agent(tmp_path, autojump_clock):
    """Issue 7: for two minutes; then it is `internal_error`, and may be sent again."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        sent = trio.current_time()
        await peer.say("m1", "hello")
        actor = await stage.actor()
        error = await peer.expect("error", code="internal_error", id="m1")
        assert not error["fatal"]
        assert trio.current_time() == sent + 120
        await peer.expect("typing", stop=True)
        second = await stage.actor()  # the first was too slow as well
        del actor
        await peer.say("m1", "hello")
        await second.introduce()
        await second.open_session()
        await second.end_turn(await second.expect("session/prompt"))
        await peer.expect("typing", stop=True)


async def test_ready_tells_whether_it_runs(tmp_path, autojump_clock):
    """Issue 7: `/readyz` asks this."""
    async with open_stage(tmp_path) as (house, stage):
        assert not house.hub.agent.ready
        actor = await stage.actor()
        await actor.introduce()
        await wait_all_tasks_blocked()
        assert house.hub.agent.ready
        actor.exit()
        await wait_all_tasks_blocked()
        assert not house.hub.agent.ready


async def test_a_program_whose_streams_stay_open(tmp_path, autojump_clock):
    """Issue 7: something that it started may hold them; its end is its end, a second later."""
    async with open_stage(tmp_path) as (_, stage):
        actor = await stage.actor()
        await actor.introduce()
        actor._exited.set()
        ended = trio.current_time()
        await stage.actor()
        assert stage.closed == [ended + 1]


async def test_a_crash_amid_a_file(tmp_path, autojump_clock):
    """Issue 7: half a message is none; its turn fails, and the same message can be sent again."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        await actor.introduce()
        await peer.say("m1", "hello")
        await actor.open_session()
        await actor.expect("session/prompt")
        await actor._stdout.send_all(b'{"method": "session/update", "params": {"data": "AAAA')
        actor.exit()
        error = await peer.expect("error")
        assert (error["code"], error["id"], error["fatal"]) == ("internal_error", "m1", False)
        again = await stage.actor()
        await again.introduce()
        await peer.say("m1", "hello")
        await again.answer(await again.expect("session/load"), modes={})
        prompt = await again.expect("session/prompt")
        await again.say("Here.")
        await again.end_turn(prompt)
        assert (await peer.expect("message", final=True))["text"] == "Here."


async def test_how_a_program_ended_is_logged(tmp_path, autojump_clock, logs):
    """Issue 7: its exit status; none where it has only closed its output, or is given up."""
    async with open_stage(tmp_path) as (_, stage):
        (await stage.actor()).exit(7)
        actor = await stage.actor()
        actor._stdout.close()
        closed = trio.current_time()
        actor = await stage.actor()
        assert stage.closed[1] == closed + 1
        await actor.fail(await actor.expect("initialize"), -32603)
        await stage.actor()
    assert [e["status"] for e in logs if e["event"] == "agent ended"] == [7, None, None]


async def test_a_message_without_end(tmp_path, autojump_clock, logs, monkeypatch):
    """Issue 7: lines are bounded; beyond it the program is started again."""
    monkeypatch.setattr("hermes_mobile.agents.acp.jsonrpc.MAX_LINE_BYTES", 1000)
    async with open_stage(tmp_path) as (_, stage):
        actor = await stage.actor()
        await actor.introduce()
        await actor.send_line(b"x" * 1001)
        actor = await stage.actor()
        await actor.introduce()
        await actor._stdout.send_all(b"x" * 1001)
        await stage.actor()
    assert [e["limit"] for e in logs if e["event"] == "agent's message is too long"] == [1000] * 2


async def test_an_agent_that_does_not_read(tmp_path, autojump_clock, logs):
    """Issue 7: 30 s for one message; then its program is started again."""

    @asynccontextmanager
    async def open_deaf_program(settings):
        async with stage.open_program(settings) as program:
            program.stdin.send_all_hook = trio.sleep_forever
            yield program

    stage = Stage()
    async with open_house(AcpAgent(AgentSettings(directory=tmp_path), open_deaf_program)):
        start = trio.current_time()
        await stage.actor()
        await stage.actor()
        assert trio.current_time() == start + 30 + 0.5
    assert "agent does not read" in [entry["event"] for entry in logs]


async def test_too_many_requests(tmp_path, autojump_clock):
    """Issue 7: an agent may ask 64 things at once, each with an id of its own."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        await actor.introduce()
        await peer.say("m1", "hello")
        await actor.open_session()
        await actor.expect("session/prompt")
        call = {"toolCallId": "t1", "title": "Look"}
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s1", "toolCall": call, "options": options}
        for number in (*range(64), 64, 63):
            await actor.send(id=number, method="session/request_permission", params=params)
        for number in (64, 63):
            refusal = await actor.receive()
            assert (refusal["id"], refusal["error"]["code"]) == (number, -32603)
        assert len([f for f in await peer.drain() if f["t"] == "prompt"]) == 64


class Clumsy:
    """Our side, where everything goes wrong."""

    async def answer(self, method, params):
        return {"number": 2**70}

    def take_note(self, method, params):
        raise KeyError(method)


async def test_what_goes_wrong_with_us(autojump_clock, logs):
    """Issue 7: a notification or a request that we fail costs itself, and not the connection."""
    incoming, theirs = trio.testing.memory_stream_one_way_pair()[::-1]
    ours, outgoing = trio.testing.memory_stream_one_way_pair()[::-1]
    connection = Connection(incoming, outgoing, Clumsy())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await theirs.send_all(b'{"method":"a"}\n{"method":"b","id":1}\n')
        answer = await ours.receive_some()
        connection.close()
    assert json.loads(answer)["error"] == {"code": -32603, "message": "internal error"}
    assert [entry["event"] for entry in logs] == [
        "agent's notification failed",
        "agent's request failed",
    ]
    with pytest.raises(ConnectionLostError):
        await connection.notify("too late", {})


async def test_nobody_has_signed_in(tmp_path, autojump_clock, logs):
    """Issue 7: what needs a person at the agent's own machine is said in the log."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        request = await actor.expect("initialize")
        terminal = {"id": "setup", "name": "Set up", "type": "terminal"}
        await actor.answer(request, protocolVersion=1, authMethods=[terminal])
        await peer.say("m1", "hello")
        await actor.fail(await actor.expect("session/new"), -32000, "Authentication required")
        await peer.expect("error", id="m1")
    assert "agent wants somebody to sign in, where it runs" in [e["event"] for e in logs]


async def test_signing_in(tmp_path, autojump_clock):
    """Issue 7: a method that needs no more than being called is used; one that needs a terminal not."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        await actor.introduce()
        await peer.say("m1", "hello")
        await actor.fail(await actor.expect("session/new"), -32000)
        authenticate = await actor.expect("authenticate")
        assert authenticate["params"] == {"methodId": "key"}
        await actor.answer(authenticate)
        await actor.open_session()
        await actor.expect("session/prompt")


async def test_an_answer_that_is_no_session(tmp_path, autojump_clock):
    """Issue 7: the turn fails, and the next one asks again."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        await actor.introduce()
        await peer.say("m1", "hello")
        await actor.answer(await actor.expect("session/new"), sessionId=7)
        await peer.expect("error", id="m1")
        await peer.say("m1", "hello")
        await actor.open_session()
        await actor.expect("session/prompt")


@pytest.mark.parametrize(
    ("replay", "answer", "taken"),
    [
        (["user_message_chunk"], {}, True),
        ([], {"modes": {}}, True),
        ([], {}, False),
        ([], None, False),
    ],
)
async def test_whether_a_session_was_loaded(tmp_path, autojump_clock, replay, answer, taken):
    """Issue 7: some agents answer nothing to an id they never heard of; that is no session."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        first = await stage.actor()
        await first.introduce()
        await peer.say("m1", "hello")
        await first.open_session()
        await first.end_turn(await first.expect("session/prompt"))
        await peer.expect("typing", stop=True)
        first.exit()
        second = await stage.actor()
        await second.introduce()
        await peer.say("m2", "again")
        load = await second.expect("session/load")
        for kind in replay:
            text = {"type": "text", "text": "said before"}
            await second.update(sessionUpdate=kind, content=text)
        await second.send(id=load["id"], result=answer)
        if not taken:
            await second.open_session("s2")
        prompt = await second.expect("session/prompt")
        assert prompt["params"]["sessionId"] == ("s1" if taken else "s2")
        await second.end_turn(prompt)
        assert texts(await peer.receive_until("typing", stop=True)) == []


async def test_stopping_cuts_a_prompt(tmp_path, autojump_clock):
    """D35: the agent is told to cancel; the server does not wait for it longer than for any turn."""
    async with open_stage(tmp_path, shutdown_grace=3) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        await actor.introduce()
        await peer.say("m1", "hello")
        await actor.open_session()
        await actor.expect("session/prompt")
        start = trio.current_time()
        await house.stop()
        assert trio.current_time() <= start + 3.5
        await actor.expect("session/cancel")


# What the program is given, and what it leaves


def test_the_environment_of_the_program():
    """Issue 7: the server's, without the server's own settings and secrets."""
    environ = {
        "PATH": "/bin",
        "MODEL_KEY": "k",
        "MOBILE_TOKEN": "secret",
        "CREDENTIALS_DIRECTORY": "/run/credentials",
        "NOTIFY_SOCKET": "/run/notify",
    }
    assert inherited(environ) == {"PATH": "/bin", "MODEL_KEY": "k"}


async def test_standard_error_is_for_who_debugs(autojump_clock, logs):
    """D39: at `debug` only, cut to 1,000 characters, 100 lines in 10 s, and how many were dropped."""
    ours, theirs = trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log_standard_error, theirs)
        await ours.send_all(b"half a ")
        await wait_all_tasks_blocked()
        await ours.send_all(b"line\n" + b"x" * 1500 + b"\n" + b"y\n" * 200)
        await trio.sleep(10)
        await ours.send_all(b"later \xff\n")
        await wait_all_tasks_blocked()
        await ours.aclose()
    assert {entry["log_level"] for entry in logs} == {"debug"}
    lines = [entry["line"] for entry in logs if "line" in entry]
    assert (lines[0], len(lines[1]), len(lines), lines[-1]) == ("half a line", 1000, 101, "later �")
    assert [entry["lines_dropped"] for entry in logs if "lines_dropped" in entry] == [102]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "MOBILE_AGENT_COMMAND must be set for the agent acp"),
        ({"command": ("no-such-program-1",)}, "MOBILE_AGENT_COMMAND: no program 'no-such-"),
        ({"command": ("./agent",)}, "MOBILE_AGENT_COMMAND: no program './agent' is found"),
        ({"command": ("sh",), "directory": "gone"}, "MOBILE_AGENT_DIR must be a directory"),
    ],
)
def test_what_cannot_work_is_said_at_the_start(tmp_path, settings, problem):
    """Issue 7: a program or a directory that is not there is a wrong configuration."""
    directory = tmp_path / settings.pop("directory", ".")
    with pytest.raises(AgentSettingsError, match=f"^{problem}"):
        load_agent("acp", AgentSettings(**settings, directory=directory))


def test_a_program_beside_its_work(tmp_path):
    """Issue 7: a path is one from the directory that the agent works in."""
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    agent = load_agent("acp", AgentSettings(command=("./agent",), directory=tmp_path))
    assert isinstance(agent, AcpAgent)
