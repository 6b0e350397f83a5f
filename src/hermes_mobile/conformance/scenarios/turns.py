"""What surrounds the agent's work: avatar, typing, the order of frames, `/stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hermes_mobile.conformance.difference import check, check_that
from hermes_mobile.conformance.scenario import scenario

if TYPE_CHECKING:
    from hermes_mobile.conformance.difference import Frame
    from hermes_mobile.conformance.stage import Stage


@scenario("D30", reference=True, needs=("demo",))
async def thinking_comes_before_the_message_and_speaking_after(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("one")
    frames = await phone.receive_until("avatar", state="speaking")
    check(in_brief(frames)[0], "avatar thinking", "the first frame of a turn")
    texts = [frame["text"] for frame in frames if frame["t"] == "message"]
    check(texts, ["one"], "the messages between thinking and speaking")


@scenario("D30", needs=("demo",))
async def the_frames_of_a_turn(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("one")
    frames = await phone.receive_until("typing", stop=True)
    wanted = ["avatar thinking", "typing", "message", "avatar speaking", "typing stop"]
    check(in_brief(frames), wanted, "the frames of a turn")


@scenario("D30", reference=True, needs=("demo",))
async def the_avatar_goes_idle(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("one")
    await phone.receive_until("avatar", state="speaking")
    spoke = trio.current_time()
    await stage.wait(stage.target.typing_idle / 2)
    frames = await phone.receive_until("avatar", state="idle")
    check_that(
        trio.current_time() - spoke >= stage.target.typing_idle * 0.8,
        f"idle after {stage.target.typing_idle:g} s",
        f"{in_brief(frames)} after {trio.current_time() - spoke:.1f} s",
    )


@scenario("D30", needs=("demo",))
async def typing_stops_when_a_turn_fails(stage: Stage) -> None:
    phone = await stage.join()
    refused = await phone.say("/fail")
    await phone.expect("error", code="internal_error", fatal=False, id=refused)
    await phone.expect("typing", stop=True)


@scenario("D20", "D24", reference=True, needs=("demo",))
async def a_ping_does_not_wait_for_the_agent(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/think 0.5")
    await phone.receive_until("avatar", state="thinking")
    await phone.expect_nothing()
    await phone.expect("message", final=True)


@scenario("D20", needs=("demo",))
async def messages_are_answered_in_order(stage: Stage) -> None:
    phone = await stage.join()
    words = ["one", "two", "three"]
    for word in words:
        await phone.say(word)
    check([await phone.reply() for _ in words], words, "the replies")


@scenario("D27", needs=("demo",))
async def stop_ends_the_turn_and_says_so(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/think 30")
    await phone.receive_until("avatar", state="thinking")
    await phone.say("this waits behind it")
    await phone.say(" /Stop ")
    frames = await phone.receive_until("typing", stop=True)
    if not any(frame["t"] == "message" for frame in frames):
        await phone.message()
    await phone.say("one")
    check(await phone.reply(), "one", "the next reply")


@scenario("D24")
async def typing_of_the_app_changes_no_state(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send({"t": "typing"})
    await phone.send({"t": "ping", "ts": 1})
    frames = await phone.receive_until("pong", ts=1)
    check(in_brief(frames), ["pong"], "what answers typing and ping")


def in_brief(frames: list[Frame]) -> list[str]:
    """Each frame as its type, with the state of an avatar and the end of typing."""
    return [
        f"{frame['t']} {frame.get('state', '') or ('stop' if frame.get('stop') else '')}".strip()
        for frame in frames
    ]
