"""Answers to cards, through real connections (D21, D22, D23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from hermes_mobile.agents import Agent
from house import Peer, audio, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn


class Examiner(Agent):
    """Asks two questions at a time, and says which answer was whose."""

    async def handle(self, turn: Turn) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.ask, turn, "First")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(self.ask, turn, "Second")

    async def ask(self, turn: Turn, question: str) -> None:
        answer = await turn.ask(question)
        await turn.reply(f"{question}: {answer.text}")


class Cautious(Agent):
    """Offers no `always`."""

    async def handle(self, turn: Turn) -> None:
        answer = await turn.ask_approval("ls", options=("once", "deny"))
        await turn.reply(f"Applied: {answer.option}")


async def card_for(peer: Peer, text: str) -> dict[str, Any]:
    """The card that the agent asks because of `text`."""
    await peer.say(f"asks {text}", text)
    return await peer.expect("prompt")


async def answer(peer: Peer, card: dict[str, Any], **answer: Any) -> None:
    await peer.send({"t": "prompt", "prompt_id": card["id"], **answer})


async def outcome(peer: Peer) -> tuple[str, str]:
    """The option in `prompt_done`, and what the agent says then."""
    return (await peer.expect("prompt_done"))["option_id"], (await peer.expect("message"))["text"]


async def test_an_approval_shows_the_command(autojump_clock: MockClock) -> None:
    """D23: in a field of its own and in the text; the session and the lifetime are the card's."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/run rm -r build")
    assert card["kind"] == "exec_approval"
    assert card["command"] == "rm -r build"
    assert "rm -r build" in card["text"]
    assert card["description"]
    assert [option["id"] for option in card["options"]] == ["once", "session", "always", "deny"]
    assert card["session"] == "mobile:phone"
    assert card["timeout_seconds"] == 300


async def test_a_long_command_is_cut_in_the_text_only(autojump_clock: MockClock) -> None:
    """D23: the text holds its beginning and a mark, `command` is whole."""
    command = "echo " + "x" * 10_000
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, f"/run {command}")
    assert card["command"] == command
    assert card["text"].endswith("x…")
    assert len(card["text"]) < 2_100


@pytest.mark.parametrize(
    ("command", "given", "applied"),
    [
        ("/run ls", {"option_id": "once"}, "once"),
        ("/run ls", {"option_id": "session"}, "session"),
        ("/run ls", {"option_id": " ALWAYS "}, "always"),
        ("/run ls", {"option_id": "deny"}, "deny"),
        ("/run ls", {"option_id": "cancel"}, "deny"),
        ("/run ls", {"option_id": "c0"}, "deny"),
        ("/run ls", {"option_id": 1}, "deny"),
        ("/run ls", {"text": " Once\n"}, "once"),
        ("/run ls", {"option_id": None, "text": "yes, please"}, "deny"),
        ("/run ls", {"option_id": "sudo", "text": "once"}, "deny"),
        ("/confirm x", {"option_id": "once"}, "once"),
        ("/confirm x", {"option_id": "always"}, "always"),
        ("/confirm x", {"option_id": "cancel"}, "cancel"),
        ("/confirm x", {"option_id": "session"}, "cancel"),
        ("/confirm x", {"text": "always"}, "always"),
    ],
)
async def test_only_an_option_counts(
    autojump_clock: MockClock, command: str, given: dict[str, Any], applied: str
) -> None:
    """D21, D23: any case and free text that names one; all else becomes the safe one."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, command)
        await answer(peer, card, **given)
        assert await outcome(peer) == (applied, f"Applied: {applied}")


async def test_an_option_that_was_not_offered_is_none(autojump_clock: MockClock) -> None:
    """D21: `always` on a card without it is `deny`."""
    async with open_house(Cautious()) as house:
        peer = await house.connect()
        card = await card_for(peer, "hi")
        assert [option["id"] for option in card["options"]] == ["once", "deny"]
        await answer(peer, card, option_id="always")
        assert await outcome(peer) == ("deny", "Applied: deny")


@pytest.mark.parametrize("empty", [{}, {"option_id": " "}, {"option_id": None, "text": " \n"}])
async def test_an_empty_answer_is_none(autojump_clock: MockClock, empty: dict[str, Any]) -> None:
    """D21: neither option nor text is `bad_frame`, and the card stays open; so without its id."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/run ls")
        frame = {"t": "prompt", "prompt_id": card["id"], **empty}
        assert await peer.refusal(frame) == ("bad_frame", False, None)
        assert await peer.refusal({"t": "prompt", "option_id": "once"}) == (
            "bad_frame",
            False,
            None,
        )
        await answer(peer, card, option_id="once")
        assert await outcome(peer) == ("once", "Applied: once")


async def test_the_first_answer_wins(autojump_clock: MockClock) -> None:
    """D21: a second one, even on another connection, is told what was applied, not `expired`."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/run ls")
        await answer(peer, card, option_id="once")
        await answer(peer, card, option_id="deny")
        done = {"t": "prompt_done", "id": card["id"], "option_id": "once"}
        frames = await peer.receive_for(2.0)
        assert [each for each in frames if each["t"] == "prompt_done"] == [done, done]
        assert [each["text"] for each in frames if each["t"] == "message"] == ["Applied: once"]
        peer = await house.connect()
        await answer(peer, card, text="once more")
        assert (await peer.receive_until("prompt_done"))[-1] == done


async def test_an_unknown_card_has_expired(autojump_clock: MockClock) -> None:
    """D21: no error, and the connection goes on."""
    async with open_house() as house:
        peer = await house.connect()
        await answer(peer, {"id": "never"}, option_id="once")
        assert await peer.receive() == {"t": "prompt_done", "id": "never", "expired": True}


async def test_a_card_belongs_to_its_device(autojump_clock: MockClock) -> None:
    """D21: another device's answer is `forbidden`, not fatal, and answers nothing."""
    async with open_house() as house:
        phone, tablet = await house.connect("phone"), await house.connect("tablet")
        card = await card_for(phone, "/run ls")
        frame = {"t": "prompt", "prompt_id": card["id"], "option_id": "once"}
        assert await tablet.refusal(frame) == ("forbidden", False, None)
        await answer(phone, card, option_id="deny")
        assert await outcome(phone) == ("deny", "Applied: deny")
        await answer(tablet, card, option_id="once")
        assert await tablet.receive() == {"t": "prompt_done", "id": card["id"], "expired": True}


async def test_two_devices_have_their_own_cards(autojump_clock: MockClock) -> None:
    """D21: each answers its own; neither sees the other's."""
    async with open_house() as house:
        peers = [await house.connect(device) for device in ("phone", "tablet")]
        cards = [await card_for(peer, "/run ls") for peer in peers]
        assert cards[0]["id"] != cards[1]["id"]
        for peer, card, option in zip(peers, cards, ("once", "always"), strict=True):
            await answer(peer, card, option_id=option)
            assert await outcome(peer) == (option, f"Applied: {option}")


# Clarifications


async def test_a_clarification_lists_its_choices_and_other(autojump_clock: MockClock) -> None:
    """D22: `c0` to `cN` in order, then `other`."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask Which? | Red | Blue")
    assert card["kind"] == "clarify"
    assert card["text"] == "Which?"
    assert [(option["id"], option["label"]) for option in card["options"]] == [
        ("c0", "Red"),
        ("c1", "Blue"),
        ("other", "Other answer"),
    ]
    assert "command" not in card


@pytest.mark.parametrize(
    ("given", "option", "words"),
    [
        ({"option_id": "c1"}, "c1", "Blue"),
        ({"option_id": "C0", "text": "ignored"}, "c0", "Red"),
        ({"text": " Green "}, "other", " Green "),
        ({"option_id": "other", "text": "Green"}, "other", "Green"),
        ({"option_id": "c2", "text": "Green"}, "other", "Green"),
    ],
)
async def test_a_choice_or_words_answer_it(
    autojump_clock: MockClock, given: dict[str, Any], option: str, words: str
) -> None:
    """D22: `cN` selects; words without an option, or with `other`, are the answer as written."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask Which? | Red | Blue")
        await answer(peer, card, **given)
        assert await outcome(peer) == (option, f"Answer: {words}")


@pytest.mark.parametrize("option", ["other", "c2", "once"])
async def test_other_waits_for_the_next_text(autojump_clock: MockClock, option: str) -> None:
    """D22: `prompt_done` at once; then one text, and no second, is the answer."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask Which? | Red")
        done = {"t": "prompt_done", "id": card["id"], "option_id": "other"}
        for _ in range(2):
            await answer(peer, card, option_id=option)
            assert await peer.receive() == done
        await peer.say("m2", "Green")
        await peer.say("m2", "Green")
        await peer.say("m3", "and now?")
        frames = await peer.receive_until("message", text="and now?")
    assert [each["t"] for each in frames if each["t"] == "prompt_done"] == []
    assert [each["text"] for each in frames if each["t"] == "message"] == [
        "Answer: Green",
        "and now?",
    ]


async def test_words_in_the_card_still_answer_it(autojump_clock: MockClock) -> None:
    """D22: after `other`, an answer with text is as good as a text; a choice comes too late."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask Which? | Red")
        for option in ("other", "c0"):
            await answer(peer, card, option_id=option)
            assert (await peer.receive())["option_id"] == "other"
        await answer(peer, card, option_id="other", text="Green")
        assert (await peer.expect("message"))["text"] == "Answer: Green"


async def test_a_question_without_choices_takes_the_next_text(autojump_clock: MockClock) -> None:
    """D22: from the start, and `prompt_done` says `other`; a recording is no answer."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask What is your name?")
        assert [option["id"] for option in card["options"]] == ["other"]
        await peer.send(audio("m2", "T2dnUw=="))
        await peer.say("m3", "  Ada ")
        assert await outcome(peer) == ("other", "Answer:   Ada ")
        assert (await peer.expect("message"))["text"].startswith("format: ogg")


async def test_the_oldest_question_gets_the_text(autojump_clock: MockClock) -> None:
    """D22: several captures are served in their order."""
    async with open_house(Examiner()) as house:
        peer = await house.connect()
        cards = [await card_for(peer, "hi"), await peer.expect("prompt")]
        for number, words in enumerate(("one", "two")):
            await peer.say(f"m{number}", words)
            assert (await peer.expect("prompt_done"))["id"] == cards[number]["id"]
            question = cards[number]["text"]
            assert (await peer.expect("message"))["text"] == f"{question}: {words}"
    assert [card["text"] for card in cards] == ["First", "Second"]


async def test_stop_is_never_an_answer(autojump_clock: MockClock) -> None:
    """D22, D27: it withdraws the question instead."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask What is your name?")
        await peer.say("s1", "/stop")
        assert await peer.receive() == {"t": "prompt_done", "id": card["id"], "expired": True}
        assert (await peer.receive())["text"] == "Stopped: 1 running, 0 waiting."


async def test_capture_ends_with_the_deadline(autojump_clock: MockClock) -> None:
    """D22, D23: a text at 300 s is a message; for the app `other` had closed the card already."""
    async with open_house() as house:
        peer = await house.connect()
        card = await card_for(peer, "/ask Which? | Red")
        await answer(peer, card, option_id="other")
        assert (await peer.receive())["option_id"] == "other"
        frames = await peer.receive_until("message")
        assert trio.current_time() == 300.0
        await peer.say("m2", "Green")
        frames += await peer.receive_until("message")
    assert [each["text"] for each in frames if each["t"] == "message"] == [
        "No answer in time.",
        "Green",
    ]
    assert "prompt_done" not in [each["t"] for each in frames]
