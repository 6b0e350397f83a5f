"""The admin socket: a line in, a line out."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cast import Worker
from hermes_mobile import __version__
from hermes_mobile.server.admin import MAX_CONNECTIONS, MAX_REQUEST_BYTES, AdminSide
from hermes_mobile.server.devices import Devices
from hermes_mobile.server.stream import SocketStream
from hermes_mobile.server.values import Token
from house import faults, open_house
from store import FakeStore


class Office:
    """A server with an admin side, and whoever asks it."""

    def __init__(self, house):
        self.house = house
        self.admin = AdminSide()

    def plug(self):
        ours, theirs = socket.socketpair()
        stream = SocketStream(ours, self.house.hub.settings.write_timeout)
        self.house.nursery.start_soon(self.admin.serve, self.house.hub, stream, "unix")
        return trio.SocketStream(trio.socket.from_stdlib_socket(theirs))

    async def ask_raw(self, request):
        """All that is answered, until the end."""
        async with self.plug() as peer:
            await peer.send_all(request)
            return b"".join([data async for data in peer])

    async def ask(self, op, **fields):
        answer = await self.ask_raw(json.dumps({"op": op, **fields}).encode() + b"\n")
        (line,) = answer.splitlines()
        return json.loads(line)


@asynccontextmanager
async def open_office(agent=None, **settings):
    devices = Devices(store=FakeStore(), clock=lambda: 1000.0)
    async with open_house(agent, devices=devices, **settings) as house:
        yield Office(house)


async def test_status(autojump_clock):
    """How the server is doing, in numbers."""
    worker = Worker()
    async with open_office(worker) as office:
        phone = await office.house.connect("phone")
        for message in ("m1", "m2", "m3"):
            await phone.say(message, "hello")
        await phone.expect("typing")
        tablet = await office.house.connect("tablet")
        await office.house.lose(tablet)
        await office.house.say("some words", device="tablet")
        await trio.sleep(5)
        status = await office.ask("status")
        assert status.pop("pid") > 0
        assert status == {
            "version": __version__,
            "uptime_seconds": 5,
            "url": "",
            "stopping": False,
            "agent": {"name": "demo", "ready": True},
            "connections": 1,
            "sessions": {"connected": 1, "away": 1},
            "turns_running": 1,
            "messages_waiting": 2,
            "cards_open": 0,
            "units_kept": 1,
            "units_kept_bytes": office.house.hub.registry.kept_bytes,
        }


async def test_devices(autojump_clock):
    """Each with its state, when it was last seen, and what is kept for it."""
    async with open_office() as office:
        assert await office.ask("devices") == {"devices": []}
        for device in ("lost", "phone", "tablet"):
            peer = await office.house.connect(device)
            if device != "phone":
                await office.house.lose(peer)
        await office.house.say("one", "two", device="tablet")
        await office.ask("pair", device="new", name="Anna's phone")
        await office.ask("revoke", device="lost")
        common = {"platform": "", "last_seen": 1000, "tokens": 0, "units_kept": 0}
        assert (await office.ask("devices"))["devices"] == [
            common | {"id": "lost", "name": "Lost", "state": "revoked"},
            common | {"id": "phone", "name": "Phone", "state": "connected"},
            common | {"id": "tablet", "name": "Tablet", "state": "away", "units_kept": 2},
            common
            | {
                "id": "new",
                "name": "Anna's phone",
                "state": "away",
                "last_seen": None,
                "tokens": 1,
            },
        ]


async def test_pair(autojump_clock):
    """The token admits its device at once; with `replace` the others do not any more."""
    async with open_office() as office:
        first = await office.ask("pair", device="mobile:phone")
        assert (first["device"], first["warning"]) == ("phone", "")
        peer = await office.house.connect("phone", token=first["token"])
        assert peer.ready["t"] == "ready"
        second = await office.ask("pair", device="phone", replace=True)
        assert await peer.wait_closed() == (1008, "auth_failed")
        assert (await office.house.connect("phone", token=second["token"])).ready["t"] == "ready"


async def test_pair_warns_of_the_allow_list(autojump_clock):
    """D9: a device that is not on it would be refused whatever its token."""
    async with open_office(allowed_devices=frozenset({"phone"})) as office:
        assert (await office.ask("pair", device="phone"))["warning"] == ""
        warning = (await office.ask("pair", device="tablet"))["warning"]
        assert warning == "MOBILE_ALLOWED_DEVICES lacks tablet: it will be refused"


async def test_revoke(autojump_clock):
    """A device that is there is told and shut out; one that only the settings name is shut out, too."""
    async with open_office(extra_tokens=(Token("its-own-token", "bound"),)) as office:
        peer = await office.house.connect("phone")
        assert await office.ask("revoke", device="mobile:phone") == {"device": "phone"}
        assert await peer.wait_closed() == (1008, "auth_failed")
        assert await office.ask("revoke", device="bound") == {"device": "bound"}
        refused = await office.house.connect("bound", token="its-own-token")
        assert refused.closed == (1008, "auth_failed")


async def test_a_device_that_only_an_agent_speaks_to_can_be_revoked(autojump_clock):
    """What is kept for an id that never came is forgotten."""
    async with open_office() as office:
        await office.house.say("one", device="never-came")
        assert await office.ask("revoke", device="never-came") == {"device": "never-came"}
        assert office.house.hub.registry.get("never-came") is None


@pytest.mark.parametrize(
    ("request_line", "says"),
    [
        (b"\n", "a request is an object in JSON, in one line"),
        (b"{\n", "a request is an object in JSON, in one line"),
        (b"\xff\n", "a request is an object in JSON, in one line"),
        (b"[]\n", "op: one of status, devices, pair, revoke"),
        (b"{}\n", "op: one of status, devices, pair, revoke"),
        (b'{"op":"Status"}\n', "op: one of status, devices, pair, revoke"),
        (b'{"op":"pair"}\n', "device: missing"),
        (b'{"op":"pair","device":""}\n', "device: missing"),
        (b'{"op":"pair","device":[]}\n', "device: a string, or an integer within 2^53 of zero"),
        (b'{"op":"pair","device":"a\\nb"}\n', "device: no control characters"),
        (b'{"op":"pair","device":"a","replace":1}\n', "replace: true or false is expected"),
        (b'{"op":"revoke","device":"b"}\n', "there is no device b"),
        (b"x" * (MAX_REQUEST_BYTES + 1), "a request has at most 16384 bytes"),
    ],
)
async def test_a_wrong_request(autojump_clock, request_line, says):
    """It is answered in words, and nothing has changed."""
    async with open_office() as office:
        answer = await office.ask_raw(request_line)
        assert json.loads(answer) == {"error": says}
        assert list(office.house.hub.devices) == []


async def test_a_change_that_cannot_be_kept(autojump_clock):
    """The answer says why."""
    async with open_office() as office:
        office.house.hub.devices._store.failure = "no space left on device"
        answer = await office.ask("pair", device="phone")
        assert answer == {"error": "no space left on device"}


async def test_who_leaves_or_dawdles(autojump_clock, logs):
    """Nothing is answered to half a request; it has ten seconds, and no trace is left."""
    async with open_office() as office:
        async with office.plug() as peer:
            await peer.send_all(b'{"op":')
        peer = office.plug()
        await peer.send_all(b'{"op":"pair","device":"phone"')
        began = trio.current_time()
        assert await peer.receive_some() == b""
        assert trio.current_time() == began + 10
        await peer.aclose()
        assert office.admin._open == 0
        assert list(office.house.hub.devices) == []
    assert faults(logs) == []


async def test_so_many_at_a_time(autojump_clock):
    """One more is closed at once, and the next one after that is served."""
    async with open_office() as office:
        waiting = [office.plug() for _ in range(MAX_CONNECTIONS)]
        await wait_all_tasks_blocked()
        began = trio.current_time()
        async with office.plug() as peer:
            assert await peer.receive_some() == b""
        assert trio.current_time() == began
        for peer in waiting:
            await peer.aclose()
        await wait_all_tasks_blocked()
        assert "version" in await office.ask("status")


async def test_a_fault_stays_in_its_connection(autojump_clock, logs, monkeypatch):
    """It is logged by type and place, and the next request is answered."""
    async with open_office() as office:
        with monkeypatch.context() as patch:
            patch.setattr("hermes_mobile.server.admin.status", lambda _: 1 / 0)
            assert await office.ask_raw(b'{"op":"status"}\n') == b""
        assert "version" in await office.ask("status")
    (fault,) = faults(logs)
    assert (fault["event"], fault["error"]) == ("admin fault", "ZeroDivisionError")
