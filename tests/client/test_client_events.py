"""What an app is told, by iteration or by callbacks; nothing twice, nothing dropped."""

from __future__ import annotations

import pytest
import trio

from cast import Scripted
from hermes_mobile.agents import OutgoingFile
from hermes_mobile.client import (
    Avatar,
    AvatarState,
    CardKind,
    ConnectionState,
    Delivered,
    Error,
    Handlers,
    MediaOut,
    Message,
    PromptCard,
    PromptDone,
    Ready,
    ReceivedFile,
    StateChanged,
    Typing,
)
from hermes_mobile.protocol.frames import Accepted, MediaPart, Text
from hermes_mobile.protocol.limits import MIB
from hermes_mobile.testing import open_script, open_server
from journal import events_until

CARD = PromptCard("p1", CardKind.CLARIFY, "Which?", (), "mobile:phone", 300)


async def events_after_ready(client, last):
    events = await events_until(client, last)
    return events[events.index(client.session) + 1 :]


async def test_a_turn_as_events(autojump_clock):
    """D30: in the order of the wire."""
    async with open_server() as server, server.open_client() as client:
        await client.send_text("hello")
        thinking, typing, message, speaking, stop = await events_after_ready(
            client, Typing(stop=True)
        )
        assert (thinking, typing) == (Avatar(AvatarState.THINKING), Typing())
        assert isinstance(message, Message)
        assert (message.text, message.final, message.edit) == ("hello", True, False)
        assert (speaking, stop) == (Avatar(AvatarState.SPEAKING), Typing(stop=True))
        assert await anext(client) == Avatar(AvatarState.IDLE)


async def test_a_file_is_one_event(autojump_clock):
    """T6: whole, however many chunks it came in."""
    data = bytes(range(256)) * (7 * MIB // 256)

    async def send(turn) -> None:
        await turn.send_file(OutgoingFile(MediaOut.DOCUMENT, data, "a.bin", caption="all of it"))

    async with open_server(Scripted(send)) as server, server.open_client() as client:
        await client.send_text("send it")
        file = (await events_until(client, ReceivedFile))[-1]
        assert (file.data == data, file.size, file.filename) == (True, len(data), "a.bin")
        assert (file.caption, file.mime) == ("all of it", "application/octet-stream")


async def test_half_a_file_comes_again_whole(autojump_clock):
    """T6: its chunks are dropped with the connection."""
    first, second = (
        MediaPart(
            "f1", MediaOut.IMAGE, "image/png", "a.png", 2, n, 2, final=n == 1, data=b"ab"[n : n + 1]
        )
        for n in range(2)
    )
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await connection.send(first)
        await events_until(client, Ready)
        connection.stream.cut()
        connection = await script.welcome()
        await connection.send(second, first, second, Typing())
        events = await events_after_ready(client, Typing())
        assert [event.data for event in events if isinstance(event, ReceivedFile)] == [b"ab"]


async def test_repeats_are_dropped(autojump_clock):
    """T8: messages, files and cards that come again after a reconnection."""
    said = [
        Message("r1", "one"),
        MediaPart("f1", MediaOut.IMAGE, "", "", 1, data=b"a"),
        CARD,
    ]
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await connection.send(*said, Typing())
        assert len(await events_after_ready(client, Typing())) == 4
        connection.stream.cut()
        connection = await script.welcome()
        await connection.send(*said, Message("r2", "two"))
        assert await events_after_ready(client, Message) == [Message("r2", "two")]


async def test_everything_else_is_told_each_time(autojump_clock):
    """T7, T8: errors, ends of cards, deliveries; receipts, pongs and unknown frames are not told."""
    frames = [
        Error("internal_error", "2 messages could not be kept"),
        PromptDone("p1", "deny"),
        PromptDone("p1", "deny"),
        Delivered("d1", "phone"),
    ]
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await connection.send(Accepted("m1"), '{"t":"hologram"}', "[]", "{", *frames, Typing())
        assert await events_after_ready(client, Typing()) == [*frames, Typing()]


async def test_one_task_gets_the_events(autojump_clock):
    """Two would share them by chance: that is a mistake."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        await events_until(client, StateChanged(ConnectionState.CONNECTING))
        tasks.start_soon(client.__anext__)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await anext(client)
        client.set_handlers(Handlers())
        tasks.cancel_scope.cancel()


async def test_cancelling_takes_no_event(autojump_clock):
    """A cancelled `anext` leaves every event where it was."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await connection.send(Message("r1", "one"))
        await client.wait_ready()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            with trio.CancelScope() as scope:
                scope.cancel()
                await anext(client)
        assert [type(event) for event in await events_until(client, Message)] == [
            StateChanged,
            StateChanged,
            Ready,
            Message,
        ]


async def test_an_app_that_is_behind_makes_the_server_wait(autojump_clock):
    """No event is dropped, and memory is bounded: the client reads no further than 1,024 events."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await events_until(client, Ready)
        for number in range(1_200):
            await connection.send(Message(f"r{number}", ""))
        await trio.testing.wait_all_tasks_blocked()
        assert len(client._engine.inbox) == 1_024
        assert [(await anext(client)).id for _ in range(1_200)] == [f"r{n}" for n in range(1_200)]


async def test_an_app_that_is_behind_gets_its_receipts(autojump_clock):
    """Or it would wait for them in the loop that takes the events, for ever."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()
        await events_until(client, Ready)

        @tasks.start_soon
        async def _() -> None:
            for number in range(1_100):
                await connection.send(Message(f"r{number}", ""))
            text = await connection.expect(Text)
            await connection.send(Accepted(text.id))

        await trio.testing.wait_all_tasks_blocked()
        await client.send_text("I am behind")


async def test_callbacks_get_the_same(autojump_clock):
    """Each event has its callback; functions and asynchronous ones, in the order of the events."""
    told = []

    def note(name):
        return lambda *arguments: told.append((name, *arguments))

    async def on_message(message) -> None:
        await trio.sleep(1)
        told.append(("message", message))

    handlers = Handlers(
        on_message=on_message,
        **{
            f"on_{name}": note(name)
            for name in (
                *("state", "ready", "message_edit", "typing", "typing_stop", "avatar", "prompt"),
                *("prompt_done", "media", "error", "delivered"),
            )
        },
    )
    frames = [
        Message("r1", "a", final=False),
        Message("r1", "ab", edit=True),
        Typing(),
        Typing(stop=True),
        Avatar(AvatarState.SPEAKING),
        CARD,
        PromptDone("p1", expired=True),
        MediaPart("f1", MediaOut.IMAGE, "", "", 1, data=b"a"),
        Error("internal_error", "oh"),
        Delivered("d1", "phone"),
    ]
    async with open_script() as script, script.open_client(handlers=handlers) as client:
        connection = await script.welcome()
        await connection.send(*frames)
        await trio.sleep(2)
        assert told == [
            ("state", StateChanged(ConnectionState.CONNECTING)),
            ("state", StateChanged(ConnectionState.CONNECTED)),
            ("ready", client.session),
            ("message", frames[0]),
            ("message_edit", frames[1]),
            ("typing",),
            ("typing_stop",),
            ("avatar", AvatarState.SPEAKING),
            ("prompt", CARD),
            ("prompt_done", frames[6]),
            ("media", ReceivedFile("f1", MediaOut.IMAGE, "", "", 1, b"a")),
            ("error", frames[8]),
            ("delivered", frames[9]),
        ]


async def test_callbacks_may_use_the_client(autojump_clock):
    """An asynchronous one waits for its receipt, and the events after it wait for the callback."""
    async with open_server() as server, server.open_client() as client:
        answered = trio.Event()

        async def answer(card) -> None:
            await client.answer_prompt(card.id, "deny")

        client.set_handlers(Handlers(on_prompt=answer))
        client.set_handlers(Handlers(on_prompt_done=lambda _: answered.set()))
        await client.send_text("/run rm -r build")
        with trio.fail_after(60):
            await answered.wait()
        with pytest.raises(trio.BusyResourceError):
            await anext(client)


async def test_a_callback_that_fails_ends_the_block(autojump_clock):
    """It is not caught: it comes out in a group, and the connection is closed."""

    def fail(_ready) -> None:
        raise ZeroDivisionError

    async with open_server() as server:
        with pytest.raises(ExceptionGroup) as caught:
            async with server.open_client(handlers=Handlers(on_ready=fail)):
                await trio.sleep_forever()
        assert caught.group_contains(ZeroDivisionError)
        assert server.streams[0].closed


async def test_callbacks_end_with_the_client(autojump_clock):
    """After a refusal `on_error` is the last word."""
    told = []
    handlers = Handlers(on_state=told.append, on_error=told.append)
    async with open_server() as server, server.open_client(token="no", handlers=handlers):
        await trio.sleep(1)
        assert [getattr(each, "code", None) for each in told] == [
            None,
            "auth_failed",
            None,
            "auth_failed",
        ]
