"""The server's Unix sockets: which are opened, who is served there, and what stands in their way."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager

import pytest
import trio

from hermes_mobile.server.app import run_listener
from hermes_mobile.server.listeners import ListenError, open_listeners
from hermes_mobile.server.settings import Settings
from house import Peer, delivery, open_house

NOWHERE = Settings(token="t", port=0)


@pytest.fixture
def settings(tmp_path):
    return Settings(
        token="t",
        port=0,
        deliver_socket=tmp_path / "deliver.sock",
        deliver_socket_mode=0o666,
        admin_socket=tmp_path / "admin.sock",
    )


@asynccontextmanager
async def open_place(settings, passed=None):
    """A house that listens."""
    async with open_house() as house, open_listeners(settings, passed or {}) as listeners:
        for listener in listeners:
            house.nursery.start_soon(run_listener, listener, house.hub, house.nursery)
        yield house


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(path))
    return sock


async def ask_status(path):
    async with await trio.open_unix_socket(path) as stream:
        await stream.send_all(b'{"op":"status"}\n')
        return json.loads(b"".join([bytes(data) async for data in stream]))


async def deliver(house, path):
    """Deliver something over the socket, without a token."""
    phone = await house.connect("phone")
    script = Peer(connect(path))
    house.peers.append(script)
    await script.upgrade()
    await script.send({"t": "hello"})
    assert (await script.expect("ready"))["session"] == ""
    await script.send(delivery("d1"))
    await phone.expect("message", id="d1")


async def test_both_are_served(settings):
    """With their modes; and afterwards they are gone."""
    async with open_place(settings) as house:
        modes = [
            path.stat().st_mode & 0o777 for path in (settings.deliver_socket, settings.admin_socket)
        ]
        assert modes == [0o666, 0o600]
        await deliver(house, settings.deliver_socket)
        assert (await ask_status(settings.admin_socket))["connections"] == 2
    assert not settings.deliver_socket.exists()
    assert not settings.admin_socket.exists()


async def test_none_unless_they_are_named(tmp_path):
    """By default there is no Unix socket."""
    async with open_listeners(NOWHERE, {}) as listeners:
        assert [len(listener.sockets) for listener in listeners] == [1, 0, 0]


async def test_a_passed_socket_stands_in(settings, tmp_path):
    """It is served in place of the one that the settings name, and its file stays."""
    paths = {name: tmp_path / f"passed-{name}.sock" for name in ("deliver", "admin")}
    passed = {name: [socket.socket(socket.AF_UNIX)] for name in paths}
    for name, [sock] in passed.items():
        sock.bind(str(paths[name]))
        sock.listen()
    async with open_place(settings, passed) as house:
        assert not settings.deliver_socket.exists()
        assert not settings.admin_socket.exists()
        await deliver(house, paths["deliver"])
        assert (await ask_status(paths["admin"]))["connections"] == 2
    assert all(path.exists() for path in paths.values())


@pytest.mark.parametrize("name", ["deliver", "admin"])
async def test_what_is_in_the_way_is_named(settings, name):
    """With its setting; and all that was opened before it is closed again."""
    path = settings.deliver_socket.with_name(f"{name}.sock")
    path.touch()
    expected = rf"^MOBILE_{name.upper()}_SOCKET: .*{name}\.sock is there already, and no socket$"
    with pytest.raises(ListenError, match=expected):
        await open_listeners(settings, {}).__aenter__()
    assert [each.name for each in path.parent.iterdir()] == [path.name]
