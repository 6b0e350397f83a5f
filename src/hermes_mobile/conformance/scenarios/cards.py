"""Questions of the agent, and who may answer them with what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_mobile.conformance.difference import Frame, check, check_that
from hermes_mobile.conformance.scenario import scenario

if TYPE_CHECKING:
    from hermes_mobile.conformance.connection import Connection
    from hermes_mobile.conformance.stage import Stage


@scenario("D21", reference=True, needs=("demo",))
async def each_option_of_an_approval(stage: Stage) -> None:
    phone = await stage.join()
    for option in ("once", "session", "always", "deny"):
        card = await ask(phone, "/run ls -l", "exec_approval")
        check(card["command"], "ls -l", "command of the card")
        check(card["session"], f"mobile:{stage.device()}", "session of the card")
        check_that(option in options(card), f"an option {option}", options(card))
        await answer(phone, card, option, applied=option)


@scenario("D21", reference=True, needs=("demo",))
async def each_option_of_a_confirmation(stage: Stage) -> None:
    phone = await stage.join()
    for option in ("once", "always", "cancel"):
        card = await ask(phone, "/confirm Sure?", "slash_confirm")
        check_that(option in options(card), f"an option {option}", options(card))
        await answer(phone, card, option, applied=option)


@scenario("D21", reference=True, needs=("demo",))
async def an_option_that_is_not_there_counts_as_no(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/run ls", "exec_approval")
    await answer(phone, card, "c0", applied="deny")
    card = await ask(phone, "/confirm Sure?", "slash_confirm")
    await answer(phone, card, "session", applied="cancel")


@scenario("D22", reference=True, needs=("demo",))
async def a_choice_of_a_clarification(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/ask Which? | red | blue", "clarify")
    check(options(card), ["c0", "c1", "other"], "the options")
    await phone.send({"t": "prompt", "prompt_id": card["id"], "option_id": "c1"})
    await phone.expect("prompt_done", id=card["id"], option_id="c1")
    await expect_answer(phone, "blue")


@scenario("D22", reference=True, needs=("demo",))
async def an_answer_in_words(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/ask Which? | red | blue", "clarify")
    answer = {"t": "prompt", "prompt_id": card["id"], "option_id": "other", "text": "green"}
    await phone.send(answer)
    await phone.expect("prompt_done", id=card["id"], option_id="other")
    await expect_answer(phone, "green")


@scenario("D22", needs=("demo",))
async def after_a_choice_that_is_not_there_the_next_text_answers(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/ask Which? | red | blue", "clarify")
    await phone.send({"t": "prompt", "prompt_id": card["id"], "option_id": "c2"})
    await phone.expect("prompt_done", id=card["id"], option_id="other")
    await phone.say("green")
    await expect_answer(phone, "green")


@scenario("D22", needs=("demo",))
async def a_question_without_choices_takes_the_next_text(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/ask What is your name?", "clarify")
    check(options(card), ["other"], "the options")
    await phone.say("Ada")
    await phone.expect("prompt_done", id=card["id"], option_id="other")
    await expect_answer(phone, "Ada")


@scenario("D21", needs=("demo",))
async def the_first_answer_counts(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/run ls", "exec_approval")
    for option in ("once", "deny"):
        await phone.send({"t": "prompt", "prompt_id": card["id"], "option_id": option})
    for _ in range(2):
        done = (await phone.receive_until("prompt_done", id=card["id"]))[-1]
        check(done.get("option_id"), "once", "option_id of each prompt_done")


@scenario("D21", reference=True, needs=("demo",))
async def a_card_of_another_device(stage: Stage) -> None:
    phone, tablet = await stage.join("phone"), await stage.join("tablet")
    card = await ask(phone, "/run ls", "exec_approval")
    await tablet.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
    await tablet.expect("error", code="forbidden", fatal=False)
    await tablet.expect_nothing()
    await answer(phone, card, "deny", applied="deny")


@scenario("D23", needs=("demo",))
async def words_count_as_an_option(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/run ls", "exec_approval")
    await phone.send({"t": "prompt", "prompt_id": card["id"], "text": " Once "})
    await phone.expect("prompt_done", id=card["id"], option_id="once")


@scenario("D23", needs=("demo",))
async def the_text_of_an_approval_contains_the_command(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/run rm -r build", "exec_approval")
    check_that("rm -r build" in card["text"], "the command in the text", card["text"])


@scenario("D34", reference=True, needs=("demo",))
async def a_card_runs_out(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/run ls", "exec_approval")
    await stage.wait(card["timeout_seconds"])
    await phone.expect("prompt_done", id=card["id"], expired=True)
    await phone.expect("message")
    await phone.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
    await phone.expect("prompt_done", id=card["id"], expired=True)


@scenario("D13", needs=("demo",))
async def an_open_card_is_shown_again(stage: Stage) -> None:
    phone = await stage.join()
    card = await ask(phone, "/run ls", "exec_approval")
    await phone.leave()
    await stage.wait(1)
    phone = await stage.join()
    again = await phone.expect("prompt", id=card["id"], command="ls")
    left = again["timeout_seconds"]
    check_that(left <= card["timeout_seconds"], "no more seconds than before", left)
    await answer(phone, again, "deny", applied="deny")


async def ask(phone: Connection, command: str, kind: str) -> Frame:
    """Let the demo agent ask; the card."""
    await phone.say(command)
    return await phone.expect("prompt", kind=kind)


def options(card: Frame) -> list[str]:
    return [option["id"] for option in card["options"]]


async def answer(phone: Connection, card: Frame, option: str, *, applied: str) -> None:
    """Press a button. The card ends with what was applied, the agent says so, and no more comes."""
    await phone.send({"t": "prompt", "prompt_id": card["id"], "option_id": option})
    await phone.expect("prompt_done", id=card["id"], option_id=applied)
    said = await phone.reply()
    check_that(applied in said, f"a reply that names {applied}", said)
    await phone.receive_until("typing", stop=True)
    await phone.expect_nothing()


async def expect_answer(phone: Connection, words: str) -> None:
    said = await phone.reply()
    check_that(words in said, f"a reply that names {words}", said)
