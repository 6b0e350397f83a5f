"""From the connection to `ready`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.conformance.difference import check, check_that
from hermes_mobile.conformance.scenario import scenario
from hermes_mobile.conformance.websocket import Opcode, websocket_frame
from hermes_mobile.protocol.frames import AvatarState, CardKind, MediaIn, MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MAX_TEXT_CHARS, PROTOCOL_VERSION

if TYPE_CHECKING:
    from hermes_mobile.conformance.stage import Stage

TOLERANCE: Final = 2.0
"""Seconds by which a deadline may be missed: networks and busy machines."""


@scenario(reference=True)
async def ready_says_what_the_server_does(stage: Stage) -> None:
    phone = await stage.join()
    device = stage.device()
    check(phone.ready["v"], PROTOCOL_VERSION, "v in ready")
    check(phone.ready["session"], f"mobile:{device}", "session in ready")
    check(phone.ready["device"], {"id": device, "name": "Phone"}, "device in ready")
    capabilities = phone.ready["capabilities"]
    for name in ("text", "voice", "typing", "edit"):
        check(capabilities[name], True, f"{name} in capabilities")
    check(capabilities["avatar_states"], list(AvatarState), "avatar_states in capabilities")
    for name, known in (("media_in", MediaIn), ("media_out", MediaOut), ("prompts", CardKind)):
        unknown = [kind for kind in capabilities[name] if kind not in list(known)]
        check_that(not unknown, f"{name} of the reference", unknown)
    check(capabilities["max_media_bytes"], MAX_MEDIA_BYTES, "max_media_bytes in capabilities")
    check(capabilities["max_text_chars"], MAX_TEXT_CHARS, "max_text_chars in capabilities")


@scenario("D14", reference=True)
async def the_type_in_upper_case(stage: Stage) -> None:
    phone = await stage.connect(
        {"t": "HELLO", "token": stage.target.token, "device": {"id": stage.device()}}
    )
    await phone.expect("ready")


@scenario("D1", reference=True)
async def a_token_in_the_url_is_not_read(stage: Stage) -> None:
    phone = await stage.open(f"?token={stage.target.token}")
    await phone.send({"t": "hello", "token": "wrong", "device": {"id": stage.device()}})
    await phone.expect_refusal("auth_failed")


@scenario("D11", reference=True)
async def a_reconnection_closes_the_old_connection(stage: Stage) -> None:
    old = await stage.join()
    new = await stage.join()
    await old.expect_closed()
    await new.expect_nothing()


@scenario("D11")
async def what_a_replaced_connection_still_sends_is_not_read(stage: Stage) -> None:
    old = await stage.join()
    new = await stage.join()
    await old.say("too late")
    await old.expect_closed(4001, "replaced")
    await new.expect_nothing()


@scenario("D10", reference=True)
async def two_devices_side_by_side(stage: Stage) -> None:
    phone, tablet = await stage.join("phone"), await stage.join("tablet")
    await phone.expect_nothing()
    await tablet.expect_nothing()


@scenario("D4", reference=True)
async def hello_is_waited_for_as_long_as_promised(stage: Stage) -> None:
    patience = stage.target.hello_timeout
    phone = await stage.open()
    opened = trio.current_time()
    await stage.wait(max(0, patience - TOLERANCE))
    check_that(phone.is_quiet, f"{patience:g} s for hello", "an answer to nothing before that")
    await phone.expect_refusal("bad_frame")
    took = trio.current_time() - opened
    check_that(took <= patience + TOLERANCE, f"{patience:g} s for hello", f"{took:.1f} s")


@scenario("D4")
async def neither_pings_nor_fragments_put_off_the_hello_timeout(stage: Stage) -> None:
    patience = stage.target.hello_timeout
    phone = await stage.open()
    opened = trio.current_time()
    await phone.send_raw(websocket_frame(Opcode.TEXT, b'{"t":', final=False))
    for _ in range(4):
        await stage.wait(patience / 5)
        await phone.send_raw(websocket_frame(Opcode.PING))
        await phone.send_raw(websocket_frame(Opcode.CONTINUATION, b" ", final=False))
    await phone.expect_refusal("bad_frame")
    took = trio.current_time() - opened
    check_that(took <= patience + TOLERANCE, f"{patience:g} s for hello", f"{took:.1f} s")
