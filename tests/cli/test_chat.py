"""`hermes-mobile chat`: what a person is shown, and what their lines do. The server is in memory."""

from __future__ import annotations

import os
import re
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from attrs import define, field
from click.testing import CliRunner

from cast import Recorder, Scripted
from hermes_mobile.agents import OutgoingFile
from hermes_mobile.cli import chat, main, remote
from hermes_mobile.cli.editor import LineEditor
from hermes_mobile.cli.saving import save
from hermes_mobile.cli.view import Style
from hermes_mobile.client import (
    AccessDeniedError,
    Avatar,
    AvatarState,
    Device,
    MediaOut,
    Message,
    PromptDone,
    ReceivedFile,
    ReplacedError,
    TransportError,
    Typing,
)
from hermes_mobile.client import open_client as open_real_client
from hermes_mobile.client.background import open_background
from hermes_mobile.protocol import cards
from hermes_mobile.protocol.frames import Accepted, Error, MediaIn, PromptAnswer, Text
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB
from hermes_mobile.testing import open_script, open_server
from journal import NEVER


@define
class Page:
    """A view that notes what it is given."""

    said: list = field(factory=list)
    """Text and style, in order."""
    grown: list = field(factory=list)
    statuses: list = field(factory=list)
    refreshed: int = 0
    changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    def say(self, text, style):
        self.said.append((text, style))
        self.changed.unpark_all()

    def grow(self, text):
        self.grown.append(text)

    def show_status(self, status):
        if status not in self.statuses[-1:]:
            self.statuses.append(status)
        self.changed.unpark_all()

    def refresh(self):
        self.refreshed += 1

    def of(self, *styles):
        return [text for text, style in self.said if style in styles]

    @property
    def agent(self):
        return self.of(Style.AGENT)

    @property
    def notices(self):
        return self.of(Style.NOTICE)

    @property
    def errors(self):
        return self.of(Style.ERROR)

    async def until(self, happened):
        """Wait until something has been shown."""
        with trio.fail_after(NEVER):
            while not happened():
                await self.changed.park()

    async def until_said(self, text):
        await self.until(lambda: any(text in said for said, _ in self.said))


class Reader:
    """Reads what a test writes."""

    def __init__(self, *texts):
        self.write, self._texts = trio.open_memory_channel[str](100)
        for text in texts:
            self.write.send_nowait(text)

    async def read(self):
        return await self.read_line() or ""

    async def read_line(self):
        try:
            return await self._texts.receive()
        except trio.EndOfChannel:
            return None


@pytest.fixture
def network(monkeypatch):
    """Let `chat` connect on a network in memory."""

    def connect_on(network):
        def open_client(url, *, token, device, ssl_context):
            return open_real_client(
                url,
                token=token,
                device=device,
                open_stream=network.open_stream,
                random=lambda: 1.0,
            )

        monkeypatch.setattr(chat, "open_client", open_client)
        return network

    return connect_on


def converse(network, folder, page, person, device="phone"):
    return chat.converse("ws://memory.test/ws", network.token, Device(device), folder, page, person)


@pytest.fixture
def piped(network, tmp_path):
    """Run a chat whose standard input has `lines`, against an agent; the page at its end."""

    async def run(*lines, agent=None):
        page, reader = Page(), Reader(*lines)
        reader.write.close()
        async with open_server(agent) as server:
            person = partial(chat.follow_lines, reader, page)
            with trio.fail_after(NEVER):
                await converse(network(server), tmp_path, page, person)
        return page

    return run


@pytest.fixture
def on_terminal(network, tmp_path):
    """A chat at a keyboard, and its page."""

    @asynccontextmanager
    async def start(net):
        page, reader = Page(), Reader()
        person = partial(chat.follow_keys, reader, LineEditor(), page)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(converse, network(net), tmp_path, page, person)
            yield page, partial(reader.write.send_nowait)
            reader.write.send_nowait("\x15/quit\r")

    return start


# Without a terminal


async def test_lines_are_answered_one_after_the_other(piped, autojump_clock):
    """Each goes when the one before is answered, and the chat ends after the last answer."""
    page = await piped("/think 5", "hello", "", "/stream 3")
    assert page.agent == ["Thought for 5 s.", "hello", "Sentence 1 of"]
    assert page.notices == ["connected as mobile:phone; /send PATH sends a file, /quit leaves"]


async def test_quit_ends_it_before_the_end(piped, autojump_clock):
    """What comes behind it is not sent."""
    assert (await piped("hello", " /quit ", "never")).agent == ["hello"]


async def test_what_was_heard_is_confirmed(piped, network, tmp_path, autojump_clock):
    """D32: the next chat is not told again what this one has shown."""
    async with open_server() as server:
        for _ in range(2):
            page, reader = Page(), Reader("hello")
            reader.write.close()
            person = partial(chat.follow_lines, reader, page)
            await converse(network(server), tmp_path, page, person)
            assert page.agent == ["hello"]


async def test_cards_are_answered_by_lines(piped, autojump_clock):
    """A number, a label, words, and `other` first with the words on the next line (D22)."""
    page = await piped(
        *("/run ls", "1", "/confirm Now?", "cancel", "/ask Tea? | Yes | No", "2"),
        *("/ask Tea? | Yes", "maybe", "/ask Tea? | Yes", "2", "2"),
    )
    assert page.agent == [
        *("Applied: once", "Applied: cancel", "Answer: No", "Answer: maybe", "Answer: 2"),
    ]
    assert [text.split("\n")[0] for text in page.of(Style.CARD)] == [
        *("Allow this command?", "Now?", "Tea?", "Tea?", "Tea?"),
    ]
    assert page.notices[1:] == [
        *("answered: Allow once", "answered: Cancel", "answered: No", "answered: Other answer"),
        *("in your own words:", "answered: Other answer"),
    ]


async def test_words_approve_nothing(piped, autojump_clock):
    """D23: what may be a message is no answer to an approval, and is not sent."""
    page = await piped("/run ls", "sure", "deny")
    assert "not sent: the card comes first; a number from 1 to 4" in page.notices
    assert page.agent == ["Applied: deny"]


async def test_a_card_left_at_the_end(piped, autojump_clock):
    """Nobody can answer it any more, so the chat does not wait for it, and says so."""
    page = await piped("/run ls")
    assert page.errors == ["a card is left unanswered"]
    assert trio.current_time() < 300


async def test_stop_is_no_answer(piped, autojump_clock):
    """D27: while a card is open, `/stop` goes to the server all the same."""
    page = await piped("/run ls", "/stop")
    assert page.notices[-1] == "the card was not answered in time, or was withdrawn"
    assert len(page.agent) == 1
    assert "topped" in page.agent[0]


async def test_an_agent_that_fails(piped, autojump_clock):
    """It is told, and the next line goes."""
    page = await piped("/fail", "hello")
    assert len(page.errors) == 1
    assert page.errors[0].startswith("internal_error: ")
    assert page.agent == ["hello"]


async def test_a_line_that_the_server_would_refuse(piped, autojump_clock):
    """It is told, and the next line goes."""
    page = await piped("x" * 12_001, "hello")
    assert page.errors == ["not sent: too_big: text: at most 12000 characters"]
    assert page.agent == ["hello"]


async def test_a_file_is_sent(piped, tmp_path, autojump_clock):
    """`/send`: of the kind that its name stands for, with its share on the way; quotes are taken off."""
    path = tmp_path / "a film.mp4"
    path.write_bytes(bytes(4 * MIB))
    agent = Recorder()
    page = await piped(f"/send {path}", f"/send '{path}'", agent=agent)
    assert [(each.kind, each.filename, len(each.data)) for each in agent.inputs] == [
        (MediaIn.VIDEO, "a film.mp4", 4 * MIB)
    ] * 2
    assert page.agent == ["noted", "noted"]
    assert "sending 75 %" in page.statuses


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/send /absent", "not sent: No such file or directory"),
        ("/send", "not sent: Is a directory"),
        ("/send ~nobody-at-all/x", "not sent: no such file"),
        ("/send a\0b", "not sent: no such file"),
        ("/send large", f"not sent: too_big: media: at most {MAX_MEDIA_BYTES} bytes"),
    ],
)
async def test_a_file_that_cannot_be_sent(piped, tmp_path, monkeypatch, autojump_clock, line, says):
    """It is told, and the next line goes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "large").write_bytes(bytes(MAX_MEDIA_BYTES + 1))
    page = await piped(line, "hello")
    assert page.errors == [says]
    assert page.agent == ["hello"]


async def test_files_are_saved(piped, tmp_path, autojump_clock):
    """With a notice, under a new name each; a file by link is told, and not fetched."""
    page = await piped("/document", "/document", "/link")
    first, second = tmp_path / "document.pdf", tmp_path / "document (2).pdf"
    assert first.read_bytes() == second.read_bytes()
    size = f"{first.stat().st_size:,}"
    assert page.notices[1:] == [
        f"document, {size} bytes: {first}",
        f"document, {size} bytes: {second}",
        "document: rfc6455.txt https://www.rfc-editor.org/rfc/rfc6455.txt",
    ]
    assert page.agent[0] == "A sample: document"


async def test_a_file_that_cannot_be_saved(piped, tmp_path, network, autojump_clock):
    """It is told, and the chat goes on."""
    (tmp_path / "file").write_text("no directory")
    page, reader = Page(), Reader("/image", "hello")
    reader.write.close()
    async with open_server() as server:
        person = partial(chat.follow_lines, reader, page)
        await converse(network(server), tmp_path / "file", page, person)
    assert page.errors == ["image not saved: File exists"]
    assert page.agent[-1] == "hello"


async def test_what_the_agent_writes_is_not_obeyed(piped, tmp_path, autojump_clock):
    """Neither its words nor its names move the cursor, or the file out of its folder."""

    async def script(turn):
        evil = "\x1b[2J\u202e"
        file = OutgoingFile(
            MediaOut.DOCUMENT, b"x", f"../../a{evil}.sh", "text/plain", caption=evil
        )
        await turn.send_file(file)
        async with turn.stream() as stream:
            await stream.update(evil)
        await turn.ask(evil, [evil])

    page = await piped("go", agent=Scripted(script))
    shown = "".join((*(text for text, _ in page.said), *page.grown))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    (saved,) = tmp_path.iterdir()
    assert saved.read_bytes() == b"x"


async def test_a_reconnection_in_the_middle_of_an_answer(network, tmp_path, autojump_clock):
    """The chat waits for the rest, also where the end of the turn was lost with the connection."""
    page, reader = Page(), Reader("one", "two")
    reader.write.close()
    person = partial(chat.follow_lines, reader, page)
    async with open_script() as script, trio.open_nursery() as nursery:
        nursery.start_soon(converse, network(script), tmp_path, page, person)
        connection = await script.welcome()
        one = await connection.expect(Text)
        await connection.send(Accepted(one.id), Typing(), Message("m1", "an answer"))
        await page.until_said("an answer")
        connection.stream.cut()
        connection = await script.welcome()
        ping = await connection.receive()
        await connection.send(f'{{"t":"pong","ts":{ping.ts.decode()}}}')
        two = await connection.expect(Text)
        await connection.send(Accepted(two.id), Message("m2", "another"))
    assert page.agent == ["an answer", "another"]
    assert page.notices[1:] == ["the connection was lost; connecting again", "connected again"]


async def test_what_was_sent_into_a_dead_connection_is_sent_again(
    network, tmp_path, autojump_clock
):
    """T9: the line is not lost, and keeps its id."""
    page, reader = Page(), Reader("hello")
    reader.write.close()
    person = partial(chat.follow_lines, reader, page)
    async with open_script() as script, trio.open_nursery() as nursery:
        nursery.start_soon(converse, network(script), tmp_path, page, person)
        connection = await script.welcome()
        first = await connection.expect(Text)
        connection.stream.cut()
        connection = await script.welcome()
        assert await connection.expect(Text) == first
        await connection.send(Accepted(first.id), Message("m1", "hello"))


# At a keyboard


async def test_lines_do_not_wait_for_answers(on_terminal, autojump_clock):
    """What is entered is shown and sent at once; the agent's state is told with it (D30)."""
    async with open_server() as server, on_terminal(server) as (page, type_keys):
        await page.until_said("connected")
        type_keys("/think 5\rhel")
        type_keys("lo\r")
        await page.until_said("Thought")
        await page.until(lambda: page.agent == ["Thought for 5 s.", "hello"])
        await page.until(lambda: page.statuses[-1] == "")
    assert page.of(Style.PERSON) == ["/think 5", "hello"]
    assert page.statuses[:4] == ["connecting", "", "thinking", "speaking"]
    assert page.refreshed > 0


async def test_a_stream_grows_in_place(on_terminal, autojump_clock):
    """D29: its states are shown as growing, and the last one stays."""
    async with open_server() as server, on_terminal(server) as (page, type_keys):
        type_keys("/stream 4\r")
        await page.until_said("Sentence 1 of a")
    assert page.grown == ["Sentence", "Sentence 1", "Sentence 1 of", ""]
    assert page.agent == ["Sentence 1 of a"]


async def test_pieces_are_one_message(on_terminal, autojump_clock):
    """D28: what was cut for the wire is shown whole."""
    async with open_server() as server, on_terminal(server) as (page, type_keys):
        type_keys("/long 8000\r")
        await page.until(lambda: page.agent)
    assert [len(text) for text in page.agent] == [8000]


async def test_a_loss_is_shown_and_what_is_written_meanwhile_is_sent(on_terminal, autojump_clock):
    """Once, with its reason; the attempts are counted in the prompt."""
    async with open_server() as server, on_terminal(server) as (page, type_keys):
        await page.until_said("connected")
        server.reachable = False
        server.streams[-1].cut()
        await page.until(lambda: "reconnecting (3)" in page.statuses)
        type_keys("hello\r")
        await trio.sleep(5)
        server.reachable = True
        await page.until(lambda: page.agent == ["hello"])
    assert page.notices[1:] == ["the connection was lost; connecting again", "connected again"]
    assert page.errors == []


async def test_leaving_without_a_connection(on_terminal, autojump_clock):
    """`/quit` does not wait for a server that is gone."""
    async with open_server() as server:
        async with on_terminal(server) as (page, type_keys):
            await page.until_said("connected")
            server.reachable = False
            server.streams[-1].cut()
            await page.until(lambda: "reconnecting (1)" in page.statuses)
            type_keys("hello\r")
        assert page.agent == []


async def test_ctrl_d_leaves(network, tmp_path, autojump_clock):
    """On an empty line; what was entered before is sent first."""
    page, reader, agent = Page(), Reader("hello\r", "\x04"), Recorder()
    async with open_server(agent) as server:
        person = partial(chat.follow_keys, reader, LineEditor(), page)
        network(server)
        page_open = partial(converse, server, tmp_path, page, person)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(page_open)
            await page.until_said("hello")
    assert page.of(Style.PERSON) == ["hello"]


async def test_two_cards(on_terminal, autojump_clock):
    """The older one is answered first, then the other one is shown again."""
    async with open_script() as script, on_terminal(script) as (page, type_keys):
        connection = await script.welcome()
        for number in (1, 2):
            card = cards.confirmation(f"p{number}", "s", f"Card {number}?", ("once",), 60.0)
            await connection.send(card.frame(0.0))
        await page.until_said("Card 2?")
        for number in (1, 2):
            type_keys("1\r")
            assert await connection.expect(PromptAnswer) == PromptAnswer(f"p{number}", "once")
            await connection.send(PromptDone(f"p{number}", "once"))
            await page.until(lambda: len(page.notices) == 1 + number)  # noqa: B023 - at once
    firsts = [text.split("\n")[0] for text in page.of(Style.CARD)]
    assert firsts == ["Card 1?", "Card 2?", "Card 2?"]


async def test_events_of_other_servers(on_terminal, autojump_clock):
    """An edit of what is whole is a message; an end of an unknown card is nothing (T8)."""
    async with open_script() as script, on_terminal(script) as (page, _):
        connection = await script.welcome()
        await connection.send(
            Message("m1", "first"),
            Message("m1", "second", edit=True),
            PromptDone("unknown", "once"),
            Error("bad_frame", "two\nlines"),
            Avatar(AvatarState.SPEAKING),
            Message("m2", "end"),
        )
        await page.until_said("end")
    assert page.agent == ["first", "second", "end"]
    assert page.errors == ["bad_frame: two lines"]


# How it ends


async def test_no_server_at_the_beginning(network, tmp_path, autojump_clock):
    """A chat that never was connected is given up at once; the command ends with 5."""
    page = Page()
    async with open_script() as script:
        script.reachable = False
        person = partial(chat.follow_lines, Reader("hello"), page)
        with pytest.raises(TransportError, match="not reachable"):
            await converse(network(script), tmp_path, page, person)


async def test_another_chat_takes_over(network, tmp_path, autojump_clock):
    """T4: it comes out of the chat; the command ends with 4, and says why."""
    page = Page()
    async with open_script() as script:

        async def replace():
            connection = await script.welcome()
            await connection.close(4001, "replaced")

        async with open_background() as beside:
            beside.start_soon(replace)
            person = partial(chat.follow_lines, Reader(), page)
            with pytest.raises(ReplacedError) as raised:
                await converse(network(script), tmp_path, page, person)
    error = remote.error_of(raised.value)
    assert (error.exit_code, error.message) == (4, "another instance connected as this device")


@pytest.mark.parametrize(
    "follow",
    [chat.follow_lines, lambda reader, *rest: chat.follow_keys(reader, LineEditor(), *rest)],
)
async def test_a_refusal(network, tmp_path, autojump_clock, follow):
    """T3: it comes out of the chat, whatever was being sent; the command ends with 4."""
    page = Page()
    async with open_server(allowed_devices=frozenset({"tablet"})) as server:
        person = partial(follow, Reader("hello\r"), page)
        with pytest.raises(AccessDeniedError):
            await converse(network(server), tmp_path, page, person)


@pytest.fixture
def run(monkeypatch):
    def invoke(*arguments, **environ):
        monkeypatch.setattr(os, "environ", environ)
        return CliRunner().invoke(main, ("chat", *arguments))

    return invoke


@pytest.mark.parametrize(
    ("arguments", "environ", "status", "says"),
    [
        ((), {}, 2, "the token comes from MOBILE_TOKEN"),
        (("--token", "x"), {}, 2, "No such option"),
        (("--device", "a\tb"), {"MOBILE_TOKEN": "t"}, 2, "no control characters"),
        (("--device", " "), {"MOBILE_TOKEN": "t"}, 2, "missing"),
        (("--url", "x"), {"MOBILE_TOKEN": "t"}, 2, "ws://host:port/path"),
        ((), {"MOBILE_TOKEN": "t", "MOBILE_PORT": "x"}, 78, "MOBILE_PORT must be"),
    ],
)
def test_wrong_use_of_chat(run, arguments, environ, status, says):
    """One line, before anything is connected."""
    result = run(*arguments, **environ)
    assert (result.exit_code, result.stdout) == (status, "")
    (line,) = result.stderr.splitlines()
    assert says in line


# Files


def received(filename, kind=MediaOut.DOCUMENT, mime="text/plain"):
    return ReceivedFile("f1", kind, mime, filename, 1, b"x")


@pytest.mark.parametrize(
    ("filename", "saved"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("..", "document.txt"),
        (".bashrc", "bashrc"),
        ("", "document.txt"),
        ("a.tar.gz", "a.tar.gz"),
        ("世" * 100 + ".txt", "世" * 66 + ".txt"),
        ("a." + "b" * 150, "a." + "b" * 150),
    ],
)
def test_the_name_of_a_saved_file(tmp_path, filename, saved):
    """D18: nothing but a name, visible, and not too long for a file system."""
    assert save(tmp_path / "new", received(filename)) == tmp_path / "new" / saved


def test_nothing_is_overwritten(tmp_path):
    """Neither a file nor what a link points to."""
    (tmp_path / "a.txt").symlink_to(tmp_path / "target")
    assert save(tmp_path, received("a.txt")).name == "a (2).txt"
    assert save(tmp_path, received("a.txt")).name == "a (3).txt"
    assert not (tmp_path / "target").exists()


async def test_reading(tmp_path):
    """Characters cut by a read are put together, lines at their ends; what is no UTF-8 is replaced."""
    path = tmp_path / "input"
    path.write_bytes("é".encode() * chat.READ_BYTES + b"\nx\xff\n\nend")
    with path.open("rb") as file:
        reader = chat.TextReader(file.fileno())
        lines = [await reader.read_line() for _ in range(5)]
    assert lines == ["é" * chat.READ_BYTES, "x\ufffd", "", "end", None]
