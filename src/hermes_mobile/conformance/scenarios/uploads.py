"""Files to the agent."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hermes_mobile.conformance.difference import check_that
from hermes_mobile.conformance.scenario import scenario
from hermes_mobile.protocol.limits import KIB, MAX_MEDIA_PARTS, MAX_OPEN_UPLOADS

if TYPE_CHECKING:
    from hermes_mobile.conformance.connection import Connection
    from hermes_mobile.conformance.stage import Stage


@scenario("D17", reference=True, needs=("demo",))
async def a_file_in_chunks_is_one_file(stage: Stage) -> None:
    phone = await stage.join()
    pieces = [bytes([n]) * 100 * KIB for n in range(3)]
    for part, piece in enumerate(pieces):
        await phone.send(chunk("f1", piece, part, 3))
    await expect_described(phone, b"".join(pieces))


@scenario("D17", reference=True, needs=("demo",))
async def as_many_chunks_as_there_may_be(stage: Stage) -> None:
    phone = await stage.join()
    for part in range(MAX_MEDIA_PARTS):
        await phone.send(chunk("f1", b"a byte or few", part, MAX_MEDIA_PARTS))
    await expect_described(phone, b"a byte or few" * MAX_MEDIA_PARTS)


@scenario("D17", needs=("demo",))
async def chunks_in_any_order(stage: Stage) -> None:
    phone = await stage.join()
    for part in (2, 0, 2, 1):
        await phone.send(chunk("f1", b"%d" % part, part, 3))
    await expect_described(phone, b"012")


@scenario("D17", needs=("demo",))
async def two_files_at_once(stage: Stage) -> None:
    phone = await stage.join()
    for part in range(2):
        await phone.send(chunk("f1", b"one", part, 2))
        await phone.send(chunk("f2", b"two", part, 2))
    await expect_described(phone, b"oneone")
    await expect_described(phone, b"twotwo")


@scenario("D18", needs=("demo",))
async def the_first_chunk_with_a_name_names_the_file(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send(chunk("f1", b"one", 0, 3))
    await phone.send(chunk("f1", b"two", 1, 3, filename="a.txt"))
    await phone.send(chunk("f1", b"three", 2, 3, filename="b.txt"))
    await expect_described(phone, b"onetwothree", "name: a.txt")


@scenario("D17", needs=("demo",))
async def a_dropped_file_may_begin_again(stage: Stage) -> None:
    phone = await stage.join()
    await phone.send(chunk("f1", b"one", 0, 3))
    await phone.send(chunk("f1", b"two", 1, 2))
    await phone.expect("error", code="bad_frame", fatal=False, id="f1")
    await phone.send(chunk("f1", b"three", 2, 3))
    await phone.expect_nothing()
    for part in range(2):
        await phone.send(chunk("f1", b"again", part, 2))
    await expect_described(phone, b"againagain")


@scenario("D17", reference=True)
async def unfinished_files_end_with_the_connection(stage: Stage) -> None:
    for _ in range(2):
        phone = await stage.join()
        for n in range(MAX_OPEN_UPLOADS):
            await phone.send(chunk(f"f{n}", b"half", 0, 2))
        await phone.expect_nothing()
        await phone.leave()


def chunk(id: str, data: bytes, part: int, parts: int, **fields: str) -> dict[str, Any]:
    """A `media` frame of the app."""
    encoded = base64.b64encode(data).decode()
    frame = {"t": "media", "id": id, "kind": "document", "part": part, "parts": parts}
    return {**frame, "data": encoded, **fields}


async def expect_described(phone: Connection, data: bytes, *lines: str) -> None:
    """The demo agent describes a file, and it is this one."""
    described = await phone.reply()
    for line in (f"size: {len(data)} bytes", f"sha256: {sha256(data).hexdigest()}", *lines):
        check_that(line in described.splitlines(), line, described)
