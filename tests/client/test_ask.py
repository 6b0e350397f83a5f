"""A question and its whole reply (`client.ask`)."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from cast import Scripted
from hermes_mobile.agents import OutgoingFile
from hermes_mobile.client import (
    AccessDeniedError,
    CardKind,
    Handlers,
    MediaOut,
    RefusedError,
    Reply,
    Typing,
)
from hermes_mobile.protocol.frames import Accepted, Avatar, AvatarState, Message, Ping, Pong, Text
from hermes_mobile.testing import open_script, open_server
from journal import events_until


async def answer_pings(connection) -> None:
    """Be a server as far as liveness goes."""
    while True:
        ping = await connection.expect(Ping)
        await connection.send(Pong(ping.ts))


async def test_a_reply_is_all_that_the_agent_says(autojump_clock):
    """Texts, each on its line, and files, until it stops working."""

    async def talk(turn) -> None:
        await turn.reply("Look:")
        await trio.sleep(600)
        await turn.send_file(OutgoingFile(MediaOut.IMAGE, b"\x89PNG", "a.png"))
        await turn.reply("That is all.")

    async with open_server(Scripted(talk)) as server, server.open_client() as client:
        reply = await client.ask("What do you see?")
        assert (reply.messages, reply.done) == (("Look:", "That is all."), True)
        assert reply.text == "Look:\nThat is all."
        assert [file.data for file in reply.files] == [b"\x89PNG"]


async def test_one_question_after_the_other(autojump_clock):
    """Each has its own reply."""
    async with open_server() as server, server.open_client() as client:
        assert [(await client.ask(f"q{n}")).text for n in range(10)] == [f"q{n}" for n in range(10)]


@pytest.mark.parametrize("length", [1, 3_500, 3_501, 20_000])
async def test_pieces_make_one_message(autojump_clock, length):
    """D28: to the character."""
    async with open_server() as server, server.open_client() as client:
        reply = await client.ask(f"/long {length}")
        assert len(reply.messages) == 1
        assert len(reply.text) == length


async def test_a_stream_that_was_cut_is_put_together(autojump_clock):
    """D29: it went on under another id, which nobody reads from the text."""
    async with open_server() as server, server.open_client() as client:
        long = await client.ask("/stream 1000")
        assert len(long.messages) > 1
        words = long.text.split(" ")
        assert len(words) == 1_000
        assert words[:2] == ["Sentence", "1"]


async def test_the_states_of_a_growing_reply(autojump_clock):
    """Iterating gives each, the last one `done`; a state begins with the one before it."""
    async with open_server() as server, server.open_client() as client:
        replies = [reply async for reply in client.ask("/stream 20")]
        assert all(newer.text.startswith(older.text) for older, newer in pairwise(replies))
        assert [reply.done for reply in replies] == [False] * (len(replies) - 1) + [True]
        assert len(replies) in {20, 21}  # the end may come with the last word
        assert len(replies[-1].text.split()) == 20


async def test_a_slow_reader_sees_the_newest_state(autojump_clock):
    """States that were overtaken are skipped, so that it is never far behind."""
    async with open_server() as server, server.open_client() as client:
        seen = 0
        async for _ in client.ask("/stream 200"):
            seen += 1
            await trio.sleep(1)
        assert seen == 11


async def test_leaving_early_is_fine(autojump_clock):
    """The next question waits for the end of the turn, and gets nothing of it."""
    async with open_server() as server, server.open_client() as client:
        async for _ in client.ask("/stream 100"):
            break
        assert (await client.ask("And now?")).text == "And now?"
        assert trio.current_time() > 4.9


async def test_a_question_waits_for_what_is_going_on(autojump_clock):
    """A text that was sent before has its own reply."""
    async with open_server() as server, server.open_client() as client:
        await client.send_text("/think 60")
        await events_until(client, Typing())
        assert (await client.ask("hello")).text == "hello"


async def test_one_at_a_time(autojump_clock):
    """The protocol does not say which message answers which."""
    async with open_server() as server, server.open_client() as client:
        async with trio.open_nursery() as tasks:

            @tasks.start_soon
            async def _() -> None:
                assert (await client.ask("/think 5")).text == "Thought for 5 s."

            await trio.sleep(1)
            with pytest.raises(trio.BusyResourceError):
                await client.ask("hello")
        assert (await client.ask("hello")).text == "hello"


async def test_an_agent_that_fails(autojump_clock):
    """D19: `internal_error`, with the id to send it again under."""
    async with open_server() as server, server.open_client() as client:
        question = client.ask("/fail")
        with pytest.raises(RefusedError) as caught:
            await question
        assert (caught.value.code, caught.value.id) == ("internal_error", question.id)
        assert (await client.ask("hello")).text == "hello"


async def test_cards_are_the_apps_to_answer(autojump_clock):
    """By a callback, while the question waits."""
    async with open_server() as server, server.open_client() as client:

        async def approve(card) -> None:
            assert card.kind is CardKind.EXEC_APPROVAL
            await client.answer_prompt(card.id, "once")

        client.set_handlers(Handlers(on_prompt=approve))
        assert (await client.ask("/run ls")).text == "Applied: once"


async def test_a_reply_survives_its_connection(autojump_clock):
    """D32: whether the turn ends while the connection is away, or after that."""
    async with open_server() as server, server.open_client() as client:
        for seconds in (0.2, 30):
            async with trio.open_nursery() as tasks:

                @tasks.start_soon
                async def _(seconds=seconds) -> None:
                    reply = await client.ask(f"/think {seconds}")
                    assert reply.text == f"Thought for {seconds} s."

                await trio.sleep(0.1)
                server.streams[-1].cut()
            await trio.sleep(60)
        assert len(server.streams) == 3


async def test_a_stream_survives_its_connection(autojump_clock):
    """T8, D29: it goes on where it was."""
    async with open_server() as server, server.open_client() as client:
        replies = []
        async for reply in client.ask("/stream 60"):
            replies.append(reply)
            if len(replies) == 10:
                server.streams[-1].cut()
        assert all(newer.text.startswith(older.text) for older, newer in pairwise(replies))
        assert len(replies[-1].text.split()) == 60


async def test_what_was_said_before_is_no_reply(autojump_clock):
    """What was kept for the device (D32), and what it is told without asking."""
    async with open_server() as server:
        await server.conversation().reply("You were away.")
        async with server.open_client() as client:
            assert (await client.ask("hello")).text == "hello"


async def test_a_server_that_never_says_stop(autojump_clock):
    """`typing {stop}` is optional in the reference: `avatar: idle` ends the work as well."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome(receipts=False)

        @tasks.start_soon
        async def _() -> None:
            await connection.expect(Text)
            await connection.send(Avatar(AvatarState.THINKING), Typing())
            ping = await connection.expect(Ping)
            await connection.send(Pong(ping.ts), Message("r1", "hello"))
            await trio.sleep(3)
            await connection.send(Avatar(AvatarState.IDLE))

        assert (await client.ask("hello")).text == "hello"
        assert trio.current_time() == 3.0


async def test_a_server_that_shows_no_work(autojump_clock):
    """The first whole message is the reply then."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()

        @tasks.start_soon
        async def _() -> None:
            text = await connection.expect(Text)
            await connection.send(Accepted(text.id))
            await connection.send(Pong((await connection.expect(Ping)).ts))
            await trio.sleep(10)
            await connection.send(Message("r1", "hel", 0, 2, final=False))
            await connection.send(Message("r1", "lo", 1, 2))

        assert await client.ask("hello") == Reply(("hello",), (), done=True, text="hello")


async def test_a_client_that_is_refused(autojump_clock):
    """T3: a question has no reply then."""
    async with open_server() as server, server.open_client(token="wrong") as client:
        with pytest.raises(AccessDeniedError):
            await client.ask("hello")


async def test_a_question_that_nobody_asks_is_not_sent(autojump_clock):
    """And leaves no trace."""
    async with open_server() as server, server.open_client() as client:
        client.ask("never")
        assert (await client.ask("hello")).text == "hello"
        question = client.ask("twice")
        assert await question == await question


async def test_a_question_that_was_cancelled(autojump_clock):
    """Whoever gives up does not keep others from asking."""
    async with open_server() as server, server.open_client() as client:
        with trio.move_on_after(1) as scope:
            await client.ask("/think 60")
        assert scope.cancelled_caught
        await client.send_text("/stop")
        assert (await client.ask("hello")).text == "hello"


async def test_a_question_that_is_refused(autojump_clock):
    """Nor does a text that is none."""
    async with open_server() as server, server.open_client() as client:
        with pytest.raises(RefusedError, match="text"):
            await client.ask(" ")
        assert (await client.ask("hello")).text == "hello"
