"""Long replies in pieces, and replies that grow."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from hermes_mobile.conformance.difference import check, check_that
from hermes_mobile.conformance.scenario import scenario
from hermes_mobile.protocol.limits import REPLY_PIECE_CHARS

if TYPE_CHECKING:
    from hermes_mobile.conformance.stage import Stage

FAMILY: Final = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
"""Seven code points that readers see as one character."""


@scenario("D28", reference=True, needs=("demo",))
async def a_long_reply_has_one_id_and_numbered_pieces(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/long 10000")
    pieces = await phone.message()
    chunks = [piece["chunk"] for piece in pieces]
    total = len(pieces)
    check(chunks, [{"index": n, "total": total} for n in range(total)], "chunk of each piece")
    check([piece.get("edit", False) for piece in pieces], [False] * total, "edit of each piece")
    check(sum(len(piece["text"]) for piece in pieces), 10_000, "characters in all pieces")
    longest = max(len(piece["text"]) for piece in pieces)
    check_that(longest <= REPLY_PIECE_CHARS, f"at most {REPLY_PIECE_CHARS} in a piece", longest)


@scenario("D28", reference=True, needs=("demo",))
async def pieces_put_together_are_the_reply(stage: Stage) -> None:
    phone = await stage.join()
    text = " ".join(f"word-{n}" for n in range(1, 1000))
    await phone.say(text)
    check(await phone.reply(), text, "the reply, put together")


@scenario("D28", reference=True, needs=("demo",))
async def a_reply_that_just_fits_is_one_piece(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say(f"/long {REPLY_PIECE_CHARS}")
    piece = await phone.expect("message", chunk={"index": 0, "total": 1}, final=True)
    check(len(piece["text"]), REPLY_PIECE_CHARS, "its length")


@scenario("D28", needs=("demo",))
async def a_reply_is_cut_at_white_space(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/long 10000")
    pieces = await phone.message()
    for piece, following in pairwise(pieces):
        seam = piece["text"][-1:] + following["text"][:1]
        check_that(any(map(str.isspace, seam)), "a cut at white space", f"a cut in {seam!r}")
        length = len(piece["text"])
        check_that(length >= REPLY_PIECE_CHARS * 4 // 5, "a cut in the last fifth", length)


@scenario("D28", needs=("demo",))
async def a_reply_is_not_cut_inside_a_character(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("x" + FAMILY * 1000)
    for piece in await phone.message():
        text = piece["text"].removeprefix("x")
        check_that(text == FAMILY * (len(text) // len(FAMILY)), "whole characters", text[-14:])


@scenario("D29", reference=True, needs=("demo",))
async def a_reply_that_grows(stage: Stage) -> None:
    phone = await stage.join()
    await phone.say("/stream 12")
    states = [await phone.expect("message", final=False)]
    while not states[-1]["final"]:
        states.append(await phone.expect("message", id=states[0]["id"], edit=True))
    check(states[0].get("edit", False), False, "edit of the first state")
    for earlier, later in pairwise(states):
        grows = later["text"].startswith(earlier["text"])
        check_that(grows, f"the whole text so far, {earlier['text']!r} and more", later["text"])
    check(len(states[-1]["text"].split()), 12, "words in the last state")
    await phone.expect_nothing()
