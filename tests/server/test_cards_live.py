"""The life of cards, through real connections: deadlines, absence, withdrawal (D34)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from hermes_mobile.agents import Agent
from hermes_mobile.server.values import MAX_SECONDS
from house import House, Peer, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Answer, Turn


class Asker(Agent):
    """Asks for an approval after `pause` seconds, and notes the answer and when it came."""

    def __init__(self, pause: float = 0.0, ttl: float | None = None) -> None:
        self.pause = pause
        self.ttl = ttl
        self.answered: list[tuple[float, Answer]] = []

    async def handle(self, turn: Turn) -> None:
        await trio.sleep(self.pause)
        answer = await turn.ask_approval("ls", ttl=self.ttl)
        self.answered.append((trio.current_time(), answer))

    @property
    def outcomes(self) -> list[tuple[float, str, bool]]:
        return [(at, answer.option, answer.expired) for at, answer in self.answered]


class Impatient(Agent):
    """Gives a question 5 s, then fails, or goes on, as it is told."""

    async def handle(self, turn: Turn) -> None:
        with trio.move_on_after(5.0):
            await turn.ask("Well?", ["Yes"])
        if turn.input.text == "fail":
            raise RuntimeError
        await turn.reply("never mind")


class Careless(Agent):
    """Fails while its question is open."""

    async def handle(self, turn: Turn) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn.ask, "Well?")
            await trio.sleep(1.0)
            raise RuntimeError


async def card_for(peer: Peer, text: str = "hi") -> dict[str, Any]:
    """The card that the agent asks because of `text`."""
    await peer.say(f"asks {text}", text)
    return await peer.expect("prompt")


async def answer(peer: Peer, card: dict[str, Any], option: str = "once") -> None:
    await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": option})


async def come_back(house: House, at: float) -> tuple[Peer, list[dict[str, Any]]]:
    """A new connection of the device at that time, and what it is told after `ready`."""
    await trio.sleep_until(at)
    peer = await house.connect()
    return peer, await peer.drain()


def expired(card: dict[str, Any]) -> dict[str, Any]:
    return {"t": "prompt_done", "id": card["id"], "expired": True}


# While the device is there


async def test_a_card_expires_after_300_s(autojump_clock: MockClock) -> None:
    """D23, D34: exactly then the app gets `prompt_done`, and the agent `deny`."""
    async with open_house(agent := Asker()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        assert card["timeout_seconds"] == 300
        assert await peer.receive_for(299.999) == []
        assert await peer.receive() == expired(card)
        assert trio.current_time() == 300.0
        assert await peer.receive() == {"t": "typing", "stop": True}
        await answer(peer, card)
        assert await peer.receive() == expired(card)
    assert agent.outcomes == [(300.0, "deny", True)]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/run ls", "No answer in time. Applied: deny"),
        ("/confirm x", "No answer in time. Applied: cancel"),
        ("/ask Which? | Red", "No answer in time."),
        ("/ask Which?", "No answer in time."),
    ],
)
async def test_expiry_is_the_safe_answer(
    autojump_clock: MockClock, command: str, said: str
) -> None:
    """D23: `deny`, `cancel`, or no answer."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, command)
        assert await peer.expect("prompt_done") == expired(card)
        assert (await peer.expect("message"))["text"] == said


async def test_an_answer_at_the_deadline_is_too_late(autojump_clock: MockClock) -> None:
    """D34: before 300 s it counts, at 300 s it does not."""
    async with open_house(agent := Asker()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        await peer.receive_for(299.999)
        await answer(peer, card)
        assert (await peer.expect("prompt_done"))["option_id"] == "once"
        card = await card_for(peer, "again")
        await peer.receive_for(299.5)
        await trio.sleep_until(599.999)
        await answer(peer, card)
        assert await peer.expect("prompt_done") == expired(card)
        assert agent.outcomes[1][1:] == ("deny", True)


async def test_agent_and_operator_choose_the_lifetime(autojump_clock: MockClock) -> None:
    """D34: the agent's `ttl` goes before the setting, and what is shown is rounded up."""
    async with open_house(Asker(), prompt_ttl=60.0) as house:
        peer = await house.connect()
        card = await card_for(peer)
        assert card["timeout_seconds"] == 60
        await peer.receive_until("prompt_done", expired=True)
        assert trio.current_time() == 60.0
    async with open_house(Asker(ttl=0.25), prompt_ttl=60.0) as house:
        peer = await house.connect()
        card = await card_for(peer)
        assert card["timeout_seconds"] == 1
        await peer.receive_until("prompt_done", expired=True)
        assert trio.current_time() == 60.25


async def test_no_lifetime_is_beyond_what_an_app_can_be_told(autojump_clock: MockClock) -> None:
    """D34: an agent's `ttl` without measure is a year, as the longest one that a setting may be."""
    async with open_house(Asker(ttl=1e300)) as house:
        peer = await house.connect()
        assert (await card_for(peer))["timeout_seconds"] == MAX_SECONDS


async def test_a_text_waits_while_a_card_is_open(autojump_clock: MockClock) -> None:
    """D34: it is the agent's once the turn is over; the answer goes past it."""
    async with open_house(queue_messages=1) as house:
        peer = await house.connect()
        card = await card_for(peer, "/run ls")
        await peer.say("m2", "hello?")
        assert await peer.receive_for(10.0) == []
        frame = {"t": "text", "id": "m3", "text": "hello??"}
        assert (await peer.refusal(frame))[0] == "internal_error"
        await answer(peer, card)
        assert (await peer.expect("message"))["text"] == "Applied: once"
        assert (await peer.expect("message"))["text"] == "hello?"


# Over reconnections


async def test_a_card_is_shown_again_with_what_remains(autojump_clock: MockClock) -> None:
    """D13, D34: the same id, the seconds rounded up, and the deadline where it was."""
    async with open_house(agent := Asker()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        await peer.receive_for(100.5)
        await peer.vanish()
        peer, frames = await come_back(house, 200.25)
        assert frames == [
            {**card, "timeout_seconds": 100},
            {"t": "avatar", "state": "thinking"},
            {"t": "typing"},
        ]
        assert await peer.receive() == expired(card)
        assert trio.current_time() == 300.0
    assert agent.outcomes == [(300.0, "deny", True)]


async def test_a_card_is_shown_once_to_each_connection(autojump_clock: MockClock) -> None:
    """D13: confirmed or not, it comes once, and the answer of the last connection counts."""
    async with open_house(agent := Asker()) as house:
        card = await card_for(await house.connect())
        for _ in range(3):
            peer = await house.connect()
            frames = await peer.drain()
            assert [each["id"] for each in frames if each["t"] == "prompt"] == [card["id"]]
        await answer(peer, card)
        assert (await peer.expect("prompt_done"))["option_id"] == "once"
    assert agent.outcomes == [(0.0, "once", False)]


async def test_a_card_expires_while_the_device_is_away(autojump_clock: MockClock) -> None:
    """D34: the agent is told at 300 s, the device, which had seen it, when it is back."""
    async with open_house(agent := Asker()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        await peer.vanish()
        await trio.sleep_until(300.0)
        await trio.testing.wait_all_tasks_blocked()
        assert agent.outcomes == [(300.0, "deny", True)]
        peer, frames = await come_back(house, 310.0)
    assert frames == [expired(card)]


async def test_a_card_asked_in_absence_is_shown_later(autojump_clock: MockClock) -> None:
    """D34: its deadline counts from the asking, 10 s after the message."""
    async with open_house(agent := Asker(pause=10.0)) as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        await peer.expect("typing")
        await peer.vanish()
        peer, frames = await come_back(house, 60.5)
        assert frames[0]["t"] == "prompt"
        assert frames[0]["timeout_seconds"] == 250
        assert await peer.receive() == expired(frames[0])
        assert trio.current_time() == 310.0
    assert agent.outcomes == [(310.0, "deny", True)]


async def test_a_card_that_expired_unseen_is_never_shown(autojump_clock: MockClock) -> None:
    """D34: nor is its end."""
    async with open_house(agent := Asker(pause=10.0)) as house:
        peer = await house.connect()
        await peer.say("m1", "hi")
        await peer.expect("typing")
        await peer.vanish()
        peer, frames = await come_back(house, 310.0)
        assert frames == []
    assert agent.outcomes == [(310.0, "deny", True)]


async def test_an_answer_in_words_may_come_on_the_next_connection(
    autojump_clock: MockClock,
) -> None:
    """D22: after `other` the card is closed for the app, and the text that is owed still counts."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask Which? | Red")
        await answer(peer, card, "other")
        await peer.expect("prompt_done")
        await peer.receive_for(5.0)
        peer, frames = await come_back(house, 20.0)
        assert [each["t"] for each in frames] == ["avatar", "typing"]
        await peer.say("m2", "Green")
        assert (await peer.expect("message"))["text"] == "Answer: Green"


# Withdrawal


async def test_a_card_ends_with_the_wait_for_it(autojump_clock: MockClock) -> None:
    """D34: an agent that stops waiting withdraws it; a late answer finds it expired."""
    async with open_house(Impatient()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        assert await peer.receive() == expired(card)
        assert trio.current_time() == 5.0
        assert (await peer.receive())["text"] == "never mind"
        await answer(peer, card, "c0")
        assert await peer.expect("prompt_done") == expired(card)


@pytest.mark.parametrize("agent", [Impatient, Careless])
async def test_a_failure_withdraws_the_card(autojump_clock: MockClock, agent: type[Agent]) -> None:
    """D34: `prompt_done{expired}` before the error, and once only."""
    async with open_house(agent()) as house:
        peer = await house.connect()
        card = await card_for(peer, "fail")
        frames = await peer.receive_until("typing", stop=True)
    assert [each["t"] for each in frames] == ["prompt_done", "error", "typing"]
    assert frames[0] == expired(card)


async def test_stop_withdraws_the_card(autojump_clock: MockClock) -> None:
    """D27, D34: one end, and the agent is cancelled, not answered."""
    async with open_house(agent := Asker()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        await peer.say("s1", "/stop")
        frames = await peer.receive_until("typing", stop=True)
        assert [each["t"] for each in frames] == ["prompt_done", "message", "typing"]
        assert frames[0] == expired(card)
        await answer(peer, card)
        assert await peer.receive() == expired(card)
    assert agent.outcomes == []


async def test_a_card_withdrawn_in_absence_is_told_if_it_was_seen(
    autojump_clock: MockClock,
) -> None:
    """D34: and then what the agent went on to say."""
    async with open_house(Impatient()) as house:
        peer = await house.connect()
        card = await card_for(peer)
        await peer.vanish()
        _, frames = await come_back(house, 6.0)
        assert frames[0] == expired(card)
        assert frames[1]["text"] == "never mind"


async def test_a_card_that_expires_on_its_way_is_not_shown(autojump_clock: MockClock) -> None:
    """D34: behind a slow link it ends before it was written: neither card nor end follow."""
    async with open_house(Asker(ttl=2.0)) as house:
        house.send_buffer = 4096
        peer = await house.connect()
        await house.hub.conversation("phone").reply("x" * 500_000)
        await peer.say("m1", "hi")
        await trio.sleep(2.0)
        frames = await peer.drain()
    assert {each["t"] for each in frames} == {"message", "avatar", "typing"}
