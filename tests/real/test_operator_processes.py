"""`pair`, `devices`, `revoke`, `status` and `send` as processes, beside a server and without one."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from itertools import count

import pexpect
import pyte
import pytest
import segno
import trio

from hermes_mobile.cli.pair import code
from street import PATIENCE, TOKEN, Caller, environment

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "hermes_mobile")


class Place:
    """A directory for the state of one server after the other, and the commands that find it."""

    def __init__(self, directory, serve):
        self.directory = directory
        self._serve = serve
        self.environ = {"MOBILE_STATE_DIR": directory, "MOBILE_HTTP_PORT": "off"}

    def serve(self, **settings):
        return self._serve(**self.environ | settings)

    def run(self, *arguments, **environ):
        return subprocess.run(  # noqa: S603 - our own command
            [*COMMAND, *arguments],
            env=environment(**self.environ | environ),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    async def run_beside(self, *arguments, **environ):
        return await trio.to_thread.run_sync(partial(self.run, *arguments, **environ))

    def pair(self, device, *options):
        done = self.run("pair", "--device", device, "--url", "wss://a.test/ws", *options)
        assert (done.returncode, done.stderr) == (0, "")
        return re.search(r"^token +(\S+)$", done.stdout, re.MULTILINE)[1]

    @property
    def known(self):
        """The table of `devices`, without its head: id and state."""
        rows = self.run("devices").stdout.splitlines()[1:]
        return {row.split()[0]: re.search("connected|away|revoked", row)[0] for row in rows}


@pytest.fixture
def place(tmp_path, serve):
    return Place(tmp_path, serve)


async def end_of_hello(server, token, device):
    """How a hello ends: the close code and reason, or None when it is ready."""
    async with server.call() as caller:
        await caller.upgrade()
        await caller.hello(token, device)
        first = await caller.receive()
        return None if first["t"] == "ready" else await caller.receive_end()


async def test_the_life_of_a_pairing(place):
    """Paired, rotated, revoked, paired anew, beside one server, which knows it at once."""
    server = place.serve()
    async with server.connect("witness") as witness:
        first = place.pair("phone")
        assert await end_of_hello(server, TOKEN, "phone") == (1008, "forbidden")
        server.token = first
        async with server.connect("phone") as phone:
            second = place.pair("phone")
            assert place.known == {"witness": "connected", "phone": "connected"}
            server.token = second
            async with server.connect("phone") as newer:
                assert await phone.receive_end() == (4001, "replaced")
                done = await place.run_beside("revoke", "phone")
                assert (done.returncode, done.stdout) == (0, "phone is revoked\n")
                assert await newer.receive_end() == (1008, "auth_failed")
        for token in (first, second, TOKEN):
            assert await end_of_hello(server, token, "phone") == (1008, "auth_failed")
        assert place.known["phone"] == "revoked"
        assert await end_of_hello(server, place.pair("phone"), "phone") is None
        await witness.say("m1", "still there?")
        await witness.expect("message", text="still there?")
    log = server.log_text
    assert not any(token in log for token in (first, second))


async def test_pairing_outlives_servers(place):
    """Paired without a server, with one, and after it was killed: each token is valid in the next."""
    tokens = {"before": place.pair("before")}
    server = place.serve()
    tokens["beside"] = place.pair("beside")
    server.terminate(signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    tokens["after"] = place.pair("after")
    assert place.run("revoke", "before").returncode == 0
    server = place.serve()
    ends = {each: await end_of_hello(server, token, each) for each, token in tokens.items()}
    assert ends == {"before": (1008, "auth_failed"), "beside": None, "after": None}


async def test_when_a_device_was_seen_outlives_the_server(place):
    """It is written when the server stops, whatever remained of the minute."""
    server = place.serve()
    async with server.connect("phone"):
        pass
    server.terminate()
    assert server.wait() == 0
    (device,) = json.loads((place.directory / "devices.json").read_text())["devices"]
    assert (device["id"], device["tokens"]) == ("phone", [])
    assert place.run("devices").stdout.count("never") == 0


async def test_commands_and_starting_servers(place):
    """Pairings that race with servers that come and go: none is lost, whoever wrote it."""
    paired, names = {}, (f"device-{n}" for n in count())

    async def pair_on():
        for _ in range(4):
            name = next(names)
            done = await place.run_beside("pair", "--device", name, "--url", "wss://a.test/ws")
            # 78: the server that has the lock was not listening yet, or not any more.
            assert done.returncode in {0, 78}, done.stderr
            if done.returncode == 0:
                paired[name] = done.stdout.split()[-1]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair_on)
        nursery.start_soon(pair_on)
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            server = await trio.to_thread.run_sync(place.serve)
            await trio.sleep(0.3)
            server.terminate(how)
            await trio.to_thread.run_sync(server.wait)
    assert paired
    server = place.serve()
    for name, token in paired.items():
        assert await end_of_hello(server, token, name) is None


def test_two_servers_in_one_directory(place):
    """The second does not start: 78, in one line, after waiting for the first in vain."""
    place.serve()
    done = place.run("serve", MOBILE_PORT=0, MOBILE_TOKEN=TOKEN)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == (
        f"Error: MOBILE_STATE_DIR: {place.directory} is in use by another hermes-mobile\n"
    )


@pytest.mark.parametrize("command", [("serve",), ("check",)])
def test_a_damaged_access_file(place, command):
    """78, in one line, and nothing is overwritten."""
    path = place.directory / "devices.json"
    path.write_text('{"version": 9}')
    done = place.run(*command, MOBILE_PORT=0, MOBILE_TOKEN="" if command == ("check",) else TOKEN)
    assert done.returncode == 78
    assert done.stderr.count("\n") == 1
    assert f"MOBILE_STATE_DIR: {path} is of a version that is not known here" in done.stderr
    assert path.read_text() == '{"version": 9}'


SMALL_DISK = """
set -e
mount -t tmpfs -o size=64k tmpfs "$1"
shift
exec "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
async def test_a_full_disk(place):
    """Changes are refused in words, what was paired before stays valid, and there is no half file."""
    state, script = place.directory / "state", place.directory / "script.py"
    state.mkdir()
    script.write_text(FULL_DISK)
    done = await trio.to_thread.run_sync(
        partial(
            subprocess.run,
            ["unshare", "-m", "sh", "-c", SMALL_DISK, "sh", state, sys.executable, script, state],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
    )
    assert done.returncode == 0, done.stderr
    refused, again, revoked, left, device = done.stdout.splitlines()
    assert refused == f"4 Error: {state}/devices.json cannot be written: No space left on device"
    assert again == f"78 Error: {state}/devices.json cannot be written: No space left on device"
    assert revoked == "0 "
    assert left == "['admin.sock', 'devices.json', 'devices.lock', 'filler', 'received']"
    assert device == "phone 1 after"


FULL_DISK = '''
"""Beside a server whose state is on a disk that fills up."""

import json, os, signal, subprocess, sys
from pathlib import Path

state = Path(sys.argv[1])
environ = os.environ | {"MOBILE_STATE_DIR": str(state), "MOBILE_HTTP_PORT": "off"}
environ |= {"MOBILE_PORT": "0", "MOBILE_TOKEN": "a-token-of-the-full-disk"}
command = [sys.executable, "-m", "hermes_mobile"]

def run(*arguments):
    done = subprocess.run([*command, *arguments], env=environ, capture_output=True, text=True)
    return f"{done.returncode} {done.stderr.strip()}"

def start():
    server = subprocess.Popen([*command, "serve"], env=environ, stdout=-1, stderr=-3)
    server.stdout.readline()
    return server

def pair(device):
    return run("pair", "--device", device, "--url", "wss://a.test/ws")

server = start()
assert pair("phone") == "0 ", "first"
with (state / "filler").open("wb", buffering=0) as filler:
    try:
        while filler.write(b"x" * 512):
            pass
    except OSError:
        pass
print(pair("tablet"))
server.terminate()
assert server.wait(20) == 0
print(pair("tablet"))
server = start()
with (state / "filler").open("r+b") as filler:
    filler.truncate(512)
print(run("revoke", "phone"))
(state / "filler").touch()
left = sorted(path.name for path in state.iterdir())
assert pair("phone") == "0 ", "last"
server.terminate()
server.wait(20)
(device,) = json.loads((state / "devices.json").read_text())["devices"]
print(left)
print(device["id"], len(device["tokens"]), "revoked" if device["revoked"] else "after")
'''


def test_the_code_on_a_terminal(place):
    """What a phone's camera sees is a code that holds the url, the id and the token."""
    process = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], "pair", "--device", "phone", "--url", "wss://agent.example.com/ws"],
        env=environment(**place.environ, TERM="xterm", PYTHONIOENCODING="utf-8"),
        dimensions=(60, 100),
        timeout=PATIENCE,
    )
    written = process.read()
    screen = pyte.Screen(100, 60)
    pyte.ByteStream(screen).feed(written)
    token = re.search(r"token +(\S+)", "\n".join(screen.display))[1]
    expected = segno.make(code("wss://agent.example.com/ws", "phone", token), error="l")
    light = [
        [bool(half & rows) for half, rows in pairs]
        for line in screen.display
        if set(line) & set("▀▄█")
        for pairs in ([(upper, BLOCKS[char]) for char in line.rstrip()] for upper in (1, 2))
    ]
    dark = [[not cell for cell in row] for row in light]
    modules = [[bool(cell) for cell in row] for row in expected.matrix_iter(border=4)]
    assert [row[: len(modules)] for row in dark[: len(modules)]] == modules
    assert b"\x1b[97;40m" in written


BLOCKS = {" ": 0, "▀": 1, "▄": 2, "█": 3}
"""Which of its two rows a character lights up."""


# status


async def test_status_as_a_process(place):
    """On the admin socket; by HTTP where that is off; 5 once the server is gone."""
    server = place.serve()
    async with server.connect("phone"):
        done = await place.run_beside("status", "--json")
        found = json.loads(done.stdout)
        assert (found["pid"], found["url"]) == (server.process.pid, server.url)
        assert (found["connections"], found["sessions"]) == (1, {"connected": 1, "away": 0})
        assert "sessions    1 connected, 0 away" in place.run("status").stdout
    server.terminate()
    server.wait()
    done = place.run("status")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.count("\n") == 1


async def test_status_by_http_as_a_process(place):
    """Nearly the same, from a server whose admin socket is off."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    settings = {"MOBILE_HTTP_PORT": port, "MOBILE_ADMIN_SOCKET": "off"}
    server = place.serve(**settings)
    async with server.connect("phone"):
        done = await place.run_beside("status", "--json", **settings)
    found = json.loads(done.stdout)
    assert found["sessions"] == {"connected": 1, "away": 0}
    assert 0 <= found["uptime_seconds"] < PATIENCE
    assert found["agent"] == {"ready": True}


# deliver.sock


async def test_deliveries_without_a_token(place):
    """`send` finds the socket by the settings, and its mode says who may; it is gone afterwards."""
    path = place.directory / "deliver.sock"
    settings = {
        "MOBILE_DELIVER_SOCKET": path,
        "MOBILE_DELIVER_SOCKET_MODE": "0666",
        "MOBILE_DELIVER_LOOPBACK": "off",
    }
    server = place.serve(**settings)
    assert (
        path.stat().st_mode & 0o777,
        (place.directory / "admin.sock").stat().st_mode & 0o777,
    ) == (
        0o666,
        0o600,
    )
    async with server.connect("phone") as phone:
        send = partial(place.run_beside, "send", "--to", "phone", **settings)
        done = await send("hello")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        await phone.expect("message", text="hello")
        assert (await send("--to", "tablet", "hello")).returncode == 3
    server.terminate()
    assert server.wait() == 0
    assert not path.exists()
    assert (await send("hello")).returncode == 2
    server = place.serve(**settings)
    server.terminate(signal.SIGKILL)
    server.wait()
    assert (await send("hello")).returncode == 5
    place.serve(**settings)
    assert (await send("hello")).returncode == 3


async def test_the_socket_admits_couriers_only(place):
    """D26: hello needs no token there, and opens no session."""
    path = place.directory / "deliver.sock"
    place.serve(MOBILE_DELIVER_SOCKET=path)
    with trio.socket.socket(socket.AF_UNIX) as sock:
        await sock.connect(str(path))
        caller = Caller(sock)
        await caller.upgrade()
        await caller.hello(None, "phone")
        assert (await caller.receive())["session"] == ""
        await caller.say("m1", "hello")
        assert (await caller.expect("error"))["code"] == "forbidden"
    assert place.known == {}


def test_a_socket_that_is_taken(place, tmp_path_factory):
    """78, in one line that names the setting; the one who listens there goes on."""
    path = place.directory / "deliver.sock"
    place.serve(MOBILE_DELIVER_SOCKET=path)
    elsewhere = {"MOBILE_STATE_DIR": tmp_path_factory.mktemp("other"), "MOBILE_PORT": 0}
    for variable, taken in (("MOBILE_DELIVER_SOCKET", path), ("MOBILE_ADMIN_SOCKET", path)):
        done = place.run("serve", MOBILE_TOKEN=TOKEN, **elsewhere, **{variable: taken})
        assert (done.returncode, done.stdout) == (78, "")
        assert done.stderr == f"Error: {variable}: {path} is taken: a server listens there\n"
    assert path.exists()
