"""The server as a whole, in this process: it listens, accepts through trouble, and stops when told."""

from __future__ import annotations

import errno
import os
import signal
import socket
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from attrs import evolve

from hermes_mobile.agents.demo import DemoAgent
from hermes_mobile.server import app, listeners
from hermes_mobile.server.access_file import read
from hermes_mobile.server.listeners import ListenError
from hermes_mobile.server.settings import Settings
from hermes_mobile.server.stream import SEND_BUFFER_BYTES, SocketStream
from street import PATIENCE, TOKEN, Caller

if TYPE_CHECKING:
    from hermes_mobile.agents import Agent

SETTINGS = Settings(token=TOKEN, port=0, shutdown_grace=0, log_level="debug")


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
        self.send_buffers: list[int] = []
        self.undelayed: list[bool] = []
        self.came = trio.Event()

    async def __call__(self, stream, address: str) -> None:
        async with stream:
            self.addresses.append(address)
            self.send_buffers.append(stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
            self.undelayed.append(
                stream.socket.family != socket.AF_UNIX
                and stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            )
            self.came.set()


async def accept_one(listener: socket.socket) -> Doorkeeper:
    """Run `accept` until somebody came in."""
    doorkeeper = Doorkeeper()
    open_stream = partial(SocketStream, write_timeout=30.0)
    async with trio.open_nursery() as connections, trio.open_nursery() as accepting:
        accepting.start_soon(listeners.accept, listener, doorkeeper, open_stream, connections)
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
        (
            [OSError(errno.EMFILE, "full"), OSError(errno.ENOMEM, "full")],
            2 * listeners.ACCEPT_PAUSE,
        ),
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
    assert trio.current_time() == pytest.approx(50 * listeners.ACCEPT_PAUSE)
    assert [(line["event"], line["error"]) for line in logs] == [
        ("cannot accept", "Too many open files")
    ]


async def test_who_waited_for_the_server_to_start_is_served_like_all_others(autojump_clock):
    """D5: in the listener's queue before it was known what to hand on, or after."""
    async with trio.open_nursery() as connections, trio.open_nursery() as accepting:
        with Listener() as listener, socket.socket() as early, socket.socket() as late:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            early.connect(listener.getsockname())
            doorkeeper, open_stream = Doorkeeper(), partial(SocketStream, write_timeout=30.0)
            accepting.start_soon(listeners.accept, listener, doorkeeper, open_stream, connections)
            await trio.testing.wait_all_tasks_blocked()
            late.connect(listener.getsockname())
            with trio.fail_after(60):
                while len(doorkeeper.addresses) < 2:
                    await trio.testing.wait_all_tasks_blocked()
            accepting.cancel_scope.cancel()
    assert doorkeeper.send_buffers == [SEND_BUFFER_BYTES] * 2
    assert doorkeeper.undelayed == [True] * 2


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

    def __init__(
        self, agent: Agent, passed=MappingProxyType({}), reload=None, settings=SETTINGS
    ) -> None:
        self._agent = agent
        self._settings = settings
        self._passed = passed
        self._reload = reload
        self.phases: list[app.Phase] = []
        self._listening = trio.Event()
        self.reloaded = trio.Event()
        self.address = app.Address("", 0, "")
        self.stopped_by = 0

    async def run(self) -> None:
        self.stopped_by = await app.serve(
            self._settings, self._agent, self._announce, passed=self._passed, reload=self._reload
        )

    def _announce(self, phase: app.Phase, hub: app.Hub) -> None:
        self.phases.append(phase)
        assert hub.address is not None
        self.address = hub.address
        self._listening.set()
        if phase is app.Phase.RELOADED:
            self.reloaded.set()

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
    """D35: each phase is announced; the devices are told the end; the signal is returned."""
    server = Running(DemoAgent())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect() as caller:
                await caller.say("m1", "/think 60")
                await caller.expect("typing")
                os.kill(os.getpid(), number)
                error = await caller.expect("error")
                assert await caller.receive_end() == (1001, "shutdown")
    assert server.address.url == f"ws://127.0.0.1:{server.address.port}/ws"
    assert (error["code"], error["id"]) == ("internal_error", "m1")
    assert server.stopped_by == number
    events = [line["event"] for line in logs]
    assert events == ["stopping", "cut short", "turn", "connection", "stopped"]
    assert server.phases == [app.Phase.LISTENING, app.Phase.STOPPING]


async def test_who_was_here_is_on_disk_when_it_has_ended(tmp_path):
    """Also who was seen within the last minute, which is how long that may take while it runs."""
    server = Running(DemoAgent(), settings=evolve(SETTINGS, state_dir=tmp_path))
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect():
                os.kill(os.getpid(), signal.SIGTERM)
    assert [device.id for device in read(tmp_path)] == ["phone"]


async def test_a_socket_that_was_passed_takes_the_place_of_the_port():
    """Nothing is opened beside it, and it is what is announced."""
    with socket.create_server(("127.0.0.1", 0)) as passed:
        own = passed.dup()
        server = Running(DemoAgent(), {"ws": [own]})
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.run)
                async with server.connect():
                    os.kill(os.getpid(), signal.SIGTERM)
        assert server.address == app.Address(*passed.getsockname(), "/ws")
        assert own.fileno() == -1
        with socket.create_connection(passed.getsockname()):
            pass  # who passed it still listens: the next process will accept


@pytest.mark.parametrize("fails", [False, True])
async def test_sighup_reloads(logs, fails):
    """Who is connected stays so, whatever becomes of the reload; it is announced before and after."""
    reloads = []

    async def reload(hub: app.Hub) -> None:
        reloads.append(len(hub.connections))
        if fails:
            raise RuntimeError("something that a person said")

    server = Running(DemoAgent(), reload=reload)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect() as caller:
                os.kill(os.getpid(), signal.SIGHUP)
                await server.reloaded.wait()
                await caller.say("m1", "hello")
                assert (await caller.expect("message"))["text"] == "hello"
                os.kill(os.getpid(), signal.SIGTERM)
                assert await caller.receive_end() == (1001, "shutdown")
    assert reloads == [1]
    assert server.phases == list(app.Phase)
    assert [line["event"] for line in logs if line["log_level"] == "error"] == (
        ["reload failed"] if fails else []
    )
    assert "something that a person said" not in str(logs)


async def test_reloads_that_are_asked_for_meanwhile_are_one(logs):
    """However often SIGHUP comes during a reload, one more follows."""
    begun, go_on = trio.Event(), trio.Event()
    reloads = []

    async def reload(hub: app.Hub) -> None:
        reloads.append(hub)
        begun.set()
        await go_on.wait()

    server = Running(DemoAgent(), reload=reload)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect():
                os.kill(os.getpid(), signal.SIGHUP)
                await begun.wait()
                for _ in range(10):
                    os.kill(os.getpid(), signal.SIGHUP)
                    await trio.testing.wait_all_tasks_blocked(0.01)
                go_on.set()
                await trio.testing.wait_all_tasks_blocked(0.01)
                os.kill(os.getpid(), signal.SIGTERM)
    assert len(reloads) == 2


async def test_without_a_reload_sighup_says_so(logs):
    """Rather than end the server, which is what a signal that nobody takes does."""
    server = Running(DemoAgent())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            async with server.connect():
                os.kill(os.getpid(), signal.SIGHUP)
                await server.reloaded.wait()
                os.kill(os.getpid(), signal.SIGTERM)
    assert "nothing to reload" in [line["event"] for line in logs]


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
        port = other.getsockname()[1]
        with pytest.raises(ListenError, match=f"MOBILE_PORT: port {port} of 127.0.0.1 is taken"):
            await app.serve(evolve(SETTINGS, port=port), DemoAgent(), lambda phase, hub: None)


def test_an_ipv6_address_is_bracketed():
    """So that a port can follow it."""
    assert app.Address("::1", 8787, "/ws").url == "ws://[::1]:8787/ws"


def test_a_unix_socket_is_its_file():
    """There is no address to connect a browser to."""
    assert app.Address("/run/ws.sock", 0, "/ws").url == "unix:/run/ws.sock"
