"""The server as a whole, in this process: it listens, accepts through trouble, and stops when told."""

from __future__ import annotations

import errno
import os
import signal
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from attrs import evolve

from hermes_mobile.agents.demo import DemoAgent
from hermes_mobile.server import app
from hermes_mobile.server.settings import Settings
from street import PATIENCE, TOKEN, Caller

if TYPE_CHECKING:
    from hermes_mobile.agents import Agent

SETTINGS = Settings(token=TOKEN, port=0, shutdown_grace=0)


class Listener(socket.socket):
    """A listening socket whose `accept` fails as it was told before it works."""

    def __init__(self, *failures: OSError, family: int = socket.AF_INET) -> None:
        super().__init__(family)
        self._failures = list(failures)

    def accept(self):
        if self._failures:
            raise self._failures.pop(0)
        return super().accept()


class Doorkeeper:
    """Stands in for `serve_connection`: notes who came, and lets them go."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.came = trio.Event()

    async def __call__(self, stream, address: str) -> None:
        async with stream:
            self.addresses.append(address)
            self.came.set()


async def accept_one(listener: socket.socket) -> Doorkeeper:
    """Run `accept` until somebody came in."""
    doorkeeper = Doorkeeper()
    async with trio.open_nursery() as connections, trio.open_nursery() as accepting:
        accepting.start_soon(app.accept, listener, doorkeeper, 30.0, connections)
        with trio.fail_after(60):
            await doorkeeper.came.wait()
        accepting.cancel_scope.cancel()
    assert listener.fileno() == -1
    return doorkeeper


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [
        ([], 0),
        ([BlockingIOError()], 0),
        ([OSError(errno.ECONNABORTED, "gone")], 0),
        ([OSError(errno.EMFILE, "full"), OSError(errno.ENOMEM, "full")], 2 * app.ACCEPT_PAUSE),
    ],
)
async def test_accepting_survives_trouble(autojump_clock, failures, seconds):
    """A peer that left is passed over; without descriptors or memory nothing is accepted for 0.1 s."""
    with Listener(*failures) as listener, socket.socket() as peer:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        peer.connect(listener.getsockname())
        doorkeeper = await accept_one(listener)
    assert doorkeeper.addresses == ["127.0.0.1"]
    assert trio.current_time() == seconds


async def test_a_shortage_is_logged_once(autojump_clock, logs):
    """However long it lasts, and although accepting is tried again ten times a second."""
    failures = [OSError(errno.EMFILE, "Too many open files")] * 50
    with Listener(*failures) as listener, socket.socket() as peer:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        peer.connect(listener.getsockname())
        await accept_one(listener)
    assert trio.current_time() == pytest.approx(50 * app.ACCEPT_PAUSE)
    assert [(line["event"], line["error"]) for line in logs] == [
        ("cannot accept", "Too many open files")
    ]


async def test_a_unix_socket_has_no_address(autojump_clock, tmp_path):
    """A peer on a Unix socket is called that."""
    path = str(tmp_path / "socket")
    with Listener(family=socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as peer:
        listener.bind(path)
        listener.listen()
        peer.connect(path)
        doorkeeper = await accept_one(listener)
    assert doorkeeper.addresses == ["unix"]


class Running:
    """`app.serve` in a task of this process, on a free port."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._listening = trio.Event()
        self.address = app.Address("", 0, "")
        self.stopped_by = 0

    async def run(self) -> None:
        self.stopped_by = await app.serve(SETTINGS, self._agent, self._announce)

    def _announce(self, address: app.Address) -> None:
        self.address = address
        self._listening.set()

    @asynccontextmanager
    async def connect(self):
        """A device that is ready."""
        await self._listening.wait()
        with trio.socket.socket() as sock:
            await sock.connect((self.address.host, self.address.port))
            caller = Caller(sock)
            await caller.upgrade()
            await caller.hello(TOKEN, "phone")
            await caller.expect("ready")
            yield caller


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_it_is_told_to_stop(logs, number):
    """D35: the address is announced; the devices are told the end; the first signal is returned."""
    server = Running(DemoAgent())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect() as caller:
                await caller.say("m1", "/think 60")
                await caller.expect("typing")
                os.kill(os.getpid(), number)
                error = await caller.expect("error")
                os.kill(os.getpid(), signal.SIGTERM)
                assert await caller.receive_end() == (1001, "shutdown")
    assert server.address.url == f"ws://127.0.0.1:{server.address.port}/ws"
    assert (error["code"], error["id"]) == ("internal_error", "m1")
    assert server.stopped_by == number
    events = [line["event"] for line in logs]
    assert events == ["stopping", "turn", "stopping already", "connection", "stopped"]


class Restless(DemoAgent):
    async def run(self, conversations) -> None:
        raise RuntimeError("something that a person said")


async def test_an_agent_that_fails_in_the_background_stops_nothing(logs):
    """D39: its exception is logged by type and place, and devices are served on."""
    server = Running(Restless())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect() as caller:
                await caller.say("m1", "hello")
                assert (await caller.expect("message"))["text"] == "hello"
                os.kill(os.getpid(), signal.SIGTERM)
                assert await caller.receive_end() == (1001, "shutdown")
    failures = [line for line in logs if line["log_level"] == "error"]
    assert [line["error"] for line in failures] == ["RuntimeError"]
    assert "something that a person said" not in str(logs)


async def test_an_address_that_is_taken():
    """It is the caller's to tell."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = evolve(SETTINGS, port=other.getsockname()[1])
        with pytest.raises(OSError, match="in use") as refused:
            await app.serve(taken, DemoAgent(), lambda address: None)
    assert refused.value.errno == errno.EADDRINUSE


def test_an_ipv6_address_is_bracketed():
    """So that a port can follow it."""
    assert app.Address("::1", 8787, "/ws").url == "ws://[::1]:8787/ws"
