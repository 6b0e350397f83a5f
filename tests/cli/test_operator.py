"""`pair`, `devices`, `revoke` and `status`: with a server, in this process, and without one."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import threading
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from attrs import define, field
from click import ClickException
from click.testing import CliRunner

from hermes_mobile import __version__
from hermes_mobile.cli import main, operator, pair, remote, status
from hermes_mobile.http import exposition
from hermes_mobile.http.lag import LoopLag
from hermes_mobile.server import access_file
from hermes_mobile.server.access_file import open_devices
from hermes_mobile.server.admin import AdminSide
from hermes_mobile.server.devices import Credential, KnownDevice
from hermes_mobile.server.hub import Address
from hermes_mobile.server.listeners import accept
from hermes_mobile.server.socket_file import open_socket_file
from hermes_mobile.server.stream import SocketStream
from house import TOKEN, open_house

PHONE = KnownDevice("phone", "Anna's phone", "ios", 1_796_056_980, (Credential.of("t"),))


@define
class Station:
    """Where commands find a server, if one `runs`, or else the state that it left."""

    directory: Path
    monkeypatch: pytest.MonkeyPatch
    runs: bool = True
    environ: dict = field(factory=dict)
    settings: dict = field(factory=dict)
    there: tuple = ()
    """The devices that are connected."""
    closed: dict = field(factory=dict)
    """How the connections of those ended that the command closed."""

    def __call__(self, *arguments):
        environ = {"MOBILE_STATE_DIR": str(self.directory)} | self.environ
        self.monkeypatch.setattr(os, "environ", environ)
        return CliRunner().invoke(main, arguments)

    def run(self, work):
        return trio.run(self._run, work)

    async def _run(self, work):
        if not self.runs:
            return await work()
        result = refusal = None
        async with AsyncExitStack() as stack:
            devices = await stack.enter_async_context(open_devices(self.directory))
            house = await stack.enter_async_context(open_house(devices=devices, **self.settings))
            house.hub.address = Address("127.0.0.1", 8787, "/ws")
            listener = stack.enter_context(open_socket_file(self.directory / "admin.sock", 0o600))

            async def serve_peer(stream, address):
                await AdminSide().serve(house.hub, stream, address)

            open_stream = partial(SocketStream, write_timeout=30.0)
            house.nursery.start_soon(accept, listener, serve_peer, open_stream, house.nursery)
            peers = {device: await house.connect(device) for device in self.there}
            try:
                result = await work()
            except ClickException as error:
                refusal = error  # as it is, not in the groups of this house's nurseries
            await trio.testing.wait_all_tasks_blocked()
            for device, peer in peers.items():
                if house.hub.registry.get(device) is None:
                    self.closed[device] = await peer.wait_closed()
        if refusal is not None:
            raise refusal
        return result


@pytest.fixture
def station(tmp_path, monkeypatch):
    station = Station(tmp_path, monkeypatch)
    monkeypatch.setattr(remote, "run", station.run)
    monkeypatch.setattr(remote, "SERVICE_RUNTIME", tmp_path / "run")
    monkeypatch.setattr(operator, "SERVICE_STATE", tmp_path / "no-service")
    return station


def known(station) -> list[KnownDevice]:
    async def look():
        async with open_devices(station.directory) as devices:
            return list(devices)

    return trio.run(look)


def remember(station, *devices: KnownDevice) -> None:
    async def write():
        async with operator.open_devices(station.directory) as store:
            await store._store.write(devices)

    trio.run(write)


def error_line(result, status):
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    (line,) = result.stderr.splitlines()
    return line


# pair


@pytest.mark.parametrize("runs", [True, False])
def test_pair(station, runs):
    """With a server and without: the token is shown once, and only its digest is kept."""
    station.runs = runs
    result = station("pair", "--device", "mobile:tel-1", "--url", "wss://a.test/ws", "--name", "A")
    assert (result.exit_code, result.stderr) == (0, "")
    url, device, token = (line.split() for line in result.stdout.splitlines())
    assert (url, device, token[0]) == (["url", "wss://a.test/ws"], ["device", "tel-1"], "token")
    assert known(station) == [KnownDevice("tel-1", "A", tokens=(Credential.of(token[1]),))]


@pytest.mark.parametrize("runs", [True, False])
def test_pairing_anew(station, runs):
    """The tokens before stay, unless they are replaced."""
    station.runs = runs
    remember(station, PHONE)
    for arguments, count in (((), 2), ((), 3), (("--replace",), 1)):
        assert station("pair", "--device", "phone", *arguments).exit_code == 0
        assert len(known(station)[0].tokens) == count
    assert known(station)[0].name == "Anna's phone"


@pytest.mark.parametrize("runs", [True, False])
def test_the_url_by_default(station, runs):
    """It is where the server listens, with a warning if no phone gets there."""
    station.runs = runs
    result = station("pair", "--device", "phone")
    assert result.stdout.startswith("url     ws://127.0.0.1:8787/ws\n")
    assert result.stderr == "warning: only this machine reaches this url: --url says another\n"


@pytest.mark.parametrize("runs", [True, False])
def test_a_device_that_is_on_no_list(station, runs):
    """D9: it is warned about."""
    station.runs = runs
    station.settings["allowed_devices"] = frozenset({"tablet"})
    station.environ["MOBILE_ALLOWED_DEVICES"] = "tablet"
    result = station("pair", "--device", "phone", "--url", "wss://a.test/ws")
    assert result.stderr == "warning: MOBILE_ALLOWED_DEVICES lacks phone: it will be refused\n"


@pytest.mark.parametrize("runs", [True, False])
def test_too_many_tokens(station, runs):
    """4, in one line."""
    station.runs = runs
    remember(station, KnownDevice("p", tokens=tuple(Credential.of(f"{n}") for n in range(16))))
    line = error_line(station("pair", "--device", "p"), 4)
    assert line == "Error: p has 16 tokens: --replace withdraws them"


def test_the_qr_code(monkeypatch):
    """It holds all three, fits in 80 columns, and has its own colours."""
    content = pair.code("wss://agent.example.com/ws?a=b", "телефон & co", "to-ken_")
    assert "+" not in content
    split = urlsplit(content)
    assert (split.scheme, split.netloc) == ("hermes-mobile", "pair")
    assert parse_qs(split.query) == {
        "url": ["wss://agent.example.com/ws?a=b"],
        "device": ["телефон & co"],
        "token": ["to-ken_"],
    }
    monkeypatch.setattr(pair.sys, "stdout", open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    with pair.sys.stdout:
        rows = pair.drawn(content).split("\n")
    assert all(re.fullmatch("\x1b\\[97;40m[ ▀▄█]{41,80}\x1b\\[0m", row) for row in rows)


def test_the_qr_code_without_blocks(monkeypatch):
    """A terminal that has none gets spaces in two colours."""
    monkeypatch.setattr(pair.sys, "stdout", open(os.devnull, "w", encoding="ascii"))  # noqa: PTH123, SIM115
    with pair.sys.stdout:
        assert set(pair.drawn("x")) == set(" \n\x1b[0m7m49m")


# devices


def test_devices(station):
    """A table, with what devices call themselves made fit for a terminal."""
    remember(station, PHONE, KnownDevice("t", "\x1b[2J日本", revoked=True), KnownDevice("new"))
    station.there = ("phone",)
    station.settings["token"] = TOKEN
    station.runs = False
    seen = re.compile(r"  \d{4}-\d\d-\d\d \d\d:\d\d  ")
    lines = station("devices").stdout.splitlines()
    assert [re.sub(r"  +", "  ", seen.sub("  then  ", line)) for line in lines] == [
        "device  name  platform  state  last seen  tokens  kept",
        "phone  Anna's phone  ios  away  then  1  0",
        "t  <U+001B>[2J日本  -  revoked  never  0  0",
        "new  -  -  away  never  0  0",
    ]
    assert len({line.index("away") for line in (lines[1], lines[3])}) == 1


def test_devices_of_a_server(station):
    """Those that are connected are seen now."""
    station.there = ("tablet",)
    lines = station("devices").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["tablet", "Tablet", "-", "connected", "now", "0", "0"]
    ]


def test_no_device(station):
    """The headings alone; and a state directory that is not there is not made."""
    station.runs = False
    station.environ["MOBILE_STATE_DIR"] = str(station.directory / "none")
    assert len(station("devices").stdout.splitlines()) == 1
    assert not (station.directory / "none").exists()


# revoke


def test_revoke(station):
    """The device that is there is told at once, and stays shut out."""
    station.there = ("phone", "tablet")
    result = station("revoke", "mobile:phone")
    assert (result.exit_code, result.output) == (0, "phone is revoked\n")
    assert station.closed == {"phone": (1008, "auth_failed")}
    assert [(each.id, each.revoked) for each in known(station)] == [
        ("phone", True),
        ("tablet", False),
    ]


def test_revoke_without_a_server(station):
    """The next one reads it; also of a device that only the settings name."""
    station.runs = False
    station.environ["MOBILE_EXTRA_TOKENS"] = "tablet=a-token-of-the-tablet"
    remember(station, PHONE)
    for device in ("phone", "tablet"):
        assert station("revoke", device).exit_code == 0
    assert [(each.id, each.revoked, each.tokens) for each in known(station)] == [
        ("phone", True, ()),
        ("tablet", True, ()),
    ]


@pytest.mark.parametrize("runs", [True, False])
def test_a_device_that_nobody_knows(station, runs):
    """4: an id is easily mistyped."""
    station.runs = runs
    assert error_line(station("revoke", "fone"), 4) == "Error: there is no device fone"
    assert known(station) == []


# status


def test_status(station):
    """The figures of the running server, for a person."""
    station.there = ("phone",)
    result = station("status")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"version     {__version__}",
        "listens on  ws://127.0.0.1:8787/ws",
        "up          0 min 0 s",
        "agent       demo, ready",
        "connections 1",
        "sessions    1 connected, 0 away",
        "turns       0 running, 0 messages waiting",
        "cards       0 open",
        "kept        0 units, 0 bytes",
    ]


def test_status_for_machines(station):
    """One line of JSON, as the admin socket has it."""
    found = json.loads(station("status", "--json").stdout)
    assert (found["version"], found["connections"]) == (__version__, 0)
    assert found["pid"] == os.getpid()


def serve_http(monkeypatch, station, respond):
    """An HTTP side that answers each path with what `respond` has for it."""
    station.runs = False
    monkeypatch.setattr(status, "get", lambda host, port, tls, path: respond[path])


async def exposed(**settings):
    """What the HTTP side exposes of a server with one device, and one that is away with one unit."""
    async with open_house(**settings) as house:
        await house.connect("phone")
        await house.say("one", device="tablet")
        return exposition.write(house.hub, LoopLag()).decode()


@pytest.mark.parametrize(("ready", "word"), [(200, "ready"), (503, "not ready")])
def test_status_by_http(station, monkeypatch, ready, word):
    """Without an admin socket, health and metrics tell nearly the same."""
    answers = {"/readyz": (ready, ""), "/metrics": (200, trio.run(exposed))}
    serve_http(monkeypatch, station, answers)
    result = station("status")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"up          \d+ min \d+ s", lines.pop(1))
    assert lines == [
        f"version     {__version__}",
        f"agent       {word}",
        "connections 1",
        "sessions    1 connected, 1 away",
        "turns       0 running, 0 messages waiting",
        "cards       0 open",
        lines[-1],
    ]
    assert lines[-1].startswith("kept        1 units, ")


def test_status_for_others(station, monkeypatch):
    """Who may not ask on the admin socket asks by HTTP."""
    answers = {"/readyz": (200, ""), "/metrics": (200, trio.run(exposed))}
    serve_http(monkeypatch, station, answers)
    (station.directory / "file").touch()
    station.environ["MOBILE_ADMIN_SOCKET"] = str(station.directory / "file" / "admin.sock")
    assert "sessions    1 connected, 1 away" in station("status").stdout


@pytest.mark.parametrize("metrics", ["", "hello\n", "hermes_mobile_connections_open 1\n", "{{{"])
def test_another_server_on_the_port(station, monkeypatch, metrics):
    """5: what answers is no hermes-mobile."""
    serve_http(monkeypatch, station, {"/readyz": (200, ""), "/metrics": (200, metrics)})
    line = error_line(station("status"), 5)
    assert line == "Error: no server: what answers on port 8788 is another"


def test_status_without_a_server(station):
    """5, in one line, with and without an HTTP side to ask."""
    station.runs = False
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        station.environ["MOBILE_HTTP_PORT"] = str(port)
        line = error_line(station("status"), 5)
        assert line == f"Error: no server: 127.0.0.1, port {port}: Connection refused"
    station.environ["MOBILE_HTTP_PORT"] = "off"
    line = error_line(station("status"), 5)
    assert line == "Error: no server: it has no admin socket here, and no HTTP side"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(59, "0 min 59 s"), (3599, "59 min 59 s"), (7320, "2 h 2 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds, words):
    """The two units that say most."""
    assert status.duration(seconds) == words


# All of them


ALL = (("pair", "--device", "phone"), ("devices",), ("revoke", "phone"))


@pytest.mark.parametrize("command", ALL)
def test_without_a_server_and_its_state(station, command):
    """5: nothing says where it is."""
    station.runs = False
    station.environ["MOBILE_STATE_DIR"] = ""
    line = error_line(station(*command), 5)
    assert line == "Error: no server, and no MOBILE_STATE_DIR in which to do without one"


@pytest.mark.parametrize("command", ALL)
def test_the_state_of_an_installed_service(station, monkeypatch, command):
    """It is found where the unit puts it, when no setting says otherwise."""
    station.runs = False
    station.environ["MOBILE_STATE_DIR"] = ""
    remember(station, PHONE)
    link = station.directory / "link"
    link.symlink_to(station.directory)
    monkeypatch.setattr(operator, "SERVICE_STATE", link)
    assert station(*command).exit_code == 0


@pytest.mark.parametrize("command", ALL)
def test_a_damaged_file(station, command):
    """78, in one line, and the file is as it was."""
    station.runs = False
    path = station.directory / "devices.json"
    path.write_text("{")
    assert error_line(station(*command), 78).endswith("devices.json is damaged: no JSON")
    assert path.read_text() == "{"


@pytest.mark.parametrize("command", [ALL[0], ALL[2]])
def test_a_server_without_an_admin_socket(station, command, monkeypatch):
    """78: it holds the lock, and nothing is changed behind its back."""
    station.runs = False
    remember(station, PHONE)
    monkeypatch.setattr(access_file, "LOCK_SECONDS", 0.05)
    with (station.directory / "devices.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = error_line(station(*command), 78)
    assert line.endswith("is in use by another hermes-mobile")
    assert known(station) == [PHONE]


@pytest.mark.parametrize("answer", [b"", b"[]\n", b"{", b"<html>\n"])
@pytest.mark.parametrize("command", [*ALL, ("status",)])
def test_something_else_listens(station, command, answer):
    """5: who does not answer as a server does is none, and nothing is done in its place."""
    station.runs = False
    remember(station, PHONE)
    with open_socket_file(station.directory / "admin.sock", 0o600) as listener:
        served = threading.Thread(target=answer_once, args=(listener, answer))
        served.start()
        line = error_line(station(*command), 5)
        served.join()
    assert line.endswith("admin.sock does not answer")
    assert known(station) == [PHONE]


def answer_once(listener, answer):
    peer, _ = listener.accept()
    with peer:
        peer.recv(1 << 16)
        peer.sendall(answer)


def test_who_may_not_connect(station):
    """4: the way to the socket is closed to the one who asks."""
    station.environ["MOBILE_ADMIN_SOCKET"] = str(station.directory / "file" / "admin.sock")
    (station.directory / "file").touch()
    for command in (*ALL, ("status",)):
        station.environ["MOBILE_HTTP_PORT"] = "off"
        line = error_line(station(*command), 4)
        assert line.endswith("file/admin.sock: Not a directory")


@pytest.mark.parametrize(
    "arguments",
    [
        ("pair",),
        ("pair", "--device", ""),
        ("pair", "--device", "mobile:"),
        ("pair", "--device", "a\nb"),
        ("pair", "--device", "a", "--url", "http://a.test"),
        ("revoke",),
        ("revoke", ""),
        ("revoke", "mobile:"),
        ("devices", "phone"),
        ("status", "phone"),
    ],
)
def test_wrong_use(station, arguments):
    """2, in one line."""
    station.runs = False
    error_line(station(*arguments), 2)
