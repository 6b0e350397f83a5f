"""Cards: whose answer reaches Hermes when, with a Hermes that a test plays."""

from __future__ import annotations

import asyncio
import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from hermes_mobile.hermes.link import LinkLostError, RefusedError
from hermes_mobile.hermes.turns import Turn, Turns

TIMEOUT = 60.0
SESSION = "agent:main:mobile:dm:1"


class Hermes:
    """What Hermes waits for, and what it was answered."""

    def __init__(self, monkeypatch):
        self.queues, self.clarifications, self.confirmations = {}, {}, {}
        self.answers = []
        approval = ModuleType("tools.approval")
        approval._gateway_queues = self.queues
        approval._get_approval_timeout = lambda: TIMEOUT
        approval.resolve_gateway_approval = self.resolve
        clarify = ModuleType("tools.clarify_gateway")
        clarify._entries = self.clarifications
        clarify.get_clarify_timeout = lambda: TIMEOUT
        clarify.resolve_gateway_clarify = lambda id, text: self.answers.append((id, text))
        confirm = ModuleType("tools.slash_confirm")
        confirm.DEFAULT_TIMEOUT_SECONDS = TIMEOUT
        confirm.get_pending = self.confirmations.get
        confirm.resolve = self.confirm
        redact = ModuleType("agent.redact")
        redact.redact_sensitive_text = lambda text, force: text.replace("secret", "***")
        monkeypatch.setitem(sys.modules, "agent", ModuleType("agent"))
        monkeypatch.setitem(sys.modules, "agent.redact", redact)
        tools = ModuleType("tools")
        tools.approval, tools.clarify_gateway, tools.slash_confirm = approval, clarify, confirm
        for name in ("approval", "clarify_gateway", "slash_confirm"):
            monkeypatch.setitem(sys.modules, f"tools.{name}", getattr(tools, name))
        monkeypatch.setitem(sys.modules, "tools", tools)
        monkeypatch.delitem(sys.modules, "hermes_mobile.hermes.cards", raising=False)
        self.module = importlib.import_module("hermes_mobile.hermes.cards")

    def wants(self, command, **data):
        entry = SimpleNamespace(data={"command": command, "description": "danger", **data})
        self.queues.setdefault(SESSION, []).append(entry)

    def resolve(self, session, choice):
        self.answers.append((self.queues[session].pop(0).data["command"], choice))

    async def confirm(self, session, id, choice):
        self.answers.append((id, choice))
        return f"{choice} it is"


class Link:
    """Cards that are shown, oldest first; a test answers them."""

    def __init__(self):
        self.shown = []
        self.ids = iter(range(100))

    def make_id(self):
        return str(next(self.ids))

    async def ask(self, id, **fields):
        card = SimpleNamespace(id=id, answer=asyncio.get_running_loop().create_future(), **fields)
        self.shown.append(card)
        return await card.answer

    def withdraw(self, id):
        [card] = [card for card in self.shown if card.id == id]
        card.answer.set_exception(RefusedError("withdrawn", "ask: it was withdrawn"))


@pytest.fixture
def play(monkeypatch):
    """Run a coroutine of asyncio with cards, a link and a Hermes."""
    hermes = Hermes(monkeypatch)

    def run(test):
        async def within():
            link, turns, said = Link(), Turns(), []

            async def say(device, text):
                said.append((device, text))

            cards = hermes.module.Cards(link, turns, say)
            house = SimpleNamespace(cards=cards, link=link, turns=turns, said=said, hermes=hermes)
            try:
                await test(house)
            finally:
                await cards.close()

        asyncio.run(within())

    yield run
    sys.modules.pop("hermes_mobile.hermes.cards", None)


async def settle():
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def want(house, command, **data):
    house.hermes.wants(command, **data)
    house.cards.approve("phone", SESSION)


def test_one_approval_after_the_other(play):
    """The second card waits for the end of the first, and each answer is for its own command."""

    async def test(house):
        want(house, "rm a")
        want(house, "rm b")
        await settle()
        [first] = house.link.shown
        assert (first.command, first.kind, first.device) == ("rm a", "exec_approval", "phone")
        assert first.description == "danger"
        first.answer.set_result({"option": "once"})
        await settle()
        second = house.link.shown[1]
        second.answer.set_result({"option": "deny", "expired": True})
        await settle()
        assert house.hermes.answers == [("rm a", "once"), ("rm b", "deny")]

    play(test)


def test_what_is_shown_is_what_is_answered(play):
    """Two threads ask, and Hermes tells of the later one first: the card shows the one at the head."""

    async def test(house):
        house.hermes.wants("rm a")
        house.hermes.wants("rm b")
        house.cards.approve("phone", SESSION)
        house.cards.approve("phone", SESSION)
        house.cards.approve("phone", SESSION)
        await settle()
        for option in ("once", "deny"):
            house.link.shown[-1].answer.set_result({"option": option})
            await settle()
        assert [card.command for card in house.link.shown] == ["rm a", "rm b"]
        assert house.hermes.answers == [("rm a", "once"), ("rm b", "deny")]

    play(test)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ({}, ["once", "session", "always", "deny"]),
        ({"allow_permanent": False}, ["once", "session", "deny"]),
        ({"allow_permanent": False, "smart_denied": True}, ["once", "deny"]),
    ],
)
def test_only_what_hermes_allows_is_offered(play, data, options):
    """Not every approval can be for ever; and what looks like a secret is not shown."""

    async def test(house):
        want(house, "curl -H secret", **data)
        await settle()
        [card] = house.link.shown
        assert (card.options, card.command) == (options, "curl -H ***")

    play(test)


def test_the_second_has_what_time_hermes_still_gives_it(play, monkeypatch):
    """Both were asked at once: the later card lives as long as Hermes waits, less a margin."""

    async def test(house):
        now = 1000.0
        monkeypatch.setattr(house.hermes.module, "_now", lambda: now)
        want(house, "rm a")
        want(house, "rm b")
        await settle()
        now += 20
        house.link.shown[0].answer.set_result({"option": "once"})
        await settle()
        assert [card.ttl for card in house.link.shown] == [TIMEOUT - 1, TIMEOUT - 21]

    play(test)


def test_an_answer_for_what_hermes_gave_up_reaches_nobody(play):
    """The first one is gone from Hermes' queue, unnoticed: its answer must not allow the second."""

    async def test(house):
        want(house, "rm a")
        want(house, "rm b")
        await settle()
        del house.hermes.queues[SESSION][0]
        house.link.shown[0].answer.set_result({"option": "once"})
        await settle()
        assert house.hermes.answers == []
        assert house.link.shown[1].command == "rm b"

    play(test)


def test_what_was_answered_in_another_way_is_withdrawn(play):
    """After /approve as a text the card goes, and the next one comes."""

    async def test(house):
        want(house, "rm a")
        want(house, "rm b")
        await settle()
        house.hermes.resolve(SESSION, "once")
        house.cards.sweep()
        await settle()
        assert [card.command for card in house.link.shown] == ["rm a", "rm b"]
        assert house.hermes.answers == [("rm a", "once")]

    play(test)


def test_what_cannot_be_shown_is_a_no(play):
    """The server refuses a card: nobody can allow it, and it does not hold up the next one."""

    async def test(house):
        want(house, "rm a")
        want(house, "rm b")
        house.hermes.confirmations[SESSION] = {"confirm_id": "c"}
        house.cards.confirm("phone", SESSION, "c", "")
        house.hermes.clarifications["q"] = SimpleNamespace(event=asyncio.Event())
        house.cards.clarify("phone", "q", "", [])
        await settle()
        for card in list(house.link.shown):
            card.answer.set_exception(RefusedError("refused", "it is too long"))
        await settle()
        assert sorted(house.hermes.answers) == [("c", "cancel"), ("q", ""), ("rm a", "deny")]
        assert house.link.shown[-1].command == "rm b"

    play(test)


def test_a_lost_card_is_asked_again(play, monkeypatch):
    """The server began anew: what Hermes still waits for is asked again, outside the turn."""

    async def test(house):
        now = 1000.0
        monkeypatch.setattr(house.hermes.module, "_now", lambda: now)
        house.turns.begin(Turn("t1", "phone", "m1"))
        want(house, "rm a")
        await settle()
        assert house.link.shown[0].turn == "t1"
        house.turns.forget("t1")
        now += 10
        house.link.shown[0].answer.set_exception(LinkLostError())
        await settle()
        again = house.link.shown[1]
        assert (again.device, again.ttl) == ("phone", TIMEOUT - 11)
        again.answer.set_result({"option": "once"})
        await settle()
        assert house.hermes.answers == [("rm a", "once")]

    play(test)


@pytest.mark.parametrize(
    ("done", "answer"),
    [
        ({"option": "c0", "text": "red"}, "red"),
        ({"option": "other", "text": "blue"}, "blue"),
        ({"option": "", "expired": True}, ""),
    ],
)
def test_a_question_is_answered_in_words(play, done, answer):
    """A choice, other words, or none."""

    async def test(house):
        house.hermes.clarifications["q"] = SimpleNamespace(event=asyncio.Event())
        house.cards.clarify("phone", "q", "Which?", ["red"])
        await settle()
        [card] = house.link.shown
        assert (card.kind, card.text, card.choices) == ("clarify", "Which?", ["red"])
        card.answer.set_result(done)
        await settle()
        assert house.hermes.answers == [("q", answer)]

    play(test)


def test_a_question_that_a_text_answered_is_withdrawn(play):
    """Hermes has its answer: the card goes."""

    async def test(house):
        event = asyncio.Event()
        house.hermes.clarifications["q"] = SimpleNamespace(event=event)
        house.cards.clarify("phone", "q", "Which?", [])
        await settle()
        event.set()
        house.cards.sweep()
        await settle()
        assert house.link.shown[0].answer.done()
        assert house.hermes.answers == []

    play(test)


def test_a_confirmation_is_in_no_turn(play):
    """It outlives the turn that asks; what Hermes says of the answer is said to the device."""

    async def test(house):
        house.turns.begin(Turn("t1", "phone", "m1"))
        house.hermes.confirmations[SESSION] = {"confirm_id": "c"}
        house.cards.confirm("phone", SESSION, "c", "Begin anew?")
        await settle()
        [card] = house.link.shown
        assert (card.kind, card.text, card.device) == ("slash_confirm", "Begin anew?", "phone")
        card.answer.set_result({"option": "once"})
        await settle()
        assert house.hermes.answers == [("c", "once")]
        assert house.said == [("phone", "once it is")]

    play(test)


def test_a_newer_confirmation_takes_the_place_of_the_older(play):
    """Hermes keeps one for a session; the card of the other one goes."""

    async def test(house):
        for name in ("old", "new"):
            house.hermes.confirmations[SESSION] = {"confirm_id": name}
            house.cards.confirm("phone", SESSION, name, f"{name}?")
            await settle()
        house.cards.sweep()
        await settle()
        assert [card.answer.done() for card in house.link.shown] == [True, False]
        assert house.said == []

    play(test)
