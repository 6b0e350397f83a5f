"""The agent link, from the phone on one side to the agent's process on the other."""

import base64
import json
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock
from wsproto.events import TextMessage

from hermes_mobile.agents.link import LinkAgent, peer, talk
from hermes_mobile.agents.link.messages import Hello
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES
from house import audio, chunk, faults, open_house, texts
from link import WAIT, MemoryLine, dial, linked_house


def reply(id: int | str, text: str = "text", **place: str) -> dict[str, Any]:
    return {"t": "reply", "id": str(id), "text": text, **place}


async def test_a_text_and_its_reply(autojump_clock: MockClock) -> None:
    """The agent gets a person's text as a turn, and its reply reaches the app under the id in `done`."""
    async with linked_house() as house:
        agent = await dial(house)
        phone = await house.connect(user={"id": "u1", "name": "Anna"})
        await phone.say("m1", "Good morning")
        turn = await agent.expect("turn")
        assert turn == {
            "t": "turn",
            "turn": turn["turn"],
            "device": "phone",
            "session": "mobile:phone",
            "user": {"id": "u1", "name": "Anna"},
            "input": {"type": "text", "id": "m1", "text": "Good morning"},
        }
        done = await agent.ask("reply", "1", turn=turn["turn"], text="Good morning, Anna.")
        message = await phone.expect("message")
        assert message["text"] == "Good morning, Anna."
        assert done == {"t": "done", "id": "1", "message": message["id"]}
        await agent.send({"t": "end", "turn": turn["turn"]})
        await phone.expect("typing", stop=True)


async def test_files_in_both_directions(autojump_clock: MockClock) -> None:
    """A file of 8 MiB goes up to the agent and down to the app, whole."""
    data = bytes(range(256)) * (MAX_MEDIA_BYTES // 256)
    async with linked_house() as house:
        agent = await dial(house)
        phone = await house.connect()
        await phone.send_file("f1", data, filename="a.bin", caption="Read")
        turn = await agent.expect("turn")
        assert base64.b64decode(turn["input"].pop("data")) == data
        assert turn["input"] == {
            "type": "file",
            "id": "f1",
            "kind": "document",
            "mime": "application/octet-stream",
            "filename": "a.bin",
            "caption": "Read",
        }
        encoded = base64.b64encode(data).decode()
        answer = agent.ask("file", "1", turn=turn["turn"], kind="video", data=encoded)
        parts: list[bytes] = []

        async def receive() -> None:
            while b"".join(parts) != data:
                parts.append(base64.b64decode((await phone.expect("media"))["data"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            assert (await answer)["t"] == "done"


async def test_a_voice_note(autojump_clock: MockClock) -> None:
    """A voice note goes to the agent as it is, with the words that the app recognised."""
    async with linked_house() as house:
        agent = await dial(house)
        phone = await house.connect()
        await phone.send(audio("v1", "aGVsbG8=", text="hello"))
        turn = await agent.expect("turn")
        assert turn["input"] == {
            "type": "voice",
            "id": "v1",
            "format": "ogg",
            "data": "aGVsbG8=",
            "transcript": "hello",
        }


async def test_a_burst_keeps_its_order(autojump_clock: MockClock) -> None:
    """Messages that come in one breath reach a concurrent agent in the order in which they were sent."""
    async with linked_house() as house:
        agent = await dial(house, mode="concurrent")
        phone = await house.connect()
        ids = [f"m{number}" for number in range(20)]
        frames = [json.dumps({"t": "text", "id": each, "text": "a"}) for each in ids]
        breath = [phone.websocket.send(TextMessage(frame)) for frame in frames]
        await phone.stream.send_all(b"".join(breath))
        heard = [(await agent.expect("turn"))["input"]["id"] for _ in ids]
        assert heard == ids


async def test_what_waited_is_not_overtaken(autojump_clock: MockClock) -> None:
    """What came before a concurrent agent did is worked on before what comes after."""
    async with linked_house() as house:
        phone = await house.connect()
        for number in range(3):
            await phone.say(f"m{number}", "text")
        await trio.testing.wait_all_tasks_blocked()
        agent = await dial(house, mode="concurrent")
        await phone.say("m3", "text")
        for number in range(4):
            turn = await agent.expect("turn")
            assert turn["input"]["id"] == f"m{number}"
            await agent.send({"t": "end", "turn": turn["turn"]})


async def test_ready_is_whether_an_agent_is_there(autojump_clock: MockClock) -> None:
    """`/readyz` tells whether there is an agent: `ready` follows its coming and going."""
    async with linked_house() as house:
        assert not house.hub.agent.ready
        agent = await dial(house)
        assert house.hub.agent.ready
        await agent.crash()
        assert not house.hub.agent.ready


# Backpressure


async def test_a_slow_link_slows_the_agent_down(autojump_clock: MockClock) -> None:
    """A request is answered when there is room for it; what is said to others is not held up."""
    async with linked_house() as house:
        house.send_buffer = 4096
        slow = await house.connect("slow")
        house.send_buffer = None
        quick = await house.connect("quick")
        agent = await dial(house)
        for number in range(16):
            await agent.send(reply(number, "a" * 900_000, device="slow"))
        await agent.send(reply("quick", device="quick"))
        answered = []
        while (answer := await agent.receive())["t"] == "device" or answer["id"] != "quick":
            answered.append(answer)
        assert len(answered) < 12
        await quick.expect("message")
        assert texts(await slow.receive_for(1))
        for number in range(len([each for each in answered if each["t"] == "done"]), 16):
            assert (await agent.receive())["id"] == str(number)


async def test_too_much_at_once_is_refused(autojump_clock: MockClock) -> None:
    """A request beyond 16 without an answer is refused with `busy`; an end is always taken."""
    async with linked_house() as house:
        house.send_buffer = 4096
        phone = await house.connect("phone")
        agent = await dial(house)
        await phone.say("m1", "go")
        turn = await agent.turn()
        sent = 0
        refused = None
        while refused is None:
            await agent.send(reply(sent, "a" * 900_000, turn=turn))
            sent += 1
            with trio.move_on_after(1):
                message = await agent.receive()
                assert message is not None
                refused = message if message["t"] == "error" else None
        assert refused["code"] == "busy"
        assert refused["id"] == str(sent - 1)
        await agent.send({"t": "end", "turn": turn})
        await phone.receive_for(1)
        for _ in range(16):
            assert (await agent.expect("done"))["t"] == "done"


async def test_bytes_without_an_answer_are_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests may hold so many bytes together; one alone may always be there, and each frees its own."""
    monkeypatch.setattr(peer, "BYTES_OPEN", 1000)
    async with linked_house() as house:
        house.send_buffer = 4096
        phone = await house.connect("phone")
        await house.connect("other")
        agent = await dial(house)
        for number in range(10):
            await agent.send(reply(number, "a" * 900_000, device="phone"))
        answers = [await agent.expect("error") for _ in range(3)]
        assert {answer["code"] for answer in answers} == {"busy"}
        await phone.receive_for(1)
        assert (await agent.ask("reply", "later", device="phone", text="a" * 2000))["t"] == "done"


async def test_cards_are_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation has so many open cards, and no two of one id."""
    monkeypatch.setattr(talk, "CARDS_OPEN", 2)
    async with linked_house() as house:
        agent = await dial(house)
        card = {"device": "phone", "kind": "clarify", "text": "?"}
        await agent.send({"t": "ask", "id": "1", **card}, {"t": "ask", "id": "2", **card})
        assert (await agent.ask("ask", "3", **card))["code"] == "busy"
        assert (await agent.ask("reply", "2", device="phone", text="a"))["code"] == "bad_message"
        await agent.ask("withdraw", "4", ask="1")
        assert (await agent.expect("error", id="1"))["code"] == "withdrawn"


async def test_cards_and_conversations_are_bounded_in_all(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that makes up ever more devices gets `busy`; what it withdraws makes room."""
    monkeypatch.setattr(peer, "CARDS_OPEN_IN_ALL", 2)
    monkeypatch.setattr(peer, "TALKS_OPEN", 2)
    card = {"kind": "clarify", "text": "?"}
    async with linked_house() as house:
        agent = await dial(house)
        for n in range(2):
            await agent.send({"t": "ask", "id": f"a{n}", "device": f"d{n}", **card})
        refusal = await agent.ask("ask", "3", device="d0", **card)
        assert (refusal["code"], "cards" in refusal["message"]) == ("busy", True)
        refusal = await agent.ask("reply", "4", device="d2", text="a")
        assert (refusal["code"], "devices" in refusal["message"]) == ("busy", True)
        await agent.ask("withdraw", "5", ask="a0")
        await agent.expect("error", id="a0", code="withdrawn")
        assert (await agent.ask("reply", "6", device="d2", text="a"))["t"] == "done"


async def test_streams_are_bounded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation has so many open streams; one that ends makes room."""
    monkeypatch.setattr(talk, "STREAMS_OPEN", 1)
    async with linked_house() as house:
        agent = await dial(house)
        grow = {"device": "phone", "text": "a"}
        assert (await agent.ask("stream", "1", stream="a", **grow))["t"] == "done"
        assert (await agent.ask("stream", "2", stream="b", **grow))["code"] == "refused"
        assert (await agent.ask("stream", "3", stream="a", final=True, **grow))["t"] == "done"
        assert (await agent.ask("stream", "4", stream="b", **grow))["t"] == "done"


async def test_an_agent_that_takes_nothing_is_given_up(autojump_clock: MockClock) -> None:
    """After the write timeout the link ends; a turn that was not written waits for the next agent."""
    async with linked_house(write_timeout=30) as house:
        house.send_buffer = 4096
        deaf = await dial(house)
        house.send_buffer = None
        phone = await house.connect()
        await phone.send_file("f1", bytes(1 << 20))
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(40)
        assert not house.hub.agent.ready
        agent = await dial(house)
        turn = await agent.expect("turn")
        assert turn["input"]["id"] == "f1"
        await agent.ask("reply", "1", turn=turn["turn"], text="noted")
        assert texts(await phone.receive_for(1)) == ["noted"]
        await deaf.crash()


async def test_stop_amid_a_turn_that_is_being_written(autojump_clock: MockClock) -> None:
    """`/stop` while a turn is on its way: the agent gets all of it, and is told that it is over."""
    async with linked_house() as house:
        house.send_buffer = 4096
        agent = await dial(house)
        house.send_buffer = None
        phone = await house.connect()
        await phone.send_file("f1", bytes(1 << 20))
        await trio.testing.wait_all_tasks_blocked()
        await phone.say("s", "/stop")
        assert texts(await phone.receive_for(1)) == ["Stopped: 1 running, 0 waiting."]
        await agent.expect("device")
        turn = await agent.receive()
        assert turn is not None
        assert len(base64.b64decode(turn["input"]["data"])) == 1 << 20
        assert await agent.receive() == {"t": "cancel", "turn": turn["turn"]}


async def test_stop_before_the_agent_knows(autojump_clock: MockClock) -> None:
    """`/stop` for a turn that waits in line: the agent never hears of it."""
    async with linked_house() as house:
        agent = await dial(house, turns=1)
        await (await house.connect("other")).say("m1", "text")
        turn = await agent.turn()
        phone = await house.connect()
        await phone.say("m1", "text")
        await trio.testing.wait_all_tasks_blocked()
        await phone.say("s", "/stop")
        await phone.expect("message")
        await agent.send({"t": "end", "turn": turn})
        await phone.say("m2", "text")
        assert (await agent.expect("turn"))["input"]["id"] == "m2"


# Agents come and go


async def test_taken_over_amid_a_turn_that_is_being_written(autojump_clock: MockClock) -> None:
    """A turn that the old agent got whole only after the new one came can be sent again."""
    async with linked_house() as house:
        house.send_buffer = 4096
        old = await dial(house)
        house.send_buffer = None
        phone = await house.connect()
        await phone.send_file("f1", bytes(1 << 20))
        await trio.testing.wait_all_tasks_blocked()
        new = await dial(house)
        assert [message["t"] for message in await old.rest()] == ["device", "turn", "goodbye"]
        assert (await phone.expect("error"))["id"] == "f1"
        await phone.send_file("f1", bytes(10))
        assert (await new.expect("turn"))["input"]["id"] == "f1"


async def test_a_crash_amid_a_message(autojump_clock: MockClock) -> None:
    """Half a message of an agent that is gone comes to nothing, and costs its turn alone."""
    async with linked_house() as house:
        agent = await dial(house)
        phone = await house.connect()
        await phone.say("m1", "text")
        turn = await agent.turn()
        encoded = base64.b64encode(bytes(1 << 20)).decode()
        await agent.send(b'{"t":"file","id":"1","turn":"%s","data":"' % turn.encode())
        await agent.send(encoded.encode())
        await agent.crash()
        assert [frame["t"] for frame in await phone.drain()] == ["avatar", "typing"]
        await dial(house)
        assert (await phone.expect("error"))["id"] == "m1"
        assert texts(await phone.drain()) == []


async def test_what_an_agent_that_is_gone_asked_for(autojump_clock: MockClock) -> None:
    """What was read before the agent went is carried out, in its order; then its streams end."""
    async with linked_house() as house:
        house.send_buffer = 4096
        phone = await house.connect()
        house.send_buffer = None
        agent = await dial(house)
        await phone.say("m1", "text")
        turn = await agent.turn()
        grow = {"t": "stream", "turn": turn, "stream": "s"}
        for number in range(14):
            await agent.send(reply(number, f"{number}" + "a" * 900_000, turn=turn))
        await agent.send(
            {**grow, "id": "14", "text": "grow"}, {**grow, "id": "15", "text": "grown"}
        )
        await agent.send({"t": "ask", "id": "card", "turn": turn, "kind": "clarify", "text": "?"})
        await agent.crash()
        await trio.testing.wait_all_tasks_blocked()
        frames = await phone.receive_for(5)
        said = [frame for frame in frames if frame["t"] == "message"]
        assert len({frame["id"] for frame in said}) == 15
        assert (said[-1]["text"], said[-1]["final"]) == ("grown", True)
        assert [frame["text"] for frame in frames if frame["t"] == "prompt"] == ["?"]
        back = await dial(house, resume=agent.ready["link"])
        assert back.ready["asks"] == ["card"]


async def test_nothing_follows_the_end(autojump_clock: MockClock) -> None:
    """What an agent says in a turn after its end, even in one breath with it, is refused."""
    async with linked_house() as house:
        phone = await house.connect()
        agent = await dial(house)
        await phone.say("m1", "text")
        turn = await agent.turn()
        messages = [{"t": "end", "turn": turn}, reply("1", turn=turn), reply("2", turn=turn)]
        await agent.send(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
        refused = [await agent.expect("error", code="turn_over") for _ in range(2)]
        assert {each["id"] for each in refused} == {"1", "2"}
        assert texts(await phone.receive_for(1)) == []


async def test_last_words(autojump_clock: MockClock) -> None:
    """A program that says something to a device, or ends its turn, and leaves at once is heard."""
    async with linked_house() as house:
        phone = await house.connect()
        agent = await dial(house)
        await phone.say("m1", "text")
        turn = await agent.turn()
        await agent.send(
            reply("1", "In the turn.", turn=turn),
            {"t": "end", "turn": turn},
            reply("2", "Outside of it.", device="phone"),
        )
        await agent.crash()
        frames = await phone.receive_for(5)
        assert sorted(texts(frames)) == ["In the turn.", "Outside of it."]
        assert {"t": "typing", "stop": True} in frames
        await dial(house)
        assert [frame["t"] for frame in await phone.drain()] == []


async def test_last_words_that_nobody_waits_an_answer_to(autojump_clock: MockClock) -> None:
    """When a write fails, what the agent said is read on for a moment, and no longer than that."""
    async with linked_house() as house:
        phone = await house.connect()
        line = MemoryLine()
        agent = house.hub.agent
        house.nursery.start_soon(agent.serve, line, Hello(), house.hub)
        assert (await line.hear.receive())["t"] == "ready"
        line.hear.close()
        await trio.testing.wait_all_tasks_blocked()
        assert not agent.ready
        for number in range(3):
            line.say.send_nowait(json.dumps(reply(number, device="phone")).encode())
        line.say.send_nowait(b'{"t":"withdraw","id":"4","ask":"5"}')
        line.say.send_nowait(b'{"t":"nothing"')
        line.say.send_nowait(json.dumps(reply("6", "last", device="phone")).encode())
        started = trio.current_time()
        assert texts([await phone.expect("message") for _ in range(4)])[-1] == "last"
        assert trio.current_time() == started
        await trio.sleep(2)
        line.say.send_nowait(json.dumps(reply("7", device="phone")).encode())
        assert texts(await phone.receive_for(1)) == []


async def test_cards_outside_of_turns_end_with_the_connection(autojump_clock: MockClock) -> None:
    """A card that belongs to no turn is withdrawn when its agent goes."""
    async with linked_house() as house:
        phone = await house.connect()
        agent = await dial(house)
        await agent.send({"t": "ask", "id": "1", "device": "phone", "kind": "clarify", "text": "?"})
        card = await phone.expect("prompt")
        await agent.crash()
        assert (await phone.expect("prompt_done", id=card["id"]))["expired"]


async def test_streams_outside_of_turns_end_with_the_connection(autojump_clock: MockClock) -> None:
    """A reply that grows outside of any turn is final when its agent goes."""
    async with linked_house() as house:
        phone = await house.connect()
        agent = await dial(house)
        await agent.ask("stream", "1", device="phone", stream="s", text="Hel")
        assert (await phone.expect("message"))["final"] is False
        await agent.crash()
        assert (await phone.expect("message", text="Hel"))["final"] is True


async def test_an_answer_waits_for_an_agent_that_resumes_twice(autojump_clock: MockClock) -> None:
    """An answer that could not be written is told to the next agent that resumes."""
    async with linked_house() as house:
        agent = await dial(house)
        phone = await house.connect()
        await phone.say("m1", "text")
        turn = await agent.turn()
        await agent.send({"t": "ask", "id": "card", "turn": turn, "kind": "clarify", "text": "?"})
        card = await phone.expect("prompt")
        await agent.crash()
        await phone.send({"t": "prompt", "prompt_id": card["id"], "text": "words"})
        await phone.expect("prompt_done")
        for _ in range(2):
            await trio.sleep(WAIT - 1)
            agent = await dial(house, resume=agent.ready["link"])
            if agent.ready["asks"]:
                done = await agent.expect("done")
                assert done == {"t": "done", "id": "card", "option": "other", "text": "words"}
            assert agent.ready["turns"] == [turn]
            await agent.crash()


async def test_a_kind_that_is_not_taken(autojump_clock: MockClock) -> None:
    """A phone that connects is told what the agent takes; what others still send is refused."""
    async with linked_house() as house:
        before = await house.connect("before")
        agent = await dial(house, takes=["image"])
        after = await house.connect("after")
        assert after.ready["capabilities"]["media_in"] == ["image"]
        refusal = await after.refusal(chunk("f1", b"hello"))
        assert refusal == ("unsupported_frame", False, "f1")
        refusal = await before.refusal(audio("v1", "aGVsbG8="))
        assert refusal == ("unsupported_frame", False, "v1")
        refusal = await before.refusal(chunk("f1", b"hello"))
        assert refusal == ("internal_error", False, "f1")
        await before.send(chunk("f2", b"hello", kind="image"))
        assert (await agent.expect("turn"))["input"]["id"] == "f2"


async def test_devices_that_are_there_when_the_agent_comes(autojump_clock: MockClock) -> None:
    """The agent is told of every device that is connected, by its name and its person's."""
    async with linked_house() as house:
        await house.connect("phone", user={"id": "u1", "name": "Anna"})
        agent = await dial(house)
        assert await agent.receive() == {
            "t": "device",
            "device": "phone",
            "connected": True,
            "name": "Phone",
            "platform": "",
            "user": {"id": "u1", "name": "Anna"},
        }


async def test_a_slow_agent_is_told_the_newest_state(autojump_clock: MockClock) -> None:
    """However often a device comes and goes, an agent that reads slowly is told of it at most twice."""
    async with linked_house() as house:
        house.send_buffer = 4096
        agent = await dial(house)
        house.send_buffer = None
        busy = await house.connect("busy")
        await busy.send_file("f1", bytes(1 << 20))
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(10):
            await house.lose(await house.connect("restless"))
        states = []
        with trio.move_on_after(5):
            while message := await agent.receive():
                if message.get("device") == "restless":
                    states.append(message["connected"])
        assert 1 <= len(states) <= 2
        assert states[-1] is False


async def test_stopping_tells_the_agent(autojump_clock: MockClock) -> None:
    """D35: turns get their grace; then the agent is told that they are over, and goodbye."""
    async with linked_house(shutdown_grace=5) as house:
        agent = await dial(house)
        phone = await house.connect()
        await phone.say("m1", "text")
        turn = await agent.turn()
        started = trio.current_time()
        await house.stop()
        assert trio.current_time() - started == 5
        rest = [message for message in await agent.rest() if message["t"] != "device"]
        assert [message["t"] for message in rest] == ["cancel", "goodbye"]
        assert rest[0]["turn"] == turn
        assert rest[1]["code"] == "shutdown"


async def test_cut_off_with_a_card_that_closed(autojump_clock: MockClock) -> None:
    """A link that is cancelled while it waits to tell how a card closed ends all the same."""
    async with linked_house() as house:
        phone = await house.connect()
        house.send_buffer = 4096
        agent = await dial(house)
        await phone.say("m1", "text")
        turn = await agent.turn()
        await agent.send({"t": "ask", "id": "1", "turn": turn, "kind": "clarify", "text": "?"})
        card = await phone.expect("prompt")
        await (await house.connect("other")).send_file("f1", bytes(1 << 20))
        await trio.testing.wait_all_tasks_blocked()
        await phone.send({"t": "prompt", "prompt_id": card["id"], "text": "words"})
        await phone.expect("prompt_done")


async def test_an_agent_that_hears_of_devices_may_fail(autojump_clock: MockClock) -> None:
    """What an agent raises when it is told of a device is logged, and hurts nobody."""

    class Fussy(LinkAgent):
        def device_changed(self, device: object) -> None:
            raise ZeroDivisionError

    async with open_house(Fussy(WAIT)) as house:
        phone = await house.connect()
        assert phone.ready["t"] == "ready"


async def test_a_fault_of_the_server_ends_the_link_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: list[dict[str, Any]]
) -> None:
    """A bug in what the link does ends the link, with its place in the log; phones stay."""
    monkeypatch.setattr(peer, "weight", lambda request: 1 // 0)
    async with linked_house() as house:
        phone = await house.connect()
        agent = await dial(house)
        await agent.send(reply("1", device="phone"))
        assert (await agent.expect("goodbye"))["code"] == "internal"
        assert await agent.rest() == []
        await phone.drain()
        assert [fault["error"] for fault in faults(logs)] == ["ZeroDivisionError"]
        assert (await dial(house)).ready["t"] == "ready"
