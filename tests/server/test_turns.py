"""Turns: in what order, at once or not, and whom they harm when they go wrong (D20, D30, D35)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cast import Scripted
from hermes_mobile.agents import Agent, Mode
from house import open_house, texts

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Conversations, Turn


async def work(turn: Turn) -> None:
    """Say what was sent, and a second later that it is done."""
    text = turn.input.text  # type: ignore[union-attr] - texts only
    await turn.reply(text)
    await trio.sleep(1)
    await turn.reply(f"{text} done")


async def test_a_serial_agent_has_one_turn_at_a_time(autojump_clock: MockClock) -> None:
    """The port: what comes meanwhile waits, in its order."""
    async with open_house(Scripted(work)) as house:
        peer = await house.connect()
        for text in "abc":
            await peer.say(text, text)
        said = texts(await peer.receive_for(10))
    assert said == ["a", "a done", "b", "b done", "c", "c done"]


async def test_a_concurrent_agent_gets_each_message_at_once(autojump_clock: MockClock) -> None:
    """The port: `Mode.CONCURRENT`."""
    async with open_house(Scripted(work, Mode.CONCURRENT)) as house:
        peer = await house.connect()
        for text in "abc":
            await peer.say(text, text)
            await wait_all_tasks_blocked()
        said = texts(await peer.receive_for(10))
    assert said[:3] == ["a", "b", "c"]
    assert sorted(said[3:]) == ["a done", "b done", "c done"]


async def test_devices_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    """The port: one turn at a time is per session."""
    async with open_house(Scripted(work)) as house:
        phone, tablet = await house.connect("phone"), await house.connect("tablet")
        await phone.say("m1", "a")
        await tablet.say("m1", "b")
        start = trio.current_time()
        assert texts(await phone.receive_until("typing", stop=True)) == ["a", "a done"]
        assert texts(await tablet.receive_until("typing", stop=True)) == ["b", "b done"]
        assert trio.current_time() - start == 1


async def test_a_turn_goes_on_without_its_connection(autojump_clock: MockClock) -> None:
    """D32: a phone that falls asleep does not kill the work, nor the messages that wait behind it."""
    async with open_house(Scripted(work)) as house:
        peer = await house.connect()
        for text in "ab":
            await peer.say(text, text)
        await peer.expect("message")
        await house.lose(peer)
        await trio.sleep(10)
        said = texts(await (await house.connect()).receive_for(0.1))
    assert said == ["a", "a done", "b", "b done"]


# Failures


def failing(error: BaseException) -> Scripted:
    async def fail(turn: Turn) -> None:
        if turn.input.id == "bad":
            raise error
        await work(turn)

    return Scripted(fail)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a secret"),
        ExceptionGroup("secrets", [ValueError("a secret"), KeyError("another")]),
        trio.BrokenResourceError("a secret"),
        trio.ClosedResourceError("a secret"),
        trio.TooSlowError("a secret"),
        SystemExit("a secret"),
    ],
)
async def test_an_exception_harms_its_own_turn_only(
    autojump_clock: MockClock, logs: list[dict[str, Any]], error: BaseException
) -> None:
    """D35, D39: `internal_error` with the id, the next turn runs, the exception's text is not told."""
    async with open_house(failing(error)) as house:
        peer = await house.connect()
        await peer.say("bad", "a")
        await peer.say("good", "b")
        frames = await peer.receive_for(10)
    (told,) = [frame for frame in frames if frame["t"] == "error"]
    assert (told["code"], told["fatal"], told["id"]) == ("internal_error", False, "bad")
    assert texts(frames) == ["b", "b done"]
    (logged,) = [entry for entry in logs if entry["event"] == "turn failed"]
    assert logged["id"] == "bad"
    assert "secret" not in str(logs) + str(frames)


async def test_the_id_of_a_failed_turn_can_be_sent_again(autojump_clock: MockClock) -> None:
    """D19: what ended in `internal_error` is forgotten by the deduplication."""
    failures = 0

    async def fail_once(turn: Turn) -> None:
        nonlocal failures
        if not failures:
            failures += 1
            raise RuntimeError
        await turn.reply("done")

    async with open_house(Scripted(fail_once)) as house:
        peer = await house.connect()
        await peer.say("m1", "a")
        await peer.expect("error", id="m1")
        await peer.say("m1", "a")
        await peer.expect("message", text="done")


async def test_a_failure_in_a_nursery_of_the_agent_is_one_turns(autojump_clock: MockClock) -> None:
    """D35: children that fail while others are cancelled are one failed turn."""

    async def fail(turn: Turn) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(turn.ask, "Which?", ["a"])
            await trio.sleep(1)
            raise RuntimeError

    async with open_house(Scripted(fail)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        frames = await peer.receive_until("typing", stop=True)
    kinds = [frame["t"] for frame in frames if frame["t"] != "avatar"]
    assert kinds == ["typing", "prompt", "prompt_done", "error", "typing"]


async def test_an_agent_that_catches_its_cancellation_is_heard_out(
    autojump_clock: MockClock,
) -> None:
    """D27: it can only end: what it wants to say after `/stop` is not said."""

    async def cling(turn: Turn) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            await turn.reply("one more thing")

    async with open_house(Scripted(cling)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        await peer.expect("typing")
        await peer.say("m2", "/stop")
        frames = await peer.receive_for(10)
        await peer.say("m3", "go")
        await peer.expect("typing")
    assert texts(frames) == ["Stopped: 1 running, 0 waiting."]


async def test_an_agent_that_swallows_its_cancellation_ends_its_turn(
    autojump_clock: MockClock,
) -> None:
    """D27: returning instead of raising is an end like any other."""

    async def swallow(turn: Turn) -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return

    async with open_house(Scripted(swallow)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        await peer.expect("typing")
        await peer.say("m2", "/stop")
        await peer.expect("typing", stop=True)
        assert [frame["t"] for frame in await peer.receive_for(10)] == ["avatar"]


async def test_a_cancellation_of_the_agents_own_is_not_the_servers(
    autojump_clock: MockClock,
) -> None:
    """The port: a deadline that an agent sets itself ends what it says, and no more."""

    async def hurry(turn: Turn) -> None:
        with trio.move_on_after(1):
            await trio.sleep_forever()
        await turn.reply("late")

    async with open_house(Scripted(hurry)) as house:
        peer = await house.connect()
        await peer.say("m1", "go")
        assert texts(await peer.receive_until("typing", stop=True)) == ["late"]


# Speech outside turns


class Herald(Agent):
    """Says good morning to two devices, and then fails."""

    async def handle(self, turn: Turn) -> None:
        await turn.reply("still here")

    async def run(self, conversations: Conversations) -> None:
        for device in ("phone", "tablet"):
            await conversations.conversation(device).reply("Good morning")
        await trio.sleep(10)
        raise RuntimeError("a secret")


async def test_an_agent_speaks_outside_turns(autojump_clock: MockClock) -> None:
    """The port, D32: to a device that is away, or was never here, it is kept."""
    async with open_house(Herald()) as house:
        for device in ("phone", "tablet"):
            peer = await house.connect(device)
            assert texts(await peer.receive_for(0.1)) == ["Good morning"]


async def test_background_work_that_fails_ends_alone(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """The port, D39: the server and its turns go on; type and place are logged, no text."""
    async with open_house(Herald()) as house:
        peer = await house.connect()
        await trio.sleep(20)
        await peer.say("m1", "hello?")
        await peer.expect("message", text="still here")
    (failure,) = [entry for entry in logs if "background" in entry["event"]]
    assert failure["error"] == "RuntimeError"
    assert "secret" not in str(logs)


async def test_questions_can_be_asked_outside_turns(autojump_clock: MockClock) -> None:
    """The port: a card of the background waits for the device, and for its answer."""
    async with open_house() as house, trio.open_nursery() as nursery:
        answers = []

        async def ask() -> None:
            answers.append(await house.hub.conversation("phone").ask("Which?", ["a", "b"]))

        nursery.start_soon(ask)
        await trio.sleep(100)
        peer = await house.connect()
        card = await peer.expect("prompt", timeout_seconds=200)
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": "c1"})
        await peer.expect("prompt_done", option_id="c1")
    assert [answer.text for answer in answers] == ["b"]
