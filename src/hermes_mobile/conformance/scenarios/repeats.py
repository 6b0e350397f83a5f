"""Idempotency: the same id again is not the same message again.

An agent answers in its own time. So silence proves nothing; the reply to a later message does.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hermes_mobile.conformance.difference import check
from hermes_mobile.conformance.scenario import scenario

if TYPE_CHECKING:
    from hermes_mobile.conformance.connection import Connection
    from hermes_mobile.conformance.stage import Stage


@scenario("D19", reference=True, needs=("demo",))
async def a_repeated_text(stage: Stage) -> None:
    phone = await stage.join()
    for text in ("one", "one"):
        await phone.say(text, "m1")
    check(await phone.reply(), "one", "the reply to the first")
    await expect_next_reply(phone)


@scenario("D19", reference=True, needs=("demo",))
async def a_repeated_recording(stage: Stage) -> None:
    phone = await stage.join()
    data = base64.b64encode(b"OggS").decode()
    for _ in range(2):
        await phone.send({"t": "audio", "id": "a1", "format": "ogg", "data": data})
    await phone.message()
    await expect_next_reply(phone)


@scenario("D19", reference=True, needs=("demo",))
async def a_repeated_file_in_chunks(stage: Stage) -> None:
    phone = await stage.join()
    data = base64.b64encode(b"half").decode()
    for part in (0, 1, 0, 1):
        chunk = {"id": "f1", "kind": "document", "part": part, "parts": 2, "data": data}
        await phone.send({"t": "media", **chunk})
    await phone.message()
    await expect_next_reply(phone)


@scenario("D19", reference=True, needs=("demo",))
async def a_text_repeated_after_a_reconnection(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("one", "m1")
    first = await phone.expect("message", text="one")
    await phone.receive_until("typing", stop=True)
    await phone.leave()
    phone = await stage.join()
    await phone.say("one", "m1")
    await phone.say("two", "m2")
    frames = await phone.receive_until("message", text="two")
    ids = {frame["id"] for frame in frames[:-1] if frame["t"] == "message"}
    check(sorted(ids - {first["id"]}), [], "replies to what came again")


@scenario("D19", reference=True, needs=("demo",))
async def the_same_id_from_two_devices(stage: Stage) -> None:
    phone, tablet = await stage.join("phone"), await stage.join("tablet")
    await phone.say("one", "m1")
    check(await phone.reply(), "one", "the reply to the first device")
    await tablet.say("two", "m1")
    check(await tablet.reply(), "two", "the reply to the second device")


async def expect_next_reply(phone: Connection) -> None:
    """The next thing that the agent says answers the next message."""
    await phone.say("what comes next", "next")
    check(await phone.reply(), "what comes next", "the next reply")
