"""`send` and `chat` as processes; `chat` in a pseudo-terminal, whose screen is read as a person would."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import termios
from functools import partial

import pexpect
import pyte
import pytest
import trio

from street import PATIENCE, TOKEN, environment

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "hermes_mobile")
MIB = 1 << 20


def run(server, *arguments, input=None, **environ):
    """Run a command to its end, against `server`."""
    settings = {"MOBILE_TOKEN": TOKEN, "MOBILE_PORT": server.port} | environ
    return subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *arguments],
        env=environment(**settings),
        input=input,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Terminal:
    """A command in a terminal of 80 columns and 24 lines."""

    def __init__(self, port, *arguments, **environ) -> None:
        settings = {"MOBILE_TOKEN": TOKEN, "MOBILE_PORT": port, "TERM": "xterm"} | environ
        self.process = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], *arguments],
            env=environment(**settings),
            dimensions=(24, 80),
            timeout=PATIENCE,
            echo=True,
        )
        self.process.delaybeforesend = None
        self.modes = termios.tcgetattr(self.process.child_fd)
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""

    @property
    def rows(self) -> list[str]:
        """What is to be seen, without what is empty at the end."""
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip("\n").split("\n")

    def type(self, keys: str) -> None:
        self.process.send(keys)

    def until(self, happened) -> list[str]:
        """Read until the screen shows something; the screen."""
        while not happened(self.rows):
            self._read()
        return self.rows

    def until_seen(self, pattern: str) -> list[str]:
        return self.until(lambda rows: any(re.search(pattern, row) for row in rows))

    def end(self) -> int:
        """Read to the end; the exit status, negative for a signal."""
        try:
            while True:
                self._read()
        except pexpect.EOF:
            self.process.wait()
        status = self.process.exitstatus
        return -self.process.signalstatus if status is None else status

    def _read(self) -> None:
        try:
            data = self.process.read_nonblocking(1 << 16, PATIENCE)
        except pexpect.TIMEOUT:
            raise AssertionError("\n".join(self.rows)) from None
        self.written += data
        self._stream.feed(data)


@pytest.fixture
def open_terminal():
    terminals = []

    def start(*arguments, **environ):
        terminals.append(Terminal(*arguments, **environ))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.process.close(force=True)


@pytest.fixture
def open_chat(serve, open_terminal, tmp_path):
    """A chat in a terminal, connected to a server."""

    def start(*arguments, **environ):
        server = serve()
        terminal = open_terminal(
            server.port, "chat", "--save", str(tmp_path), *arguments, **environ
        )
        terminal.until_seen("^· connected as mobile:")
        return terminal

    return start


# send


async def test_send_as_a_process(serve):
    """A text from standard input reaches the device, and the status is 0."""
    server = serve()
    async with server.connect("phone") as phone:
        command = partial(run, server, "send", "--to", "mobile:phone", "-", input="täglich\n")
        done = await trio.to_thread.run_sync(command)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (await phone.expect("message"))["text"] == "täglich"


def test_the_statuses_of_send(serve):
    """Offline 3, refused 4, no server 5, wrong use 2: one line each, and no traceback."""
    server = serve()
    send = partial(run, server, "send", "--to", "mobile:phone", "hello")
    for status, done in {
        3: send(),
        4: send(MOBILE_TOKEN="wrong"),
        5: send(MOBILE_PORT=1),
        2: send("--kind", "image"),
        0: send("--keep"),
    }.items():
        assert done.returncode == status, done.stderr
        assert done.stdout == ""
        assert done.stderr.count("\n") == (status > 0)


def test_send_shows_the_progress_of_a_large_file(serve, open_terminal, tmp_path):
    """On a terminal, and up to its end."""
    path = tmp_path / "film.mp4"
    path.write_bytes(bytes(8 * MIB))
    terminal = open_terminal(
        serve().port, *("send", "--to", "phone", "--keep", "--file", str(path))
    )
    assert terminal.end() == 0
    assert terminal.rows == [f"Sending  [{'#' * 36}]  100%"]


def test_send_is_interrupted(open_terminal):
    """Ctrl-C ends it with 130, without a traceback, when a server does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        terminal = open_terminal(server.getsockname()[1], "send", "--to", "phone", "hello")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1)
            terminal.process.sendintr()
            assert terminal.end() == 130
    assert "Traceback" not in terminal.written.decode()


# chat in a pipe


def test_chat_in_a_pipe(serve, tmp_path):
    """Replies on standard output, all else on standard error; no code of a terminal in either."""
    server = serve()
    lines = "hello\n/stream 3\n/run ls\n1\n/image\n"
    done = run(server, "chat", "--device", "pipe", "--save", str(tmp_path), input=lines)
    assert done.returncode == 0
    assert done.stdout.split("\n") == [
        *("hello", "Sentence 1 of", "? Allow this command?", "  │ ls"),
        "  The demo agent only asks: nothing is executed.",
        *("  1  Allow once", "  2  Allow for this session", "  3  Always allow", "  4  Deny"),
        "  (answer with a number from 1 to 4, within 300 s)",
        *("Applied: once", "A sample: image", ""),
    ]
    assert done.stderr.split("\n") == [
        "· connected as mobile:pipe; /send PATH sends a file, /quit leaves",
        "· answered: Allow once",
        f"· image, 3,152 bytes: {tmp_path / 'image.png'}",
        "",
    ]


@pytest.mark.parametrize(
    ("environ", "status"), [({"MOBILE_TOKEN": "wrong"}, 4), ({"MOBILE_PORT": 1}, 5)]
)
def test_chat_that_cannot_begin(serve, environ, status):
    """4 for a refusal, 5 without a server, in one line; also with nothing to say."""
    done = run(serve(), "chat", input="", **environ)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)


# chat in a terminal


def test_an_edit_is_seen_in_place(open_chat):
    """A stream grows on its row, above the prompt, and leaves one message."""
    terminal = open_chat()
    terminal.type("/stream 12\r")
    seen = terminal.until_seen("^Sentence 1 of a$")
    assert seen[-2] == "Sentence 1 of a"
    rows = terminal.until_seen("^Sentence 1 of a hundred stands in its place. Sentence 2 of$")
    assert sum(row.startswith("Sentence") for row in rows) == 1
    assert rows[1:3] == ["> /stream 12", rows[2]]


def test_typing_is_not_disturbed(open_chat):
    """What is being written stays while a reply grows; the state of the agent is in the prompt."""
    terminal = open_chat()
    terminal.type("/stream 30\r")
    terminal.type("half a li")
    rows = terminal.until_seen(r"^Sentence 1 of a hundred.*Sentence 2")
    assert rows[-1] == "speaking > half a li"
    terminal.type("ne\r")
    terminal.until_seen("^half a line$")


def test_a_card_is_answered(open_chat):
    """The command is shown exactly, a number answers, and what counts is told."""
    terminal = open_chat()
    terminal.type("/run printf '\\e[2J'  世界\r")
    terminal.until_seen(r"^  │ printf '\\e\[2J'  世 ?界")
    terminal.until(lambda rows: rows[-1] == "your answer >")
    terminal.type("what?\r")
    terminal.until_seen("^· not sent: the card comes first")
    terminal.type("4\r")
    terminal.until_seen("^· answered: Deny")
    terminal.until_seen("^Applied: deny")


def test_files_go_both_ways(open_chat, tmp_path):
    """`/send` and a received one, with a notice of where it is."""
    path = tmp_path / "to send.txt"
    path.write_bytes(b"content")
    terminal = open_chat()
    terminal.type(f"/send {path}\r")
    terminal.until_seen("^name: to send.txt")
    terminal.type("/animation\r")
    terminal.until_seen("^· animation, [0-9,]+ bytes: ")
    assert (tmp_path / "animation.gif").read_bytes().startswith(b"GIF8")


def test_ctrl_c(open_chat):
    """It ends with 130, without a traceback, and leaves the terminal as it was."""
    terminal = open_chat()
    assert termios.tcgetattr(terminal.process.child_fd) != terminal.modes
    terminal.type("/stream 20\rnever sent")
    terminal.until_seen("^Sentence 1 of")
    terminal.process.sendintr()
    assert terminal.end() == 130
    assert_sane(terminal)


@pytest.mark.parametrize("keys", ["/quit\r", "\x04"])
def test_leaving(open_chat, keys):
    """With 0, and the terminal is as it was."""
    terminal = open_chat()
    terminal.type(keys)
    assert terminal.end() == 0
    assert_sane(terminal)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_chat_is_terminated(open_chat, number, status):
    """The terminal is left as it was then, too."""
    terminal = open_chat()
    terminal.process.kill(number)
    assert terminal.end() == status
    assert_sane(terminal)


def test_another_chat_takes_the_device(serve, open_terminal, tmp_path):
    """T4: the older one ends with 4 and says why, in one line below what was said."""
    server = serve()
    older = open_terminal(server.port, "chat", "--device", "desk")
    older.until_seen("connected")
    newer = open_terminal(server.port, "chat", "--device", "desk")
    newer.until_seen("connected")
    assert older.end() == 4
    assert older.rows[-1] == "Error: another instance connected as this device"
    assert_sane(older)


def test_a_server_that_restarts_is_seen(serve, open_terminal):
    """The loss and the return are told, and what was written meanwhile is answered."""
    server = serve()
    terminal = open_terminal(server.port, "chat")
    terminal.until_seen("^· connected")
    server.terminate()
    server.wait()
    terminal.until_seen(r"^reconnecting \(\d+\) >")
    terminal.type("hello\r")
    serve(MOBILE_PORT=server.port)
    terminal.until_seen("^· connected again")
    terminal.until_seen("^hello")


def test_wide_characters_and_edits_of_the_line(open_chat):
    """UTF-8 in both directions, and the cursor where the character is."""
    terminal = open_chat()
    terminal.type("世界é!\x1b[D\x1b[D\x1b[D")
    terminal.until(lambda rows: rows[-1].startswith("> 世"))
    terminal.until(lambda _: terminal.screen.cursor.x == 4)
    terminal.type("\x7f日\r")
    terminal.until_seen("^日界é!")


def test_another_window(open_chat):
    """A change of its size is drawn at once."""
    terminal = open_chat()
    terminal.type("x" * 60)
    terminal.until(lambda rows: rows[-1] == "> " + "x" * 60)
    terminal.screen.resize(columns=40)
    terminal.process.setwinsize(24, 40)
    terminal.until(lambda rows: rows[-1] == "> " + "x" * 37)


def test_no_colour(open_chat):
    """NO_COLOR is obeyed."""
    terminal = open_chat(NO_COLOR="1")
    terminal.type("/quit\r")
    terminal.end()
    assert not re.search(rb"\x1b\[[0-9;]*m", terminal.written)


def assert_sane(terminal) -> None:
    assert "Traceback" not in terminal.written.decode()
    assert terminal.written.endswith(b"\x1b[?2004l") or b"\x1b[?2004lError: " in terminal.written
    assert terminal.screen.cursor.x == 0
    assert termios.tcgetattr(terminal.process.child_fd) == terminal.modes
