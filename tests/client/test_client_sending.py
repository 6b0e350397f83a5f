"""What an app sends, and what becomes of it: against the real server, and against a scripted one."""

from __future__ import annotations

import io

import pytest
import trio

from cast import Recorder, Scripted, Worker
from hermes_mobile.agents import FileInput, TextInput, VoiceInput
from hermes_mobile.client import (
    CardKind,
    Error,
    Message,
    OfflineError,
    PromptCard,
    PromptDone,
    ReceivedFile,
    RefusedError,
    make_id,
)
from hermes_mobile.protocol.frames import (
    Accepted,
    Ack,
    AudioFormat,
    Deliver,
    MediaChunk,
    MediaIn,
    MediaOut,
    Ping,
    Pong,
    Text,
    UserTyping,
)
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB
from hermes_mobile.testing import open_script, open_server
from journal import events_until


async def test_a_text_reaches_the_agent_as_it_is(autojump_clock):
    """D15: untrimmed; the call returns the id when the server has accepted it (D38)."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        assert await client.send_text(" hi\n", id="m1") == "m1"
        made_up = await client.send_text("hello")
        await events_until(client, Message)
        assert agent.inputs == [TextInput("m1", " hi\n"), TextInput(made_up, "hello")]


async def test_a_repeat_is_accepted_and_not_taken(autojump_clock):
    """D19: the same id twice is one message."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        for _ in range(2):
            await client.send_text("hello", id="m1")
        await client.ping()
        assert agent.ids == ["m1"]


async def test_a_recording(autojump_clock):
    """`audio`: bytes, a format by its name, and the words that the app heard."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.send_audio(b"OggS", "ogg", "turn off the light", id="m1")
        await client.send_audio(b"RIFF", AudioFormat.WAV, id="m2")
        with pytest.raises(ValueError, match="flac"):
            await client.send_audio(b"fLaC", "flac")
        await client.ping()
        assert agent.inputs == [
            VoiceInput("m1", AudioFormat.OGG, b"OggS", "turn off the light"),
            VoiceInput("m2", AudioFormat.WAV, b"RIFF"),
        ]


async def test_files_from_everywhere(tmp_path):
    """Bytes, a path as text or as a path, and an open file: kind, name and type go with them."""
    path = tmp_path / "chart.png"
    path.write_bytes(b"\x89PNG")
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.send_image(str(path), caption="now", id="f1")
        await client.send_document(path, filename="other.txt", mime="text/x", id="f2")
        await client.send_voice(bytearray(b"OggS"), filename="a.ogg", id="f3")
        async with await trio.open_file(path, "rb") as file:
            await client.send_media("VIDEO", file, id="f4")
        await client.ping()
        assert agent.inputs == [
            FileInput("f1", MediaIn.IMAGE, "image/png", b"\x89PNG", "chart.png", "now"),
            FileInput("f2", MediaIn.DOCUMENT, "text/x", b"\x89PNG", "other.txt"),
            FileInput("f3", MediaIn.AUDIO, "audio/ogg", b"OggS", "a.ogg"),
            FileInput("f4", MediaIn.VIDEO, "image/png", b"\x89PNG", "chart.png"),
        ]


async def test_an_unnamed_file():
    """D18: bytes and files without a name are octet streams."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.send_document(trio.wrap_file(io.BytesIO(b"data")), id="f1")
        assert agent.inputs[0] == FileInput(
            "f1", MediaIn.DOCUMENT, "application/octet-stream", b"data"
        )


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"filename": "a.PNG"}, "image"),
        ({"filename": "a.ogg"}, "audio"),
        ({"filename": "a.mp4"}, "video"),
        ({"filename": "a.pdf"}, "document"),
        ({"filename": "a.pdf", "mime": "image/webp"}, "image"),
        ({}, "document"),
    ],
)
async def test_the_kind_of_a_file_is_guessed(autojump_clock, options, kind):
    """`send_file`: from the type, and that from the name."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.send_file(b"data", **options)
        assert agent.inputs[0].kind == kind


async def test_a_large_file_goes_in_chunks(autojump_clock):
    """D17: of 3 MiB; progress is told in the caller's task."""
    agent = Recorder()
    data, told = bytes(range(256)) * (7 * MIB // 256), []
    async with open_server(agent) as server, server.open_client() as client:
        await client.send_document(data, progress=lambda *sent: told.append(sent))
        assert agent.inputs[0].data == data
        assert told == [(3 * MIB, 7 * MIB), (6 * MIB, 7 * MIB), (7 * MIB, 7 * MIB)]


async def test_the_chunks_on_the_wire(autojump_clock):
    """D17: numbered from 0, with the same id, kind and names in each."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome(receipts=False)
        await client.send_document(b"abcde", filename="a.txt", chunk_bytes=2, id="f1")
        frames = [await connection.expect(MediaChunk) for _ in range(3)]
        assert frames == [
            MediaChunk("f1", "document", data, part, 3, "text/plain", "a.txt")
            for part, data in enumerate((b"ab", b"cd", b"e"))
        ]


@pytest.mark.parametrize("source", ["bytes", "path", "file"])
async def test_a_file_beyond_8_mib_is_refused_before_it_is_sent(tmp_path, source):
    """D17: clearly, at once, and without reading all of it; the connection is not touched."""
    path = tmp_path / "film.mp4"
    with path.open("wb") as file:
        file.truncate(20 * MIB)
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome(receipts=False)
        await client.wait_ready()
        async with await trio.open_file(path, "rb") as opened:
            given = {"bytes": bytes(20 * MIB), "path": path, "file": opened}[source]
            with pytest.raises(RefusedError, match=f"media: at most {MAX_MEDIA_BYTES} bytes") as e:
                await client.send_media("video", given)
            assert await opened.tell() == (MAX_MEDIA_BYTES + 1 if source == "file" else 0)
        assert e.value.code == "too_big"
        await client.send_typing()
        await connection.expect(UserTyping)


async def test_the_servers_own_limit_counts(autojump_clock):
    """`capabilities.max_media_bytes` may be another one."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.accept()
        await connection.send(
            '{"t":"ready","session":"mobile:x","capabilities":{"max_media_bytes":3}}'
        )
        await client.wait_ready()
        await client.send_document(b"abc")
        with pytest.raises(RefusedError, match="at most 3 bytes"):
            await client.send_document(b"abcd")


@pytest.mark.parametrize(
    ("send", "code"),
    [
        (lambda client: client.send_text(" \n"), "bad_frame"),
        (lambda client: client.send_text("a" * 12_001), "too_big"),
        (lambda client: client.send_text("hi", id="\x07"), "bad_frame"),
        (lambda client: client.send_text("hi", id=" "), "bad_frame"),
        (lambda client: client.send_document(b""), "bad_frame"),
        (lambda client: client.send_document(b"a", caption="a" * 12_001), "too_big"),
        (lambda client: client.send_audio(b"", "ogg"), "bad_frame"),
        (lambda client: client.send_audio(bytes(8 * MIB + 1), "ogg"), "too_big"),
        (lambda client: client.answer_prompt("p1", text="a" * 12_001), "too_big"),
        (lambda client: client.deliver("phone", "a" * 12_001), "too_big"),
        (lambda client: client.deliver("mobile:", "hi"), "bad_frame"),
        (lambda client: client.acknowledge(""), "bad_frame"),
    ],
)
async def test_what_would_be_refused_is_not_sent(autojump_clock, send, code):
    """The server's own code, sooner."""
    async with open_script() as script, script.open_client() as client:
        with pytest.raises(RefusedError) as caught:
            await send(client)
        assert caught.value.code == code


@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.send_media("hologram", b"a"),
        lambda client: client.send_document(b"a", chunk_bytes=0),
        lambda client: client.send_document(bytes(4096), chunk_bytes=1),
        lambda client: client.answer_prompt("", "once"),
        lambda client: client.answer_prompt("p1"),
        lambda client: client.deliver("phone"),
        lambda client: client.deliver("phone", file=b"a", kind="audio"),
    ],
)
async def test_mistakes_are_value_errors(autojump_clock, send):
    """Of whoever wrote the call, not of whoever uses the app."""
    async with open_script() as script, script.open_client() as client:
        with pytest.raises(ValueError, match=r"."):
            await send(client)


async def test_a_path_that_cannot_be_read(tmp_path):
    """It is the operating system's error."""
    async with open_script() as script, script.open_client() as client:
        with pytest.raises(FileNotFoundError):
            await client.send_image(tmp_path / "nothing.png")


async def test_a_refusal_is_raised_where_it_was_sent(autojump_clock):
    """D18, D25: with the server's code and the message's id; it is no event as well."""

    class Deaf(Recorder):
        takes = frozenset({MediaIn.IMAGE})

    async with open_server(Deaf()) as server, server.open_client() as client:
        with pytest.raises(RefusedError) as caught:
            await client.send_document(b"data", id="f1")
        assert (caught.value.code, caught.value.id) == ("unsupported_frame", "f1")
        assert not caught.value.fatal
        await client.send_text("hello")
        assert not [e for e in await events_until(client, Message) if isinstance(e, Error)]


async def test_a_refused_file_is_not_sent_to_its_end(autojump_clock):
    """D17: the other chunks would be ignored."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()

        @tasks.start_soon
        async def _() -> None:
            with pytest.raises(RefusedError):
                await client.send_document(bytes(8 * MIB), chunk_bytes=MIB, id="f1")
            await client.send_typing()

        await connection.expect(MediaChunk)
        await connection.send(Error("too_big", "media.data: too much", id="f1"))
        parts = 1
        while isinstance(await connection.receive(), MediaChunk):
            parts += 1
        assert parts < 8


async def test_the_small_frames(autojump_clock):
    """`typing`, `ack` and `ping`; a ping returns the time that its own pong took."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()
        await client.wait_ready()
        await client.send_typing()
        await client.acknowledge("r1")
        assert await connection.receive() == UserTyping()
        assert await connection.receive() == Ack("r1")

        @tasks.start_soon
        async def _() -> None:
            ping = await connection.expect(Ping)
            await trio.sleep(1)
            await connection.send(Pong(b'"another"'), Pong())
            await trio.sleep(1)
            await connection.send(Pong(ping.ts))

        assert await client.ping() == 2.0


async def test_a_card_is_answered(autojump_clock):
    """D21: the option in any case; what counts is in the event."""
    async with open_server() as server, server.open_client() as client:
        await client.send_text("/run rm -r build")
        card = (await events_until(client, PromptCard))[-1]
        assert (card.kind, card.command) == (CardKind.EXEC_APPROVAL, "rm -r build")
        await client.answer_prompt(card.id, "ONCE")
        events = await events_until(client, Message)
        assert PromptDone(card.id, "once") in events
        assert events[-1].text == "Applied: once"


async def test_a_question_is_answered_in_words(autojump_clock):
    """D22: `other`, and the words."""
    async with open_server() as server, server.open_client() as client:
        await client.send_text("/ask Which? | red | blue")
        card = (await events_until(client, PromptCard))[-1]
        await client.answer_prompt(card.id, "other", "green")
        assert (await events_until(client, Message))[-1].text == "Answer: green"


async def test_an_answer_to_another_devices_card_is_refused(autojump_clock):
    """D21: `forbidden` comes without an id, and finds its call."""
    async with (
        open_server() as server,
        server.open_client("phone") as phone,
        server.open_client("tablet") as tablet,
    ):
        await phone.send_text("/run ls")
        card = (await events_until(phone, PromptCard))[-1]
        with pytest.raises(RefusedError) as caught:
            await tablet.answer_prompt(card.id, "once")
        assert caught.value.code == "forbidden"


async def test_a_server_without_receipts(autojump_clock):
    """D38: calls return when it is written; a refusal is an event then."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome(receipts=False)
        await client.send_text("hello", id="m1")
        assert await connection.receive() == Text("m1", "hello")
        await connection.send(Error("internal_error", "resend later", id="m1"))
        assert (await events_until(client, Error))[-1].id == "m1"


async def test_a_delivery(autojump_clock):
    """D25: it returns when the device's side has it; the delivered frames have its id."""
    async with (
        open_server() as server,
        server.open_client("phone") as phone,
        server.open_client("cron") as cron,
    ):
        await phone.wait_ready()
        sent = await cron.deliver("mobile:phone", "It is done.", file=b"ok", filename="a.log")
        events = await events_until(phone, ReceivedFile)
        assert [e for e in events if isinstance(e, Message | ReceivedFile)] == [
            Message(sent, "It is done."),
            ReceivedFile(sent, MediaOut.DOCUMENT, "application/octet-stream", "a.log", 2, b"ok"),
        ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("a.png", "image"), ("a.gif", "animation"), ("a.ogg", "voice"), ("a.mp4", "video")),
        *(("a.mp3", "document"), ("a.pdf", "document"), ("", "document")),
    ],
)
async def test_the_kind_of_a_delivered_file_is_guessed(autojump_clock, name, kind):
    """From its name; `audio/ogg` is a voice message."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()
        tasks.start_soon(lambda: client.deliver("phone", file=b"a", filename=name))
        deliver = await connection.expect(Deliver)
        assert deliver.media is not None
        assert deliver.media.kind == kind
        await connection.send(Pong((await connection.expect(Ping)).ts))


async def test_a_device_that_is_away(autojump_clock):
    """D25: `device_offline`, unless the delivery is to be kept for it."""
    async with open_server() as server, server.open_client("cron") as cron:
        with pytest.raises(RefusedError) as caught:
            await cron.deliver("phone", "hello")
        assert caught.value.code == "device_offline"
        await cron.deliver("phone", "hello", keep=True)
        async with server.open_client("phone") as phone:
            assert (await events_until(phone, Message))[-1].text == "hello"


async def test_a_deliver_token_may_only_deliver(autojump_clock):
    """D26: `ready` has no session, and everything else is refused."""
    settings = {"deliver_tokens": ("courier",)}
    async with open_server(**settings) as server, server.open_client(token="courier") as client:
        assert (await client.wait_ready()).session == ""
        with pytest.raises(RefusedError) as caught:
            await client.send_text("hello")
        assert caught.value.code == "forbidden"
        await client.deliver("phone", "hello", keep=True)


async def test_what_was_not_accepted_goes_out_again(autojump_clock):
    """T9: with the same id, before anything newer, and the call is still waiting for it."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()
        done = trio.Event()

        @tasks.start_soon
        async def _() -> None:
            await client.send_text("hello", id="m1")
            done.set()

        await connection.expect(Text)
        connection.stream.cut()
        connection = await script.welcome()
        assert await connection.expect(Text) == Text("m1", "hello")
        assert not done.is_set()
        await connection.send(Accepted("m1"))
        await done.wait()


async def test_a_cut_upload_is_sent_again_whole(autojump_clock):
    """T9, D17: the agent gets the file once, and all of it."""
    agent = Recorder()
    data = bytes(range(256)) * (5 * MIB // 256)
    async with open_server(agent) as server, server.open_client() as client:
        await client.wait_ready()
        server.streams[-1].cut_after(6 * MIB)
        told = []
        await client.send_document(data, id="f1", progress=lambda sent, _: told.append(sent))
        await client.ping()
        assert [each.data for each in agent.inputs] == [data]
        assert told == [3 * MIB, 0, 3 * MIB, 5 * MIB]
        assert len(server.streams) == 2


async def test_a_refusal_by_a_full_queue_can_be_sent_again(autojump_clock):
    """D20: `internal_error`, then the same id."""
    agent = Worker()
    async with open_server(agent, queue_messages=1) as server, server.open_client() as client:
        for text in ("worked on", "waiting"):
            await client.send_text(text)
        with pytest.raises(RefusedError, match="resend later") as caught:
            await client.send_text("too much", id="m3")
        assert caught.value.code == "internal_error"
        agent.released.set()
        await events_until(client, Message)
        assert await client.send_text("too much", id="m3") == "m3"


async def test_cancelling_withdraws_what_was_not_begun(autojump_clock):
    """Held, or in line behind others: nothing of it gets on the wire."""
    async with open_script() as script, script.open_client() as client:
        script.reachable = False
        with trio.move_on_after(1):
            await client.send_text("never")
        script.reachable = True
        connection = await script.welcome(receipts=False)
        await client.send_text("after")
        assert (await connection.expect(Text)).text == "after"


async def test_cancelling_an_upload_leaves_no_half_of_it(autojump_clock):
    """D17: what was begun goes on to its end, for the server counts it as open until then."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.wait_ready()
        with trio.CancelScope() as scope:
            await client.send_document(
                bytes(8 * MIB), chunk_bytes=MIB, progress=lambda *_: scope.cancel()
            )
        assert scope.cancelled_caught
        await client.send_text("after")
        await client.ping()
        assert [type(each) for each in agent.inputs] == [FileInput, TextInput]


async def test_a_slow_link_makes_senders_wait(autojump_clock):
    """T9: for room, instead of giving up older messages: 64 of them."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()
        await client.wait_ready()
        for number in range(70):
            tasks.start_soon(client.send_text, f"text {number}")
        received = []
        with trio.move_on_after(1):
            while True:
                received.append(await connection.expect(Text))
        assert len(received) == 64
        for text in received:
            await connection.send(Accepted(text.id))
        for _ in range(6):
            await connection.send(Accepted((await connection.expect(Text)).id))


async def test_passing_messages_do_not_outlive_the_connection(autojump_clock):
    """T1: a ping that gets no pong is offline."""
    async with (
        open_script() as script,
        script.open_client() as client,
        trio.open_nursery() as tasks,
    ):
        connection = await script.welcome()
        await client.wait_ready()

        @tasks.start_soon
        async def _() -> None:
            await connection.expect(Ping)
            connection.stream.cut()

        with pytest.raises(OfflineError, match="the connection was lost"):
            await client.ping()


async def test_a_turn_that_fails_is_told(autojump_clock):
    """D19: after the receipt nobody waits, so it is an event."""

    async def fail(_turn) -> None:
        raise RuntimeError

    async with open_server(Scripted(fail)) as server, server.open_client() as client:
        await client.send_text("hello", id="m1")
        assert (await events_until(client, Error))[-1].id == "m1"


def test_ids_are_unlike_each_other():
    """And short enough for the protocol (D12)."""
    ids = {make_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert max(map(len, ids)) <= 128
