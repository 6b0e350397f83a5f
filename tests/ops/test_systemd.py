"""What systemd passes to the server, and what the server tells it."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from hermes_mobile.ops import systemd
from hermes_mobile.ops.systemd import PassedSocketError, take_notifier, take_sockets
from service_manager import Manager

PID = 4711
NAMES = ("ws", "http")


@pytest.fixture
def pass_sockets(monkeypatch):
    """Pass sockets as systemd does, but from a free descriptor on; they end with the test."""
    passed = []

    def pass_them(*sockets: socket.socket, names: str) -> dict[str, str]:
        first = 200
        monkeypatch.setattr(systemd, "FIRST_DESCRIPTOR", first)
        for descriptor, sock in enumerate(sockets, first):
            os.dup2(sock.fileno(), descriptor)
            passed.append(descriptor)
        return {"LISTEN_PID": f"{PID}", "LISTEN_FDS": f"{len(sockets)}", "LISTEN_FDNAMES": names}

    yield pass_them
    for descriptor in passed:
        with suppress(OSError):  # one that was refused is closed already
            os.close(descriptor)


def test_sockets_have_the_names_of_their_units(pass_sockets):
    """One name may have several: a unit that listens on IPv4 and on IPv6 passes two."""
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
        socket.create_server(("127.0.0.1", 0)) as third,
    ):
        environ = pass_sockets(first, second, third, names="ws:http:ws") | {"HOME": "/nowhere"}
        taken = take_sockets(environ, PID, NAMES)
        addresses = {name: [s.getsockname() for s in sockets] for name, sockets in taken.items()}
        assert addresses == {
            "ws": [first.getsockname(), third.getsockname()],
            "http": [second.getsockname()],
        }
        assert not [s for sockets in taken.values() for s in sockets if s.get_inheritable()]
        assert environ == {"HOME": "/nowhere"}
        for sockets in taken.values():
            for sock in sockets:
                sock.detach()


@pytest.mark.parametrize("pid", ["", f"{PID + 1}"])
def test_sockets_of_another_process_are_left_alone(pid):
    """The variables may be inherited from a parent that they were meant for; they go no further."""
    environ = {"LISTEN_PID": pid, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "ws"}
    assert take_sockets(environ, PID, NAMES) == {}
    assert environ == {}


@pytest.mark.parametrize(
    ("count", "names", "problem"),
    [
        ("many", "ws", "LISTEN_FDS must be a number"),
        ("2", "ws", "LISTEN_FDNAMES must name 2 sockets"),
        ("1", "www", "called 'www'; FileDescriptorName= must be one of http, ws"),
        ("1", "", "called ''; FileDescriptorName= must be one of http, ws"),
    ],
)
def test_names_that_mean_nothing_are_refused(count, names, problem):
    """With a line that says what has to be there instead."""
    environ = {"LISTEN_PID": f"{PID}", "LISTEN_FDS": count, "LISTEN_FDNAMES": names}
    with pytest.raises(PassedSocketError) as refused:
        take_sockets(environ, PID, NAMES)
    assert problem in str(refused.value)


def test_a_descriptor_that_is_no_socket_is_refused(pass_sockets):
    """It is said which one."""
    with open(os.devnull, "rb") as file, pytest.raises(PassedSocketError) as refused:  # noqa: PTH123
        take_sockets(pass_sockets(file, names="ws"), PID, NAMES)
    assert str(refused.value).startswith("the passed ws is no socket:")


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_socket_that_does_not_listen_is_refused(pass_sockets, kind):
    """A connection (Accept=yes), or a datagram socket, is nothing to accept from."""
    with (
        socket.socket(socket.AF_INET, kind) as sock,
        pytest.raises(PassedSocketError, match="the passed http must be a listening stream socket"),
    ):
        take_sockets(pass_sockets(sock, names="http"), PID, NAMES)


@pytest.fixture
def manager(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    with manager.socket:
        yield manager


def status() -> str:
    return "2 connections, 1 sessions"


STATUS = "STATUS=2 connections, 1 sessions"


def test_phases_are_told(manager):
    """A reload has its moment, and stopping the time that it may take."""
    with take_notifier(manager.environ, PID) as notifier:
        notifier.ready()
        before = time.monotonic()
        notifier.reloading()
        notifier.ready()
        notifier.stopping(within=14.9)
    ready, reloading, ready_again, stopping = manager.told()
    assert ready == ready_again == "READY=1"
    sign, moment = reloading.split("\nMONOTONIC_USEC=")
    assert sign == "RELOADING=1"
    assert before <= int(moment) / 1e6 + 1e-6 <= time.monotonic() + 1e-6
    assert stopping == "STOPPING=1\nEXTEND_TIMEOUT_USEC=14900000"
    assert manager.environ == {}


def test_an_abstract_address():
    """One that begins with @ is no file."""
    manager = Manager(f"@hermes-mobile-test-{os.getpid()}")
    with manager.socket, take_notifier(manager.environ, PID) as notifier:
        notifier.ready()
        assert manager.told() == ["READY=1"]


@pytest.mark.parametrize(
    ("watchdog", "interval", "signs"),
    [
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": f"{PID}"}, 2, "WATCHDOG=1\n"),
        ({"WATCHDOG_USEC": "4000000"}, 2, "WATCHDOG=1\n"),
        ({"WATCHDOG_USEC": "90000000"}, 10, "WATCHDOG=1\n"),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}, 10, ""),
        ({"WATCHDOG_USEC": "0"}, 10, ""),
        ({}, 10, ""),
    ],
)
async def test_signs_of_life(autojump_clock, manager, watchdog, interval, signs):
    """They come twice as often as they are waited for, if they are, by this process."""
    manager.environ |= watchdog
    with take_notifier(manager.environ, PID) as notifier, trio.move_on_after(3 * interval - 1):
        await notifier.run(status)
    assert manager.told() == [f"{signs}{STATUS}"] * 3
    assert manager.environ == {}


async def test_without_a_manager_nobody_is_told():
    """And nothing runs."""
    with take_notifier({}, PID) as notifier:
        notifier.ready()
        await notifier.run(status)


def test_a_manager_that_is_busy_is_not_waited_for(manager):
    """What it has no room for is told with what follows, in order; of very much, the newest."""
    with take_notifier(manager.environ, PID) as notifier:
        queue = 0
        while not notifier._unsent:
            notifier.ready()
            queue += 1
        notifier.reloading()
        assert len(manager.told()) == queue - 1
        notifier.stopping(within=1)
    assert [message.partition("\n")[0] for message in manager.told()] == [
        "READY=1",
        "RELOADING=1",
        "STOPPING=1",
    ]


def test_a_manager_that_is_gone_hurts_nobody(manager, logs):
    """It is logged once, and tried again: who takes its place is told."""
    address = manager.environ["NOTIFY_SOCKET"]
    with take_notifier(manager.environ, PID) as notifier:
        Path(address).unlink()
        for _ in range(20):
            notifier.ready()
        assert [line["event"] for line in logs] == ["cannot tell systemd"]
        with Manager(address).socket as successor:
            notifier.reloading()
            assert len(successor.recv(4096)) > 0
