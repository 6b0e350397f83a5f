"""What systemd passes to the server, on the descriptors that it passes them on."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import pytest

from hermes_mobile.ops import systemd
from hermes_mobile.ops.systemd import PassedSocketError, take_sockets

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
