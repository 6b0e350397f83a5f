"""Hermes Agent asks: approvals, confirmations, questions."""

from __future__ import annotations

import pytest

from hermes.phone import options

pytestmark = pytest.mark.slow

ALL = ["once", "session", "always", "deny"]


def victim(stage, name):
    """A directory that a command removes if it may."""
    directory = stage.gateway.place / name
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize("option", ["once", "session"])
async def test_a_command_that_is_allowed_runs(shared, option):
    """An approval shows the command and its danger; `once` asks again next time, `session` does not."""
    async with shared.phone(f"allows-{option}") as phone:
        first, second = victim(shared, f"{option}-1"), victim(shared, f"{option}-2")
        await phone.say(f"run rm -rf {first}")
        card = await phone.card("exec_approval")
        assert card["command"] == f"rm -rf {first}"
        assert card["description"]
        assert options(card) == ALL
        assert (await phone.answer(card, option_id=option))["option_id"] == option
        assert "done:" in await phone.until_said("done")
        assert not first.exists()
        await phone.say(f"run rm -rf {second}")
        if option == "once":
            await phone.answer(await phone.card("exec_approval"), option_id="deny")
        await phone.until_said("done")
        assert second.exists() is (option == "once")


async def test_a_command_that_is_denied_does_not_run(shared):
    """Hermes is told of the no."""
    async with shared.phone("denies") as phone:
        directory = victim(shared, "denied")
        await phone.say(f"run rm -rf {directory}")
        await phone.answer(await phone.card("exec_approval"), option_id="deny")
        assert "denied by user" in await phone.until_said("done")
        assert directory.exists()


async def test_a_typed_answer_closes_the_card(shared):
    """Who writes /approve instead has answered as well: the card says that it is over."""
    async with shared.phone("types") as phone:
        directory = victim(shared, "typed")
        await phone.say(f"run rm -rf {directory}")
        card = await phone.card("exec_approval")
        await phone.say("/approve")
        await phone.ended(card)
        assert not directory.exists()


async def test_two_approvals_at_once_are_asked_one_after_the_other(shared):
    """The second card comes when the first one closed, and each answer goes to its own command."""
    async with shared.phone("two") as phone:
        places = {str(place): place for place in (victim(shared, "left"), victim(shared, "right"))}
        await phone.say("both " + " ;; ".join(f"rm -rf {place}" for place in places))
        first = await phone.card("exec_approval")
        await phone.answer(first, option_id="once")
        second = await phone.card("exec_approval")
        await phone.answer(second, option_id="deny")
        await phone.until_said("done")
        allowed, denied = (card["command"].removeprefix("rm -rf ") for card in (first, second))
        assert {allowed, denied} == places.keys()
        assert not places[allowed].exists()
        assert places[denied].exists()


async def test_a_question_is_answered_by_a_choice(shared):
    """Clarify with choices: the one that is tapped."""
    async with shared.phone("chooses") as phone:
        await phone.say("ask Which colour? | red | green")
        card = await phone.card("clarify")
        assert card["text"] == "Which colour?"
        assert options(card) == ["c0", "c1", "other"]
        await phone.answer(card, option_id="c1")
        assert "green" in await phone.until_said("done")


async def test_a_question_is_answered_in_other_words(shared):
    """D22: `other`, and then the text that follows."""
    async with shared.phone("other") as phone:
        await phone.say("ask Which colour? | red | green")
        card = await phone.card("clarify")
        await phone.answer(card, option_id="other")
        await phone.say("turquoise")
        assert "turquoise" in await phone.until_said("done")


async def test_an_open_question_is_answered_by_a_text(shared):
    """Clarify without choices takes what is written next."""
    async with shared.phone("open") as phone:
        await phone.say("ask What is your name?")
        assert options(await phone.card("clarify")) == ["other"]
        await phone.say("Anna")
        assert "Anna" in await phone.until_said("done")


async def test_a_command_is_confirmed(shared):
    """/new asks first; its card outlives the turn that asked, and what Hermes says of it comes."""
    async with shared.phone("confirms") as phone:
        await phone.say("Hello")
        await phone.until_said("echo")
        await phone.say("/new")
        card = await phone.card("slash_confirm")
        assert options(card) == ["once", "always", "cancel"]
        await phone.turn_ended()
        await phone.answer(card, option_id="cancel")
        assert "ancel" in await phone.reply()
        await phone.say("/new")
        await phone.answer(await phone.card("slash_confirm"), option_id="once")
        assert "session" in (await phone.reply()).lower()


async def test_always_is_for_ever_and_silence_is_no(stage):
    """`always` holds in other conversations, too; a card that nobody answers expires as a no."""
    stage.gateway.configure(approval_timeout=6)
    stage.start()
    async with stage.phone("always") as phone, stage.phone("another") as other:
        first, second, third = (victim(stage, name) for name in ("one", "two", "three"))
        await phone.say(f"run rm -rf {first}")
        card = await phone.card("exec_approval")
        assert card["timeout_seconds"] <= 6
        assert (await phone.ended(card))["expired"]
        assert "denied" in await phone.until_said("done")
        assert first.exists()
        await phone.say(f"run rm -rf {second}")
        await phone.answer(await phone.card("exec_approval"), option_id="always")
        await phone.until_said("done")
        await other.say(f"run rm -rf {third}")
        await other.until_said("done")
        assert not third.exists()
