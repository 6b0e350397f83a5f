"""Files to the app."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hermes_mobile.conformance.difference import Frame, check, check_that
from hermes_mobile.conformance.scenario import scenario
from hermes_mobile.protocol.frames import MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MEDIA_CHUNK_BYTES

if TYPE_CHECKING:
    from hermes_mobile.conformance.connection import Connection
    from hermes_mobile.conformance.stage import Stage


@scenario("D31", reference=True, needs=("demo",))
async def a_file_of_each_kind(stage: Stage) -> None:
    phone = await stage.join()
    for kind in MediaOut:
        await phone.say(f"/{kind}")
        chunks = await file(phone)
        first = chunks[0]
        check(first["kind"], kind.value, "kind")
        check_that(bool(first["mime"] and first["filename"]), "a mime and a filename", first)
        check(len(data_of(chunks)), first["size"], f"size of the {kind}")


@scenario("D31", reference=True, needs=("demo",))
async def a_large_file_in_chunks(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say(f"/file {MAX_MEDIA_BYTES}")
    chunks = await file(phone)
    parts = len(chunks)
    check([chunk["part"] for chunk in chunks], list(range(parts)), "part of each chunk")
    check([chunk["parts"] for chunk in chunks], [parts] * parts, "parts of each chunk")
    check([chunk["size"] for chunk in chunks], [MAX_MEDIA_BYTES] * parts, "size in each chunk")
    check(len(data_of(chunks)), MAX_MEDIA_BYTES, "bytes in all chunks")
    largest = max(len(data_of([chunk])) for chunk in chunks)
    check_that(largest <= MEDIA_CHUNK_BYTES, f"at most {MEDIA_CHUNK_BYTES} in a chunk", largest)


@scenario("D31", reference=True, needs=("demo",))
async def a_file_by_link(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/link")
    (chunk,) = await file(phone)
    check_that(chunk["url"].startswith("http"), "a url", chunk["url"])
    check_that("data" not in chunk, "no data beside a url", chunk)


@scenario("D31", needs=("demo",))
async def a_file_beyond_8_mib_is_not_sent(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say(f"/file {MAX_MEDIA_BYTES + 1}")
    await phone.message()


async def file(phone: Connection) -> list[Frame]:
    """All chunks of the next file."""
    chunks = [await phone.expect("media")]
    while not chunks[-1]["final"]:
        chunks.append(await phone.expect("media", id=chunks[0]["id"]))
    return chunks


def data_of(chunks: list[Frame]) -> bytes:
    return b"".join(base64.b64decode(chunk["data"], validate=True) for chunk in chunks)
