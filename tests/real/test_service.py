"""The server as a service: what a service manager sees of it, and the sockets that it gets from one."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
from contextlib import ExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pexpect
import pytest
import trio
import trio.testing

from hermes_mobile.client import Device, Message, open_client
from journal import events_until
from service_manager import Manager
from street import PATIENCE, TOKEN, Caller, environment, free_port

pytestmark = pytest.mark.slow
ACTIVATE = Path("/usr/bin/systemd-socket-activate")


@pytest.fixture
def manager(request, tmp_path):
    """It listens on a path, unless a test wants an `abstract` address."""
    abstract = getattr(request, "param", "path") == "abstract"
    manager = Manager(f"@hermes-mobile-{os.getpid()}" if abstract else str(tmp_path / "notify"))
    with manager.socket:
        yield manager


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield listener


@asynccontextmanager
async def connect(listener, device):
    """A device on the address of `listener`, whichever process accepts there."""
    with trio.socket.socket() as sock:
        await sock.connect(listener.getsockname())
        caller = Caller(sock)
        await caller.upgrade()
        await caller.hello(TOKEN, device)
        await caller.expect("ready")
        yield caller


@pytest.mark.parametrize("manager", ["path", "abstract"], indirect=True)
async def test_a_service_manager_is_told_in_order(serve, manager):
    """Ready, signs of life, reloading and ready, stopping; then the process ends with 0."""
    server = serve(WATCHDOG_USEC=400_000, **manager.environ)
    assert "READY=1" in (await manager.hear_until("READY=1"))
    async with server.connect():
        await manager.hear_until("STATUS=1 connections, 1 sessions")
        assert "WATCHDOG=1" in (await manager.hear_until("WATCHDOG=1"))[-1]
        server.terminate(signal.SIGHUP)
        reloading, *others, ready = [
            message
            for message in await manager.hear_until("READY=1")
            if not message.startswith("WATCHDOG=1\nSTATUS=")
        ]
        assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert (others, ready) == ([], "READY=1")
        server.terminate()
        *_, stopping = await manager.hear_until("STOPPING=1")
        assert stopping == "STOPPING=1\nEXTEND_TIMEOUT_USEC=14950000"
    assert await trio.to_thread.run_sync(server.wait) == 0
    assert {message.partition("=")[0] for message in manager.told()} <= {"WATCHDOG"}


async def blocked_by_an_agent(server, caller) -> None:
    await caller.say("m1", "2")
    await caller.expect("message")


async def stopped_by_a_signal(server, caller) -> None:
    server.terminate(signal.SIGSTOP)
    await trio.sleep(2)
    server.terminate(signal.SIGCONT)


@pytest.mark.parametrize("standstill", [blocked_by_an_agent, stopped_by_a_signal])
async def test_an_event_loop_that_stops_misses_the_watchdog(serve, manager, standstill):
    """It is a task of the loop that gives the signs of life: none comes while it stands still."""
    server = serve("--agent", "cast:Blocker", WATCHDOG_USEC=1_000_000, **manager.environ)
    signs = []

    async def listen() -> None:
        while True:
            if "WATCHDOG=1" in await manager.hear():
                signs.append(trio.current_time())

    async with server.connect() as caller, trio.open_nursery() as nursery:
        await manager.hear_until("STATUS=1 connections, 1 sessions")
        nursery.start_soon(listen)
        began = trio.current_time()
        await standstill(server, caller)
        ended = trio.current_time()
        nursery.cancel_scope.cancel()
    silences = [after - before for before, after in pairwise([began, *signs, ended])]
    assert max(silences) > 1


async def test_what_the_watchdog_ends_leaves_a_trace(serve):
    """On SIGABRT, as the unit sets it up, the log has the line that held up the loop, and no text."""
    server = serve("--agent", "cast:Blocker", PYTHONFAULTHANDLER=1)
    async with server.connect() as caller:
        await caller.say("m1", "60.12345")
        await server.wait_logged("held up")
        server.terminate(signal.SIGABRT)
        assert await trio.to_thread.run_sync(server.wait) == -signal.SIGABRT
    assert re.search(r'cast.py", line \d+ in handle\n', server.log_text)
    assert "60.12345" not in server.log_text


async def test_a_service_manager_that_is_gone_is_not_missed(serve, manager):
    """D35: its socket closed, the server serves, reloads and stops as ever."""
    server = serve(WATCHDOG_USEC=100_000, **manager.environ)
    manager.socket.close()
    async with server.connect() as caller:
        await server.wait_logged("cannot tell systemd")
        server.terminate(signal.SIGHUP)
        await caller.say("m1", "hello")
        assert (await caller.expect("message"))["text"] == "hello"
        server.terminate()
        assert await caller.receive_end() == (1001, "shutdown")
    assert await trio.to_thread.run_sync(server.wait) == 0


async def test_a_restart_behind_a_passed_socket_refuses_nobody(serve, listener):
    """Who comes while the server stops, is down, or starts, waits for the next one."""
    served = []

    async def visit(number: int) -> None:
        async with connect(listener, f"phone-{number}") as caller:
            await caller.say("m1", "hello")
            assert (await caller.expect("message"))["text"] == "hello"
            served.append(number)

    first = serve(passed={"ws": listener}, MOBILE_SHUTDOWN_GRACE=1)
    async with connect(listener, "worker") as worker, trio.open_nursery() as visitors:
        await worker.say("m1", "/think 60")
        await worker.expect("typing")
        first.terminate()
        await first.wait_logged("stopping")
        for number in range(20):
            visitors.start_soon(visit, number)
        assert await worker.receive_end() == (1001, "shutdown")
        assert await trio.to_thread.run_sync(first.wait) == 0
        for number in range(20, 40):
            visitors.start_soon(visit, number)
        await trio.testing.wait_all_tasks_blocked(0.05)  # all of them have connected, and wait
        assert served == []
        serve(passed={"ws": listener})
    assert sorted(served) == list(range(40))


def test_a_terminal_that_is_closed_ends_the_server():
    """SIGHUP reloads, unless it means what it meant first: nobody is left who could stop it."""
    command = ["-m", "hermes_mobile", "serve"]
    environ = environment(MOBILE_PORT=0, MOBILE_HTTP_PORT="off")
    server = pexpect.spawn(sys.executable, command, env=environ, timeout=PATIENCE)
    server.expect("hello")
    server.kill(signal.SIGHUP)
    server.expect("reloaded")
    ended = os.pidfd_open(server.pid)
    os.close(server.child_fd)
    try:
        assert select.select([ended], [], [], PATIENCE)[0]
    finally:
        server.kill(signal.SIGKILL)
        os.close(ended)
        server.closed = True  # nothing is left for its destructor


@pytest.fixture
def unix_listener(tmp_path):
    """Make a socket that listens on a file of a name."""
    with ExitStack() as stack:

        def listen(name):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.bind(str(tmp_path / name))
            sock.listen()
            return sock

        yield listen


async def test_every_side_of_the_server_takes_its_socket(serve, listener, unix_listener):
    """By name, on TCP or on a Unix socket, whatever the settings say of ports and files."""
    http, deliver = unix_listener("http.sock"), unix_listener("deliver.sock")
    passed = {"http": http, "deliver": deliver, "ws": listener}
    server = serve(passed=passed, MOBILE_PORT=1, MOBILE_HTTP_PORT=2, MOBILE_DELIVER_SOCKET="/no")
    assert server.port == listener.getsockname()[1]
    async with connect(listener, "phone") as caller:
        async with await trio.open_unix_socket(http.getsockname()) as stream:
            await stream.send_all(b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b" 200 " in await stream.receive_some()
        with trio.socket.socket(trio.socket.AF_UNIX) as sock:
            await sock.connect(deliver.getsockname())
            courier = Caller(sock)
            await courier.upgrade()
            await courier.hello(None, "cron")
            await courier.expect("ready", session="")
            delivery = {"t": "deliver", "id": "d1", "target": "phone", "text": "done"}
            await courier.send_frame(delivery)
            assert (await caller.expect("message"))["text"] == "done"


@pytest.mark.skipif(not ACTIVATE.exists(), reason="no systemd here: apt-get install systemd")
async def test_systemd_passes_a_socket_and_a_client_is_served():
    """systemd-socket-activate starts the server at the first connection, which it then serves."""
    port = free_port()
    async with trio.open_nursery() as nursery:
        activator = await nursery.start(trio.run_process, activate(port, "ws"))
        try:
            url = f"ws://127.0.0.1:{port}/ws"
            async with open_client(url, token=TOKEN, device=Device("phone")) as client:
                await client.send_text("hello")
                with trio.fail_after(PATIENCE):
                    *_, message = await events_until(client, Message)
                assert message.text == "hello"
        finally:
            activator.terminate()
    assert activator.returncode == 0


def activate(port: int, name: str) -> list[str]:
    """The command that waits on `port`, and passes it as `name` to the server."""
    settings = {"MOBILE_TOKEN": TOKEN, "MOBILE_HTTP_PORT": "off"}
    return [
        *(str(ACTIVATE), f"--listen=127.0.0.1:{port}", f"--fdname={name}"),
        *(f"--setenv={name}={value}" for name, value in settings.items()),
        *(sys.executable, "-m", "hermes_mobile", "serve"),
    ]
