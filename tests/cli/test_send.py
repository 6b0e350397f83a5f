"""`hermes-mobile send`: what reaches the device, and the exit status. The server is in memory."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import define, field
from click.testing import CliRunner

from hermes_mobile.cli import main, remote, send
from hermes_mobile.client import MediaOut, Message, ReceivedFile
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB
from hermes_mobile.server.listeners import accept, serve_courier
from hermes_mobile.server.socket_file import open_socket_file
from hermes_mobile.server.stream import SocketStream
from hermes_mobile.server.values import Token
from hermes_mobile.testing import open_server

TOKEN = "an-app-token-of-tests"
DELIVER = "a-deliver-token-of-tests"
TO = ("--to", "mobile:phone")
UNREADABLE = "/proc/self/mem"
"""A file that is there, and whose beginning nobody can read."""


@define
class House:
    """A server, and the phone that the command delivers to, for the length of the command."""

    monkeypatch: pytest.MonkeyPatch
    settings: dict = field(factory=lambda: {"token": TOKEN})
    phone_is_there: bool = True
    reachable: bool = True
    socket: Path | None = None
    """Where the server has its socket for deliveries."""
    dialled: list = field(factory=list)
    received: list = field(factory=list)
    """What the phone got; without the phone, what it gets when it comes."""

    def run(self, work):
        return trio.run(self._run, work)

    async def _run(self, work):
        async with open_server(**self.settings) as server, AsyncExitStack() as stack:

            async def open_stream(endpoint):
                self.dialled.append(f"{endpoint.header}{endpoint.path}")
                return await server.open_stream(endpoint)

            self.monkeypatch.setattr(send, "over_tcp", lambda _: open_stream)
            if self.socket is not None:
                listener = stack.enter_context(open_socket_file(self.socket, 0o600))
                serve_peer = partial(serve_courier, server._hub)
                spawn = server._connections
                plain_stream = partial(SocketStream, write_timeout=30.0)
                spawn.start_soon(accept, listener, serve_peer, plain_stream, spawn)
            phone = server.open_client()
            if self.phone_is_there:
                client = await stack.enter_async_context(phone)
                await client.wait_ready()
            server.reachable = self.reachable
            try:
                await work()
            finally:
                server.reachable = True
                if not self.phone_is_there:
                    client = await stack.enter_async_context(phone)
                await client.send_text("end")
                await self._note(client)

    async def _note(self, client):
        async for event in client:
            match event:
                case Message(text="end"):
                    return
                case Message() | ReceivedFile():
                    self.received.append(event)


@pytest.fixture
def house(monkeypatch):
    house = House(monkeypatch)
    monkeypatch.setattr(remote, "run", house.run)
    return house


@pytest.fixture
def run(monkeypatch):
    """Run `send` in an environment of the given variables, or of the app token alone."""

    def invoke(*arguments, input=None, **environ):
        monkeypatch.setattr(os, "environ", environ or {"MOBILE_TOKEN": TOKEN})
        return CliRunner().invoke(main, ("send", *arguments), input=input)

    return invoke


def error_line(result, status):
    assert (result.exit_code, result.stdout) == (status, ""), result.stderr
    (line,) = result.stderr.splitlines()
    return line


def assert_silent_success(result):
    assert (result.exit_code, result.output) == (0, "")


def test_a_text_is_delivered(house, run):
    """Silence and 0 say that the device has it (D25)."""
    assert_silent_success(run(*TO, "The backup is done."))
    assert [message.text for message in house.received] == ["The backup is done."]
    assert house.dialled == ["127.0.0.1:8787/ws"]


def test_standard_input(house, run):
    """`-` reads the text from there, without the line break that ends it."""
    assert_silent_success(run(*TO, "-", input="one\ntwö\n".encode()))
    assert [message.text for message in house.received] == ["one\ntwö"]


def test_a_long_text_goes_as_several(house, run):
    """Above 12,000 characters it is several messages, which give the text back when joined."""
    text = "".join(f"Line {n} of many.\n" for n in range(2000))
    assert_silent_success(run(*TO, "-", input=text + "\n"))
    assert "".join(message.text for message in house.received) == text
    assert len({message.id for message in house.received}) == 4


def test_a_blank_rest_is_no_message(house, run):
    """White space that a cut leaves alone is not delivered: the server would refuse it (D15)."""
    assert_silent_success(run(*TO, "x" * 12_000 + "\n" * 5_000))
    assert "".join(message.text for message in house.received) == "x" * 12_000


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.png", MediaOut.IMAGE),
        ("a.gif", MediaOut.ANIMATION),
        ("a.mp4", MediaOut.VIDEO),
        ("a.ogg", MediaOut.VOICE),
        ("a.mp3", MediaOut.VOICE),
        ("a.pdf", MediaOut.DOCUMENT),
        ("README", MediaOut.DOCUMENT),
    ],
)
def test_the_kind_of_a_file_is_guessed(house, run, tmp_path, name, kind):
    """From the type that its name stands for."""
    path = tmp_path / name
    path.write_bytes(b"data")
    assert_silent_success(run(*TO, "--file", str(path)))
    (file,) = house.received
    assert (file.kind, file.filename, file.data) == (kind, name, b"data")


def test_a_file_with_a_text(house, run, tmp_path):
    """`--kind` wins over the guess; the file comes behind the last piece of the text."""
    path = tmp_path / "chart.png"
    path.write_bytes(b"data")
    assert_silent_success(run(*TO, "--file", str(path), "--kind", "document", "x" * 12_001))
    *texts, file = house.received
    assert sum(len(message.text) for message in texts) == 12_001
    assert file.kind is MediaOut.DOCUMENT


def test_a_device_that_is_away(house, run):
    """3, in one line; nothing is left for it."""
    house.phone_is_there = False
    line = error_line(run(*TO, "hello"), 3)
    assert line == "Error: device offline: target: mobile:phone is not online"
    assert house.received == []


def test_keep(house, run):
    """D25: with `--keep` 0 says that the server keeps it, and the device gets it when it comes."""
    house.phone_is_there = False
    assert_silent_success(run(*TO, "--keep", "hello"))
    assert [message.text for message in house.received] == ["hello"]


def test_the_home_device(house, run):
    """D25: without `--to` it is the server's; where it has none, that is a refusal."""
    refusal = error_line(run("hello"), 4)
    assert refusal == "Error: refused: bad_frame: target: missing, and no home device is set"
    house.settings["home_device"] = "phone"
    assert_silent_success(run("hello"))
    assert [message.text for message in house.received] == ["hello"]


def test_a_deliver_token_goes_first(house, run):
    """D26: it delivers where the app token may not, and needs no place on the allow-list."""
    house.settings |= {
        "deliver_tokens": frozenset({DELIVER}),
        "deliver_loopback": False,
        "allowed_devices": frozenset({"phone"}),
    }
    assert_silent_success(
        run(*TO, "hello", MOBILE_TOKEN="another", MOBILE_DELIVER_TOKENS=f"{DELIVER},")
    )
    assert [message.text for message in house.received] == ["hello"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"deliver_loopback": False}, "refused: forbidden: "),
        ({"allowed_devices": frozenset({"phone"})}, "the server refuses this app: auth_failed"),
        (
            {"token": None, "extra_tokens": (Token(TOKEN, "tablet"), Token("t"))},
            "the server refuses this app: forbidden",
        ),
    ],
)
def test_an_app_token_that_may_not_deliver(house, run, settings, says):
    """D8, D9, D26: it ends with 4, and says that a deliver token is the way."""
    house.settings |= settings
    if house.settings["token"] is None:
        house.settings["token"] = "of-the-phone"
    line = error_line(run(*TO, "hello"), 4)
    assert line.startswith(f"Error: {says}")
    assert line.endswith("MOBILE_DELIVER_TOKENS anyone may deliver")
    assert house.received == []


def make_socket(directory):
    """The file of a socket that nobody listens on; the server of the house replaces it."""
    path = directory / "deliver.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    return path


def test_the_socket_for_deliveries(house, run, tmp_path):
    """D26: where it is there no token is needed, nor a port; what is wrong with them does not matter."""
    house.socket = make_socket(tmp_path)
    house.settings |= {"allowed_devices": frozenset({"phone"}), "deliver_loopback": False}
    house.reachable = False
    environ = {"MOBILE_DELIVER_SOCKET": str(house.socket), "MOBILE_PORT": "0"}
    assert_silent_success(run(*TO, "hello", **environ))
    make_socket(tmp_path)
    assert_silent_success(run(*TO, "hello", **environ, MOBILE_TOKEN="wrong"))
    assert [message.text for message in house.received] == ["hello", "hello"]
    assert house.dialled == []


def test_an_option_says_which_server(house, run, tmp_path):
    """With `--url` or `--token-file` it does not go over the socket."""
    house.socket = make_socket(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    environ = {"MOBILE_DELIVER_SOCKET": str(house.socket), "MOBILE_TOKEN": TOKEN}
    assert_silent_success(run(*TO, "--url", "ws://there.test/ws", "hello", **environ))
    make_socket(tmp_path)
    assert_silent_success(run(*TO, "--token-file", str(tmp_path / "token"), "hello", **environ))
    assert house.dialled == ["there.test/ws", "127.0.0.1:8787/ws"]


def test_a_socket_that_is_not_there(house, run, tmp_path):
    """Then it goes to the port, with a token."""
    environ = {"MOBILE_DELIVER_SOCKET": str(tmp_path / "none"), "MOBILE_TOKEN": TOKEN}
    assert_silent_success(run(*TO, "hello", **environ))
    assert house.dialled == ["127.0.0.1:8787/ws"]


def test_the_socket_of_an_installed_service(house, run, tmp_path, monkeypatch):
    """It is found where the unit puts it by who has no token; who has one means another server."""
    monkeypatch.setattr(remote, "SERVICE_RUNTIME", tmp_path)
    monkeypatch.setattr(remote, "SERVICE_DELIVER", tmp_path / "none")
    house.socket = make_socket(tmp_path)
    assert_silent_success(run(*TO, "hello", PATH="/bin"))
    assert house.dialled == []
    make_socket(tmp_path)
    assert_silent_success(run(*TO, "hello", MOBILE_TOKEN=TOKEN))
    assert house.dialled == ["127.0.0.1:8787/ws"]


def test_a_socket_that_nobody_listens_on(house, run, tmp_path):
    """5: the server has ended without removing it."""
    path = make_socket(tmp_path)
    line = error_line(run(*TO, "hello", MOBILE_DELIVER_SOCKET=str(path)), 5)
    assert line == f"Error: no server: cannot connect: {path}: Connection refused"


def test_a_wrong_token(house, run):
    """4, and the token is not in the message."""
    line = error_line(run(*TO, "hello", MOBILE_TOKEN="not-this-one"), 4)
    assert "auth_failed" in line
    assert "not-this-one" not in line


def test_a_token_from_a_file(house, run, tmp_path):
    """`--token-file` wins over the environment."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    wrong = {"MOBILE_TOKEN": "wrong", "MOBILE_DELIVER_TOKENS": "wrong-too"}
    assert_silent_success(run(*TO, "--token-file", str(path), "hello", **wrong))


def test_no_server(house, run):
    """5, in one line."""
    house.reachable = False
    line = error_line(run(*TO, "hello"), 5)
    assert line == "Error: no server: cannot connect: the server is not reachable"


@pytest.mark.parametrize(
    ("arguments", "environ", "address"),
    [
        ((), {"MOBILE_PORT": "9000", "MOBILE_PATH": "/app"}, "127.0.0.1:9000/app"),
        ((), {"MOBILE_HOST": "0.0.0.0"}, "127.0.0.1:8787/ws"),  # noqa: S104 - to be replaced
        ((), {"MOBILE_HOST": "::"}, "[::1]:8787/ws"),
        ((), {"MOBILE_HOST": "192.0.2.1"}, "192.0.2.1:8787/ws"),
        ((), {"MOBILE_HOST": "agent.test"}, "agent.test:8787/ws"),
        (("--url", "wss://agent.test/ws"), {"MOBILE_PORT": "9000"}, "agent.test/ws"),
    ],
)
def test_where_the_server_is(house, run, arguments, environ, address):
    """Where the same settings make `serve` listen, under an address that can be dialled; or `--url`."""
    run(*TO, *arguments, "hello", MOBILE_TOKEN=TOKEN, **environ)
    assert house.dialled == [address]


def test_another_path(house, run):
    """What answers, and is no server of the protocol, is no server."""
    line = error_line(run(*TO, "hello", MOBILE_TOKEN=TOKEN, MOBILE_PATH="/elsewhere"), 5)
    assert line == "Error: no server: the server answered HTTP 404"


def test_settings_from_a_file(house, run, tmp_path):
    """`--config`: the settings of the server are enough to reach it."""
    config = tmp_path / "mobile.toml"
    config.write_text(f"port = 9000\ntoken = '{TOKEN}'\n")
    assert_silent_success(run(*TO, "--config", str(config), "hello", MOBILE_AGENT="demo"))
    assert house.dialled == ["127.0.0.1:9000/ws"]


@pytest.mark.parametrize(
    ("arguments", "environ", "status", "says"),
    [
        ((), {"MOBILE_TOKEN": TOKEN}, 2, "nothing to deliver"),
        ((" ",), {"MOBILE_TOKEN": TOKEN}, 2, "nothing to deliver"),
        (("--kind", "image", "hi"), {"MOBILE_TOKEN": TOKEN}, 2, "--kind: there is no --file"),
        (("--file", "/absent"), {"MOBILE_TOKEN": TOKEN}, 2, "does not exist"),
        (("--file", UNREADABLE), {"MOBILE_TOKEN": TOKEN}, 2, "--file cannot be read: "),
        (("--token-file", UNREADABLE, "hi"), {}, 78, "--token-file cannot be read: "),
        (("--url", "http://agent.test", "hi"), {"MOBILE_TOKEN": TOKEN}, 2, "ws://host:port/path"),
        (("--token", TOKEN, "hi"), {}, 2, "No such option"),
        (("hi",), {"MOBILE_PORT": "8787"}, 2, "the token comes from MOBILE_TOKEN"),
        (("hi",), {"MOBILE_TOKEN": TOKEN, "MOBILE_PORT": "x"}, 78, "MOBILE_PORT must be"),
        (("hi",), {"MOBILE_TOKEN": TOKEN, "MOBILE_PORT": "0"}, 78, "--url says which one"),
    ],
)
def test_wrong_use_of_send(house, run, arguments, environ, status, says):
    """One line, and nobody is called."""
    assert says in error_line(run(*TO, *arguments, **environ), status)
    assert house.dialled == []


def test_a_wrong_address(house, run):
    """`--to` takes `mobile:<id>` or the bare id."""
    assert "mobile:<device id>" in error_line(run("--to", "mobile:", "hi"), 2)


@pytest.mark.parametrize(
    ("size", "says"), [(0, "an empty file"), (MAX_MEDIA_BYTES + 1, "at most 8 MiB")]
)
def test_a_file_that_cannot_go(house, run, tmp_path, size, says):
    """It is refused before anybody is called."""
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    assert says in error_line(run(*TO, "--file", str(path)), 2)
    assert house.dialled == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "must be a token"),
        (b"\xff", "a file of UTF-8 text"),
        (b"two words", "must be a token"),
    ],
)
def test_a_token_file_without_a_token(house, run, tmp_path, content, says):
    """78, and what is in the file is not shown."""
    path = tmp_path / "token"
    path.write_bytes(content)
    line = error_line(run(*TO, "--token-file", str(path), "hi"), 78)
    assert says in line
    assert "words" not in line


def test_input_that_is_no_text(house, run):
    """Bytes that are not UTF-8 are not delivered as something else."""
    assert "not UTF-8" in error_line(run(*TO, "-", input=b"\xff"), 2)


def test_a_large_file(house, run, tmp_path):
    """Where no terminal shows it, its progress is not told."""
    path = tmp_path / "film.mp4"
    path.write_bytes(bytes(8 * MIB))
    assert_silent_success(run(*TO, "--file", str(path)))
    assert len(house.received[0].data) == 8 * MIB


@pytest.mark.parametrize(
    ("number", "ending", "status"),
    [(signal.SIGINT, KeyboardInterrupt, None), (signal.SIGTERM, SystemExit, 143)],
)
async def test_signals(number, ending, status):
    """They end the work where it waits, let it clean up, and come out in no group."""
    cleaned_up = False

    async def work():
        nonlocal cleaned_up
        signal.raise_signal(number)
        try:
            await trio.sleep_forever()
        finally:
            cleaned_up = True

    with pytest.raises(ending) as raised:
        await remote.until_signal(work)
    assert cleaned_up
    assert getattr(raised.value, "code", None) == status
