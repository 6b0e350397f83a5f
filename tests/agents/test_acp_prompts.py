"""Prompts, as the agent sees them, and what comes of it for a person: in memory, in virtual time."""

from __future__ import annotations

import pytest
import trio

from acp_stage import open_stage
from hermes_mobile import __version__
from hermes_mobile.agents import OutgoingFile
from hermes_mobile.agents.acp.updates import ITEM_BYTES, TooMuchError, Updates
from hermes_mobile.server.turn import MAX_WORDS_CHARS
from house import chunk, texts

DENIED = {"outcome": {"outcome": "selected", "optionId": "deny"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
HERMES_OPTIONS = [
    {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "allow_session", "name": "Allow for session", "kind": "allow_always"},
    {"optionId": "allow_always", "name": "Allow always", "kind": "allow_always"},
    {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
]


async def first_prompt(house, stage, text="hello", **introduction):
    """A device, the program, and the prompt that `text` has become."""
    peer = await house.connect()
    actor = await stage.actor()
    await actor.introduce(**introduction)
    await peer.say("m1", text)
    await actor.open_session()
    return peer, actor, await actor.expect("session/prompt")


def permission(**more):
    call = {"toolCallId": "t1", "title": "Remove", "kind": "execute"}
    call["rawInput"] = {"command": "rm -r build"}
    return {
        "id": 7,
        "method": "session/request_permission",
        "params": {"sessionId": "s1", "toolCall": call, "options": HERMES_OPTIONS} | more,
    }


async def test_what_is_written(tmp_path, autojump_clock):
    """Issue 7: strict writing: who we are, what we do not offer, an absolute place, one text."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        assert await actor.introduce() == {
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
                "elicitation": {"form": {}},
            },
            "clientInfo": {"name": "hermes-mobile", "version": __version__},
        }
        await peer.say("m1", " as it is ")
        assert await actor.open_session() == {"cwd": str(tmp_path), "mcpServers": []}
        prompt = await actor.expect("session/prompt")
        assert prompt["params"] == {
            "sessionId": "s1",
            "prompt": [{"type": "text", "text": " as it is "}],
        }
        await actor.end_turn(prompt)
        await peer.expect("typing", stop=True)


async def test_ten_states_a_second_at_most(tmp_path, autojump_clock):
    """Issue 7: chunks are edits; those that come within 0.1 s are one, and the end waits for nothing."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        for n in range(9):
            await actor.say(f"{n} ")
            await trio.sleep(0.03)
        ended = trio.current_time()
        await actor.end_turn(prompt)
        frames = await peer.receive_until("typing", stop=True)
        assert trio.current_time() == ended
    assert list(dict.fromkeys(texts(frames))) == [
        "0 ",
        "0 1 2 3 ",
        "0 1 2 3 4 5 6 ",
        "0 1 2 3 4 5 6 7 8 ",
    ]


async def test_messages_are_parted_by_tools_and_by_their_ids(tmp_path, autojump_clock):
    """Issue 7: what stands before a tool call is whole; empty lines between messages are dropped."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.say("First.", messageId="a")
        await actor.update(sessionUpdate="tool_call", toolCallId="t1", title="Look")
        await actor.update(sessionUpdate="tool_call_update", toolCallId="t1", status="completed")
        await actor.say("\n\n", messageId="a")
        await actor.say("Second.", messageId="a")
        await actor.say("Third.", messageId="b")
        await actor.update(sessionUpdate="agent_thought_chunk", content={"type": "text"})
        await actor.say("\n")
        await actor.end_turn(prompt)
        frames = await peer.receive_until("typing", stop=True)
    finals = [frame for frame in frames if frame.get("final")]
    assert texts(finals) == ["First.", "Second.", "Third."]


async def test_what_is_not_known_is_passed_over(tmp_path, autojump_clock, logs):
    """Issue 7: lenient reading, of lines, reports, contents and sessions."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        for line in (b"Starting...", b"", b"[]", b"17", b'{"id":99,"result":{}}', b"\xff", b"{}"):
            await actor.send_line(line)
        await actor.send(method="_vendor/news", params=[])
        for update in (
            {},
            {"sessionUpdate": ["odd"]},
            {"sessionUpdate": "plan", "entries": []},
            {"sessionUpdate": "usage_update", "used": 1},
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}},
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "%"}},
            {"sessionUpdate": "agent_message_chunk", "content": "text"},
        ):
            await actor.update(**update)
        await actor.say("of another session", "s2")
        await actor.say("heard")
        await actor.end_turn(prompt)
        frames = await peer.receive_until("typing", stop=True)
    assert texts(frames)[-1] == "heard"
    assert [entry for entry in logs if entry["log_level"] in {"error", "warning"}] == []


async def test_what_we_do_not_offer(tmp_path, autojump_clock):
    """Issue 7: files and terminals are refused with the code for it, and ids are given back as sent."""
    async with open_stage(tmp_path) as (house, stage):
        _, actor, _ = await first_prompt(house, stage)
        await actor.send(id="a", method="fs/read_text_file", params={"path": "/etc/passwd"})
        answer = await actor.receive()
        assert answer == {
            "id": "a",
            "error": {"code": -32601, "message": "fs/read_text_file: not offered"},
        }


@pytest.mark.parametrize(
    ("option", "chosen"),
    [("once", "allow_once"), ("session", "allow_session"), ("always", "allow_always")],
)
async def test_options_are_told_by_id(tmp_path, autojump_clock, option, chosen):
    """Issue 7: Hermes has two options of one kind; the id tells which is which."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, _ = await first_prompt(house, stage)
        await actor.send(**permission())
        card = await peer.expect("prompt")
        assert [each["id"] for each in card["options"]] == ["once", "session", "always", "deny"]
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": option})
        answer = await actor.receive()
    assert answer == {
        "id": 7,
        "result": {"outcome": {"outcome": "selected", "optionId": chosen}},
    }


@pytest.mark.parametrize(("name", "seconds"), [("actor", 300), ("hermes-agent", 58)])
async def test_a_card_lives_as_long_as_the_agent_waits(tmp_path, autojump_clock, name, seconds):
    """Issue 7: Hermes gives up after 60 s without a word; a card that expires is a refusal."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, _ = await first_prompt(house, stage, name=name)
        asked = trio.current_time()
        await actor.send(**permission())
        card = await peer.expect("prompt")
        assert card["timeout_seconds"] == seconds
        await peer.expect("prompt_done", expired=True)
        assert trio.current_time() == asked + seconds
        assert (await actor.receive())["result"] == DENIED


async def test_questions_that_belong_to_no_prompt(tmp_path, autojump_clock):
    """Issue 7: nobody is asked; the agent hears that it is cancelled."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.end_turn(prompt)
        await peer.expect("typing", stop=True)
        await actor.send(**permission())
        assert (await actor.receive())["result"] == CANCELLED
        await actor.send(id=8, method="elicitation/create", params={"requestId": 3})
        assert (await actor.receive())["result"] == {"action": "cancel"}


async def test_options_that_nobody_can_choose(tmp_path, autojump_clock):
    """Issue 7: a request without an option of a known kind is a wrong one, and no card."""
    async with open_stage(tmp_path) as (house, stage):
        _, actor, _ = await first_prompt(house, stage)
        await actor.send(**permission(options=[{"optionId": "x", "name": "X", "kind": "maybe"}]))
        assert (await actor.receive())["error"]["code"] == -32602
        await actor.send(**permission(options=None))
        assert (await actor.receive())["error"]["code"] == -32602


async def test_the_agent_takes_its_question_back(tmp_path, autojump_clock):
    """Issue 7: `$/cancel_request` withdraws the card."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, _ = await first_prompt(house, stage)
        await actor.send(**permission())
        card = await peer.expect("prompt")
        await actor.send(method="$/cancel_request", params={"requestId": 7})
        await peer.expect("prompt_done", id=card["id"], expired=True)
        assert (await actor.receive())["error"]["code"] == -32800
        await actor.send(method="$/cancel_request", params={"requestId": 7})  # too late: nothing
        await peer.drain()


async def test_what_a_tool_call_told_before_is_on_the_card(tmp_path, autojump_clock):
    """D23: a permission may name only the id of a call; the card shows what is known of it."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, _ = await first_prompt(house, stage)
        for n in range(20):
            await actor.update(
                sessionUpdate="tool_call", toolCallId=f"t{n}", title=f"Title {n}", rawInput={"n": n}
            )
        output = [{"type": "content", "content": {"type": "text", "text": "what came out"}}]
        await actor.update(sessionUpdate="tool_call_update", toolCallId="t19", content=output)
        await actor.send(**permission(toolCall={"toolCallId": "t19"}))
        card = await peer.expect("prompt")
        assert card["command"] == 'Title 19\n\n{\n  "n": 19\n}'
        await actor.send(**permission(toolCall={"toolCallId": "t0"}) | {"id": 8})
        card = await peer.expect("prompt")
        assert card["command"] == "A tool of the agent"  # of the last 16 calls only


async def test_stop_waits_for_the_agent(tmp_path, autojump_clock):
    """D27: nothing is said after it, and the next prompt waits until the agent has ended this one."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.say("one")
        await actor.send(**permission())
        await peer.expect("prompt")
        await peer.say("m2", "/stop")
        await peer.say("m3", "again")
        assert await actor.expect("session/cancel") == {
            "method": "session/cancel",
            "params": {"sessionId": "s1"},
        }
        assert (await actor.receive())["result"] == CANCELLED
        await actor.say("two")
        await actor.send(**permission())
        assert (await actor.receive())["result"] == CANCELLED
        await trio.sleep(5)
        await actor.end_turn(prompt, "cancelled")
        prompt = await actor.expect("session/prompt")
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "again"}]
        await actor.end_turn(prompt)
        said = texts(await peer.receive_until("typing", stop=True))
        said += texts(await peer.receive_until("typing", stop=True))
    assert "two" not in "".join(said)


async def test_an_agent_that_does_not_stop_is_restarted(tmp_path, autojump_clock, logs):
    """Issue 7: 10 s after `session/cancel` its program is ended; the session is loaded again."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, _ = await first_prompt(house, stage)
        await peer.say("m2", "/stop")
        await actor.expect("session/cancel")
        stopped = trio.current_time()
        second = await stage.actor()
        assert stage.closed == [stopped + 10]
        await second.introduce()
        await peer.say("m3", "again")
        load = await second.expect("session/load")
        assert load["params"] == {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}
    assert [e for e in logs if e["event"].startswith("agent goes on after")]


async def test_a_session_that_may_be_stuck_is_forked(tmp_path, autojump_clock):
    """Issue 7: Hermes fails a prompt that is cancelled during a tool, and then only queues others."""
    forking = {"loadSession": True, "sessionCapabilities": {"fork": {}}}
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage, **forking)
        await peer.say("m2", "/stop")
        await actor.expect("session/cancel")
        await actor.fail(prompt, -32603)
        await peer.say("m3", "again")
        fork = await actor.expect("session/fork")
        assert fork["params"]["sessionId"] == "s1"
        await actor.answer(fork, sessionId="s2")
        prompt = await actor.expect("session/prompt")
        assert prompt["params"]["sessionId"] == "s2"


async def test_without_forks_a_session_is_used_as_it_is(tmp_path, autojump_clock):
    """Issue 7: an agent may fail a prompt that is cancelled, and be well."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await peer.say("m2", "/stop")
        await actor.expect("session/cancel")
        await actor.fail(prompt, -32603)
        await peer.say("m3", "again")
        prompt = await actor.expect("session/prompt")
        assert prompt["params"]["sessionId"] == "s1"


async def test_a_prompt_that_fails(tmp_path, autojump_clock):
    """Issue 7: it is this turn's failure, and may be sent again; the session stays."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.send(id=prompt["id"], error="odd")
        assert (await peer.expect("error"))["id"] == "m1"
        await peer.say("m1", "hello")
        prompt = await actor.expect("session/prompt")
        assert prompt["params"]["sessionId"] == "s1"


async def test_a_session_that_the_agent_forgets(tmp_path, autojump_clock):
    """Issue 7: the turn fails; the next one takes it up again, or, where it cannot, a new one."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.fail(prompt, -32002)
        assert (await peer.expect("error"))["id"] == "m1"
        await peer.say("m1", "hello")
        await actor.fail(await actor.expect("session/load"), -32002)
        await actor.open_session("s2")
        prompt = await actor.expect("session/prompt")
        assert prompt["params"]["sessionId"] == "s2"


async def test_signing_in_again(tmp_path, autojump_clock):
    """Issue 7: a key may have expired when a session is loaded; it is loaded after signing in."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.fail(prompt, -32002)
        await peer.expect("error")
        await peer.say("m1", "hello")
        await actor.fail(await actor.expect("session/load"), -32000)
        await actor.answer(await actor.expect("authenticate"))
        await actor.answer(await actor.expect("session/load"), modes={})
        prompt = await actor.expect("session/prompt")
        assert prompt["params"]["sessionId"] == "s1"


async def test_an_elicitation(tmp_path, autojump_clock):
    """Issue 7: a clarify card, behind what was said before it; `/stop` cancels it."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, _ = await first_prompt(house, stage)
        schema = {"properties": {"drink": {"type": "string", "enum": ["Tea", "Coffee"]}}}
        params = {"sessionId": "s1", "mode": "form", "message": "Which?", "requestedSchema": schema}
        await actor.say("Well, ")
        await peer.expect("message")
        await actor.say("now.")
        await actor.send(id=5, method="elicitation/create", params=params)
        frames = await peer.receive_until("prompt", kind="clarify")
        assert texts([frame for frame in frames if frame.get("final")]) == ["Well, now."]
        await peer.send({"t": "prompt", "prompt_id": frames[-1]["id"], "option_id": "c0"})
        assert await actor.receive() == {
            "id": 5,
            "result": {"action": "accept", "content": {"drink": "Tea"}},
        }
        await actor.send(id=6, method="elicitation/create", params=params)
        await peer.expect("prompt", kind="clarify")
        await peer.say("m2", "/stop")
        answers = [await actor.receive(), await actor.receive()]
        assert {"id": 6, "result": {"action": "cancel"}} in answers


async def test_a_request_that_fails_within_us(tmp_path, autojump_clock, logs):
    """Issue 7: what no agent should send is an error of that request, and of nothing else."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.send(**permission(sessionId=["odd"]))
        assert (await actor.receive())["error"] == {"code": -32603, "message": "internal error"}
        await actor.end_turn(prompt)
        await peer.expect("typing", stop=True)
    assert "agent's request failed" in [entry["event"] for entry in logs]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("refusal", ["The agent refuses to go on."]),
        ("max_tokens", ["The agent stopped: the answer is as long as it may be."]),
        ("max_turn_requests", ["The agent stopped: it has taken as many steps as it may."]),
        ("cancelled", ["The agent broke off."]),
        ("end_turn", []),
        ("_vendor", []),
        (None, []),
    ],
)
async def test_ends_that_the_reply_does_not_show(tmp_path, autojump_clock, reason, said):
    """Issue 7: they are said in words."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        await actor.end_turn(prompt, reason)
        assert texts(await peer.receive_until("typing", stop=True)) == said


async def test_a_file_that_is_too_large(tmp_path, autojump_clock):
    """Issue 7: the person is told, and the reply goes on."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        content = {"type": "image", "data": "A" * (12 << 20), "mimeType": "image/png"}
        await actor.update(sessionUpdate="agent_message_chunk", content=content)
        await actor.say("So.")
        await actor.end_turn(prompt)
        said = texts(await peer.receive_until("typing", stop=True))
    assert said[0].startswith("A file of the agent cannot be shown: a file has at most")
    assert said[-1] == "So."


async def test_more_than_can_be_shown(tmp_path, autojump_clock):
    """Issue 7: an agent that says more than a slow device takes fails its turn, and no other."""
    async with open_stage(tmp_path, outbox_bytes=1, write_timeout=300) as (house, stage):
        house.send_buffer = 4096
        peer, actor, prompt = await first_prompt(house, stage)
        content = {"type": "image", "data": "A" * (8 << 20), "mimeType": "image/png"}
        for _ in range(9):
            await actor.update(sessionUpdate="agent_message_chunk", content=content)
        await actor.end_turn(prompt)
        assert (await peer.expect("error"))["id"] == "m1"


async def test_what_was_shown_makes_room(tmp_path, autojump_clock, monkeypatch):
    """Issue 7: the bound is on what waits, not on what an agent says in all."""
    monkeypatch.setattr("hermes_mobile.agents.acp.updates.MAX_WAITING_BYTES", ITEM_BYTES + 10)
    updates = Updates()
    for _ in range(5):
        data = {"type": "image", "data": "AAAAAAAA"}
        updates.take_note({"sessionUpdate": "agent_message_chunk", "content": data})
        assert isinstance(await updates.next(), OutgoingFile)
        text = {"type": "text", "text": "six cs"}
        updates.take_note({"sessionUpdate": "agent_message_chunk", "content": text})
        assert await updates.next_text() == "six cs"
    updates.take_note({"sessionUpdate": "agent_message_chunk", "content": text})
    updates.take_note({"sessionUpdate": "agent_message_chunk", "content": text})
    with pytest.raises(TooMuchError):
        await updates.next()


async def test_reports_that_say_little_are_bounded_too(monkeypatch, autojump_clock):
    """Issue 7: an endless run of empty reports is too much, as are a few large ones."""
    monkeypatch.setattr("hermes_mobile.agents.acp.updates.MAX_WAITING_BYTES", 10 * ITEM_BYTES)
    for reports in (
        [{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}],
        [
            {"sessionUpdate": "agent_thought_chunk"},
            {"sessionUpdate": "agent_message_chunk", "messageId": "a"},
            {"sessionUpdate": "agent_message_chunk", "messageId": "b"},
        ],
    ):
        updates = Updates()
        for report in reports * 11:
            updates.take_note(report)
        with pytest.raises(TooMuchError):
            await updates.next()


async def test_a_card_that_no_phone_could_read(tmp_path, autojump_clock):
    """Issue 7: a permission with more words than a card has room for is an error for the agent."""
    async with open_stage(tmp_path) as (house, stage):
        peer, actor, prompt = await first_prompt(house, stage)
        call = {"title": "Write", "kind": "edit", "rawInput": {"text": "x" * MAX_WORDS_CHARS}}
        await actor.send(**permission(toolCall=call))
        assert (await actor.receive())["error"]["code"] == -32603
        await actor.end_turn(prompt)
        frames = await peer.receive_until("typing", stop=True)
        assert "prompt" not in {frame["t"] for frame in frames}


async def test_a_file_of_the_person(tmp_path, autojump_clock):
    """Issue 7: an image goes as an image, behind its caption."""
    async with open_stage(tmp_path) as (house, stage):
        peer = await house.connect()
        actor = await stage.actor()
        await actor.introduce()
        await peer.send(chunk("f1", b"pixels", kind="image", mime="image/png", caption="Look"))
        await actor.open_session()
        prompt = await actor.expect("session/prompt")
    assert prompt["params"]["prompt"] == [
        {"type": "text", "text": "Look"},
        {"type": "image", "data": "cGl4ZWxz", "mimeType": "image/png"},
    ]
