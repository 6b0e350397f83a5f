"""What a device gets that comes back: everything it has not confirmed, and what is going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hermes_mobile.conformance.difference import check, check_that
from hermes_mobile.conformance.scenario import Skip, scenario

if TYPE_CHECKING:
    from hermes_mobile.conformance.stage import Stage


@scenario("D32", needs=("demo",))
async def what_was_not_confirmed_comes_again(stage: Stage) -> None:
    phone = await stage.join()
    phone.answers_pings = False
    await phone.say("/long 5000")
    pieces = await phone.message()
    await phone.leave(None)
    phone = await stage.join()
    again = await phone.message()
    check([piece["id"] for piece in again], [piece["id"] for piece in pieces], "the same ids")
    check([piece["text"] for piece in again], [piece["text"] for piece in pieces], "the pieces")


@scenario("D32", needs=("demo",))
async def what_was_confirmed_does_not_come_again(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("one")
    await phone.receive_until("typing", stop=True)
    with trio.move_on_after(stage.target.timeout):
        await phone.was_pinged.wait()
    if not phone.was_pinged.is_set():
        raise Skip("the server asks for no confirmation")
    await phone.expect_nothing()
    await phone.leave()
    phone = await stage.join()
    await phone.expect_nothing()


@scenario("D32", needs=("demo",))
async def what_was_said_meanwhile(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/think 1")
    await phone.receive_until("avatar", state="thinking")
    await phone.leave()
    await stage.wait(2)
    phone = await stage.join()
    await phone.expect("message", final=True)


@scenario("D29", "D32", needs=("demo",))
async def of_a_stream_the_last_state_is_kept(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/stream 20")
    first = await phone.expect("message", final=False)
    await phone.leave(None)
    await stage.wait(3)
    phone = await stage.join()
    last = await phone.expect("message", id=first["id"], final=True)
    check(last.get("edit", False), False, "edit of the first state that a connection sees")
    check(len(last["text"].split()), 20, "words in it")


@scenario("D13", needs=("demo",))
async def a_running_turn_is_shown(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/think 20")
    await phone.receive_until("avatar", state="thinking")
    await phone.leave()
    phone = await stage.join()
    frames = await phone.receive_until("typing")
    check_that(
        [frame.get("state") for frame in frames] == ["thinking", None],
        "avatar thinking, then typing, after ready",
        frames,
    )
    await phone.say("/stop")
    await phone.message()
