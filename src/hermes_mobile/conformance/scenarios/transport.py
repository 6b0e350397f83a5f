"""WebSocket itself: fragments, sizes, what breaks RFC 6455, and HTTP beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hermes_mobile.conformance.difference import Closed, check, check_that
from hermes_mobile.conformance.scenario import scenario
from hermes_mobile.conformance.websocket import Opcode, websocket_frame
from hermes_mobile.protocol.limits import KIB, MAX_FRAME_BYTES, MAX_HELLO_BYTES, MIB

if TYPE_CHECKING:
    from hermes_mobile.conformance.stage import Stage

BROKEN: Final = {
    "a frame without a mask": websocket_frame(Opcode.TEXT, b"{}", masked=False),
    "a reserved opcode": websocket_frame(3, b"{}"),
    "a continuation of nothing": websocket_frame(Opcode.CONTINUATION, b"{}"),
    "a ping in fragments": websocket_frame(Opcode.PING, final=False),
}
UPGRADE: Final = """\
Upgrade: websocket
Connection: Upgrade
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
"""


@scenario("D3", reference=True)
async def a_message_in_fragments(stage: Stage) -> None:
    phone = await stage.join()
    message = '{"t":"ping","ts":"ü"}'.encode()
    inside_a_character = message.index("ü".encode()) + 1
    await phone.send_raw(
        websocket_frame(Opcode.TEXT, message[:inside_a_character], final=False)
        + websocket_frame(Opcode.PING, b"between")
        + websocket_frame(Opcode.CONTINUATION, final=False)
        + websocket_frame(Opcode.CONTINUATION, message[inside_a_character:])
    )
    await phone.expect("pong", ts="ü")


@scenario("D5", reference=True)
async def a_websocket_ping_is_answered(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send_raw(websocket_frame(Opcode.PING, b"are you there?"))
    await phone.expect_nothing()
    check_that(phone.pongs == [b"are you there?"], "a pong with the ping's payload", phone.pongs)


@scenario(reference=True)
async def a_close_is_answered(stage: Stage) -> None:
    phone = await stage.join()
    await phone.leave(1000)
    check_that(phone.closed == Closed(1000), "close 1000", phone.closed or "none")


@scenario("D3", reference=True)
async def a_message_beyond_16_mib_in_fragments(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send_raw(
        websocket_frame(Opcode.TEXT, b'"', final=False)
        + websocket_frame(Opcode.CONTINUATION, b"a" * MIB, final=False) * (MAX_FRAME_BYTES // MIB)
    )
    await phone.expect_refusal("too_big")


@scenario("D3")
async def a_message_beyond_16_mib_is_refused_by_its_header(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send_raw(websocket_frame(Opcode.TEXT, length=MAX_FRAME_BYTES + 1))
    await phone.expect_refusal("too_big")


@scenario("D3", "D6")
async def empty_fragments_without_end(stage: Stage) -> None:
    phone = await stage.open()
    begin = websocket_frame(Opcode.TEXT, final=False)
    empty = websocket_frame(Opcode.CONTINUATION, final=False)
    await phone.send_raw(begin + empty * ((2 * MAX_HELLO_BYTES + KIB) // len(empty)))
    await phone.expect_refusal("too_big")


@scenario("D2")
async def a_text_message_that_is_not_utf_8(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send_raw(websocket_frame(Opcode.TEXT, b'{"t":"\xff"}'))
    await phone.expect_closed()
    closed = phone.closed or Closed(None)
    check_that(closed.code in {1007, None}, "close 1007, or no Close frame", closed)


@scenario("D2")
async def what_breaks_websocket_ends_the_connection(stage: Stage) -> None:
    for what, data in BROKEN.items():
        phone = await stage.join(what.split()[1])
        await phone.send_raw(data)
        await phone.expect_closed(1002)


@scenario("D3")
async def compression_is_not_negotiated(stage: Stage) -> None:
    dial = stage.target.dial
    head = await stage.request(
        f"GET {dial.path} HTTP/1.1\nHost: {dial.host}\n{UPGRADE}"
        "Sec-WebSocket-Extensions: permessage-deflate\n\n"
    )
    check(status_of(head), "101", "the HTTP status")
    check_that("sec-websocket-extensions" not in head.lower(), "no extension", head)


@scenario("D1")
async def another_path_is_not_found(stage: Stage) -> None:
    dial = stage.target.dial
    head = await stage.request(f"GET /absent HTTP/1.1\nHost: {dial.host}\n{UPGRADE}\n")
    check(status_of(head), "404", "the HTTP status")


@scenario("D1")
async def a_plain_http_request(stage: Stage) -> None:
    dial = stage.target.dial
    head = await stage.request(f"GET {dial.path} HTTP/1.1\nHost: {dial.host}\n\n")
    check_that(status_of(head) in {"400", "426"}, "the HTTP status 426 or 400", head)


def status_of(head: str) -> str:
    return head.removeprefix("HTTP/1.1 ").partition(" ")[0]
