"""`--agent acp` with an agent of other people's making: the Python package `agent-client-protocol`."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import trio

from acp_peer import PIXEL
from hermes_mobile.agents import AgentSettings
from hermes_mobile.agents.acp import AcpAgent
from house import audio, chunk, open_house, texts
from street import PATIENCE, TESTS

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, str(TESTS / "acp_peer.py"))


@asynccontextmanager
async def acp_house(directory: Path, *arguments: str, **settings):
    """A house whose agent is the peer, working in `directory`; what it keeps lies there too."""
    agent = AcpAgent(
        AgentSettings(
            command=(*COMMAND, *arguments),
            directory=directory,
            state_dir=directory,
            environ=os.environ,
        )
    )
    with trio.fail_after(PATIENCE):
        async with open_house(agent, **settings) as house:
            yield house


async def heard(peer):
    """What the agent says until its turn ends, in whole messages."""
    frames = await peer.receive_until("typing", stop=True)
    return texts([frame for frame in frames if frame.get("final")])


async def said(peer, id, text):
    """What the agent says to a text."""
    await peer.say(id, text)
    return await heard(peer)


def gone(pid):
    """Whether a process has ended; a zombie that nobody waits for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def until(happened):
    while not happened():  # noqa: ASYNC110 - of another process
        await trio.sleep(0.01)


async def test_what_an_agent_says(tmp_path):
    """Issue 7: chunks are states of one message, images files; a refusal is said, thoughts are not."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        await peer.say("m1", "one two three")
        frames = await peer.receive_until("typing", stop=True)
        messages = [frame for frame in frames if frame["t"] == "message"]
        assert {frame["id"] for frame in messages} == {messages[0]["id"]}
        assert (messages[-1]["text"], messages[-1]["final"]) == ("one two three ", True)
        await peer.say("m2", "/image")
        media = await peer.expect("media", kind="image", mime="image/png")
        assert base64.b64decode(media["data"]) == PIXEL
        await peer.expect("typing", stop=True)
        assert await said(peer, "m3", "/refuse") == ["The agent refuses to go on."]


async def test_a_permission_is_asked_for(tmp_path):
    """Issue 7: a card with the command, whose option is told to the agent as one of its own."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        for option, outcome in (("once", "yes"), ("always", "always"), ("deny", "no")):
            await peer.say(option, "/run rm -r build")
            frames = await peer.receive_until("prompt")
            assert texts(frames)[-1] == "I shall run it."
            card = frames[-1]
            assert (card["kind"], card["command"]) == ("exec_approval", "rm -r build")
            assert [each["id"] for each in card["options"]] == ["once", "always", "deny"]
            await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": option})
            assert await heard(peer) == [f"It was {outcome}."]


async def test_a_card_that_expires_is_a_refusal(tmp_path):
    """D23: the agent is told its own word for no."""
    async with acp_house(tmp_path, prompt_ttl=0.2) as house:
        peer = await house.connect()
        assert await said(peer, "m1", "/run rm -r build") == ["I shall run it.", "It was no."]


async def test_a_question_is_a_clarification(tmp_path):
    """Issue 7: elicitation, with its choices; what is chosen reaches the agent as the value."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        await peer.say("m1", "/ask Tea or coffee?")
        card = await peer.expect("prompt", kind="clarify", text="Tea or coffee?")
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": "c1"})
        [answer] = await heard(peer)
    assert json.loads(answer) == {"action": "accept", "content": {"drink": "Coffee"}}


async def answers(peer, *frames):
    """What the agent says to each of `frames`."""
    found = []
    for frame in frames:
        await peer.send(frame)
        found += await heard(peer)
    return found


IMAGE = chunk("f1", PIXEL, kind="image", mime="image/png", caption="This")
NOTES = chunk("f2", b"some words", mime="text/plain", filename="notes.txt")
PROGRAM = chunk("f3", b"\0\1", mime="application/zip", filename="a b.zip")
SPOKEN = audio("a1", "T2dnUw==", text="turn off the light")
MUTE = audio("a2", "T2dnUw==")


async def test_what_a_capable_agent_is_given(tmp_path):
    """Issue 7: images as images, files embedded, voice by its transcript or refused by name."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        said = await answers(peer, IMAGE, NOTES, PROGRAM, SPOKEN, MUTE)
    named = ("This ", "A file: notes.txt ", "A file: a b.zip ")
    image, notes, program = map(json.loads, map(str.removeprefix, said, named))
    assert (image["type"], base64.b64decode(image["data"])) == ("image", PIXEL)
    assert notes["resource"]["text"] == "some words"
    assert notes["resource"]["uri"] == "attachment:///notes.txt"
    assert program["resource"] == program["resource"] | {
        "uri": "attachment:///a%20b.zip",
        "blob": "AAE=",
        "mimeType": "application/zip",
    }
    assert said[3] == "turn off the light "
    assert "voice only as text" in said[4]


async def test_what_a_plain_agent_is_refused(tmp_path):
    """Issue 7: what an agent cannot take is refused by name, and the turn ends well."""
    async with acp_house(tmp_path, "--plain") as house:
        peer = await house.connect()
        said = await answers(peer, IMAGE, PROGRAM)
    assert said == [
        "This agent cannot be given files of this kind (image, image/png).",
        "This agent cannot be given files of this kind (document, application/zip).",
    ]


async def test_an_agent_that_wants_to_be_signed_in(tmp_path):
    """Issue 7: `authenticate` with a method that needs nothing else, once it is asked for."""
    async with acp_house(tmp_path, "--signed-in-only") as house:
        assert await said(await house.connect(), "m1", "hello") == ["hello "]


async def test_stop_cancels_the_prompt(tmp_path):
    """D27, D34: the agent is told, says nothing more, its card is withdrawn, and the session goes on."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        await peer.say("m1", "/long")
        await peer.receive_until("message", edit=True)
        await peer.say("m2", "/stop")
        stopped = await peer.receive_until("typing", stop=True)
        assert "Stopped: 1 running, 0 waiting." in texts(stopped)
        await peer.say("m3", "/run rm -r build")
        card = await peer.expect("prompt")
        await peer.say("m4", "/stop")
        frames = await peer.receive_until("typing", stop=True)
        assert {"t": "prompt_done", "id": card["id"], "expired": True} in frames
        assert await said(peer, "m5", "/history") == ["/long | /run rm -r build"]


async def test_each_device_has_a_session(tmp_path):
    """Issue 7: two devices do not see each other's words, and two prompts run at once."""
    async with acp_house(tmp_path) as house:
        phone, tablet = await house.connect("phone"), await house.connect("tablet")
        await phone.say("m1", "/long")
        await phone.expect("message")
        assert await said(tablet, "m1", "hello") == ["hello "]
        assert await said(tablet, "m2", "/history") == ["hello"]


async def test_sessions_outlive_a_restart(tmp_path):
    """Issue 7: ids lie in the state directory; what `session/load` replays is not said again."""
    async with acp_house(tmp_path) as house:
        assert await said(await house.connect(), "m1", "hello") == ["hello "]
    async with acp_house(tmp_path) as house:
        assert await said(await house.connect(), "m2", "/history") == ["hello"]
    assert (tmp_path / "acp-sessions.json").stat().st_mode & 0o777 == 0o600


async def test_a_session_that_the_agent_has_lost(tmp_path):
    """Issue 7: it is a new one then."""
    (tmp_path / "acp-sessions.json").write_text('{"phone": "session-of-old"}')
    async with acp_house(tmp_path) as house:
        assert await said(await house.connect(), "m1", "/history") == ["(none)"]


# The agent dies


async def test_a_crash_in_a_turn(tmp_path):
    """Issue 7: amid a text or a file, `internal_error` for that turn; connection and session stay."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        for message, words in (("m1", "/exit"), ("m2", "/exit-in-image")):
            await peer.say(message, words)
            error = await peer.expect("error")
            assert (error["code"], error["fatal"], error["id"]) == (
                "internal_error",
                False,
                message,
            )
            await peer.expect("typing", stop=True)
        assert await said(peer, "m2", "/history") == ["/exit | /exit-in-image"]


async def test_a_crash_with_a_card_open(tmp_path):
    """Issue 7: the card is withdrawn, and the turn ends; the same message can be sent again."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        [pid] = await said(peer, "m1", "/pid")
        await peer.say("m2", "/run rm -r build")
        card = await peer.expect("prompt")
        os.kill(int(pid), signal.SIGKILL)
        frames = await peer.receive_until("typing", stop=True)
        assert {"t": "prompt_done", "id": card["id"], "expired": True} in frames
        assert [frame["id"] for frame in frames if frame["t"] == "error"] == ["m2"]
        await peer.say("m2", "/run rm -r build")
        await peer.expect("prompt")


async def test_a_crash_while_idle(tmp_path):
    """Issue 7: nobody notices; what it had started ends, and the next message finds a new one."""
    async with acp_house(tmp_path) as house:
        peer = await house.connect()
        [pid], [child] = await said(peer, "m1", "/pid"), await said(peer, "m2", "/child")
        os.kill(int(pid), signal.SIGKILL)
        await until(lambda: gone(child))
        [other] = await said(peer, "m3", "/pid")
        assert other != pid


# The server as a process


@pytest.fixture
def served(serve, tmp_path):
    """The server, with the peer as its agent."""
    return serve(
        *("--agent", "acp", "--agent-command", shlex.join(COMMAND)),
        MOBILE_AGENT_DIR=tmp_path,
        MOBILE_STATE_DIR=tmp_path / "state",
        MOBILE_SHUTDOWN_GRACE=0.2,
        MOBILE_LOG_LEVEL="debug",
        ACP_KEY="k",
    )


async def answer(caller, id, text):
    await caller.say(id, text)
    return (await caller.expect("message", final=True))["text"]


async def test_the_program_of_a_server(served, tmp_path):
    """Issue 7: where it works, what it inherits, files by their path; SIGTERM ends all of it."""
    async with served.connect("phone") as phone:
        assert await answer(phone, "m1", "/environment") == f"{tmp_path} [] k"
        await phone.send_frame(PROGRAM)
        told = (await phone.expect("message", final=True))["text"]
        link = json.loads(told.removeprefix("A file: a b.zip "))
        assert (link["type"], link["name"], link["size"]) == ("resource_link", "a b.zip", 2)
        kept = trio.Path(unquote(urlsplit(link["uri"]).path))
        assert await kept.read_bytes() == b"\0\1"
        pid, child = await answer(phone, "m2", "/pid"), await answer(phone, "m3", "/child")
        await phone.say("m4", "/run rm -r build")
        await phone.expect("prompt")
        served.terminate()
        await phone.expect("error", id="m4")
        assert await phone.receive_end() == (1001, "shutdown")
    assert await trio.to_thread.run_sync(served.wait) == 0
    assert gone(pid)
    await until(lambda: gone(child))
    assert "the peer begins" in [entry.get("line") for entry in served.log]


async def test_a_server_that_is_killed(served):
    """Issue 7: its agent's standard input ends, and so does the agent."""
    async with served.connect("phone") as phone:
        pid = await answer(phone, "m1", "/pid")
    served.process.kill()
    with trio.fail_after(PATIENCE):
        await until(lambda: gone(pid))
