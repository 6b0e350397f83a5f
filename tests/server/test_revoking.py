"""What pairing and revoking do to the devices that are there, and to those that are not."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cast import Scripted, Worker
from hermes_mobile.server.access import DELIVER_SOCKET
from hermes_mobile.server.devices import AccessFileError, Devices
from house import TOKEN, attachment, delivery, open_house, texts
from store import FakeStore


@pytest.fixture
def devices():
    return Devices(store=FakeStore(), clock=trio.current_time)


async def test_a_device_is_known_once_it_said_hello(autojump_clock, devices):
    """With what it said of itself; seen again when it leaves. One without an id is not, nor a courier."""
    async with open_house(devices=devices, deliver_tokens=frozenset({"cron"})) as house:
        began = int(trio.current_time())
        peer = await house.connect("phone", token=TOKEN)
        await house.connect(None)
        await house.connect("script", token="cron")
        await house.connect("stranger", token="wrong")
        await trio.sleep(10)
        assert [(each.id, each.name, each.last_seen) for each in devices] == [
            ("phone", "Phone", began)
        ]
        await house.lose(peer)
        assert [each.last_seen for each in devices] == [began + 10]


async def test_a_paired_device(autojump_clock, devices):
    """D8: it is bound from that moment: its old connection ends, and the session passes on."""
    async with open_house(devices=devices) as house:
        before, witness = await house.connect("phone"), await house.connect("witness")
        await before.say("m1", "/think 5")
        await before.expect("typing")
        token = await house.hub.devices.pair("phone")
        house.hub.close_withdrawn()
        assert (await before.expect("error"))["code"] == "forbidden"
        assert await before.wait_closed() == (1008, "forbidden")
        assert (await house.connect("phone")).closed == (1008, "forbidden")
        after = await house.connect("phone", token=token)
        assert (await after.expect("message"))["text"] == "Thought for 5 s."
        assert (await house.connect("tablet", token=token)).closed == (1008, "forbidden")
        assert await witness.drain() == []


async def test_a_rotation(autojump_clock, devices):
    """Two tokens side by side; replacing them ends the connection with `auth_failed`."""
    async with open_house(devices=devices) as house:
        old = await devices.pair("phone")
        peer = await house.connect("phone", token=old)
        new = await devices.pair("phone")
        house.hub.close_withdrawn()
        assert await peer.drain() == []
        last = await devices.pair("phone", replace=True)
        house.hub.close_withdrawn()
        assert await peer.wait_closed() == (1008, "auth_failed")
        for token in (old, new):
            assert (await house.connect("phone", token=token)).closed == (1008, "auth_failed")
        assert (await house.connect("phone", token=last)).ready["t"] == "ready"


async def test_revoking_a_device_that_is_there(autojump_clock, devices):
    """It is told `auth_failed` and nothing else, and cannot come back; the others notice nothing."""
    worker = Worker()
    async with open_house(worker, devices=devices) as house:
        peer, witness = await house.connect("phone"), await house.connect("witness")
        await peer.say("m1", "work")
        await peer.say("m2", "wait")
        await peer.expect("typing")
        await house.hub.revoke("phone")
        frames = await peer.receive_for(10)
        assert [(frame["t"], frame.get("code")) for frame in frames] == [("error", "auth_failed")]
        assert frames[0]["fatal"]
        assert peer.closed == (1008, "auth_failed")
        assert worker.cancelled == ["m1"]
        assert worker.ids == ["m1"]
        assert (await house.connect("phone")).closed == (1008, "auth_failed")
        assert house.hub.registry.get("phone") is None
        assert await witness.drain() == []


async def test_revoking_withdraws_cards(autojump_clock, devices):
    """The agent that asked is cancelled: an answer that looks like an expiry is none."""
    answers = []

    async def ask(turn):
        answers.append(await turn.ask_approval("rm"))

    async with open_house(Scripted(ask), devices=devices) as house:
        peer = await house.connect("phone")
        await peer.say("m1", "go")
        await peer.expect("prompt")
        await house.lose(peer)
        await house.hub.revoke("phone")
        await wait_all_tasks_blocked()
        assert (answers, house.hub.card_sessions) == ([], {})
        assert house.hub.registry.get("phone") is None


async def test_revoking_forgets_what_was_kept(autojump_clock, devices):
    """Even for a device that is paired again: it begins anew, and is told of no loss."""
    async with open_house(devices=devices) as house:
        await house.connect("witness")
        await house.say("one", "two")
        assert house.hub.registry.kept_bytes > 0
        await house.hub.revoke("phone")
        assert house.hub.registry.kept_bytes == 0
        token = await devices.pair("phone")
        peer = await house.connect("phone", token=token)
        assert await peer.receive_for(5) == []


async def test_what_a_stream_says_last_is_not_kept(autojump_clock, devices):
    """A turn that is cancelled still ends its stream, for nobody."""

    async def stream(turn):
        async with turn.stream() as reply:
            await reply.append("begun")
            await trio.sleep_forever()

    async with open_house(Scripted(stream), devices=devices) as house:
        peer = await house.connect("phone")
        await peer.say("m1", "go")
        await peer.expect("message")
        await house.hub.revoke("phone")
        await peer.wait_closed()
        await wait_all_tasks_blocked()
        assert house.hub.registry.get("phone") is None


async def test_nothing_is_kept_for_a_revoked_device(autojump_clock, devices):
    """Neither what agents say to it nor deliveries, which are refused even with `keep` (D25)."""
    async with open_house(devices=devices) as house:
        script = await house.connect("script")
        await house.hub.revoke("phone")
        await house.say("one")
        assert house.hub.registry.get("phone") is None
        assert await script.refusal(delivery("d1", keep=True)) == ("device_offline", False, "d1")


async def test_a_device_that_is_paired_anew_is_kept_for_at_once(autojump_clock, devices):
    """Even before it comes, and while something of before its revocation still ends."""
    stuck = trio.Event()

    async def linger(turn):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await stuck.wait()

    async with open_house(Scripted(linger), devices=devices) as house:
        peer = await house.connect("phone")
        await peer.say("m1", "go")
        await peer.expect("typing")
        await house.hub.revoke("phone")
        await peer.wait_closed()
        await house.say("lost")
        token = await devices.pair("phone")
        await house.say("kept")
        after = await house.connect("phone", token=token)
        assert texts(await after.receive_for(1)) == ["kept"]
        stuck.set()


async def test_a_revocation_that_cannot_be_kept(autojump_clock, devices):
    """Then nothing has changed: the device is still there."""
    async with open_house(devices=devices) as house:
        peer = await house.connect("phone")
        devices._store.failure = "no space left on device"
        with pytest.raises(AccessFileError):
            await house.hub.revoke("phone")
        assert await peer.drain() == []


async def test_who_connects_by_the_socket_is_a_courier(autojump_clock, devices):
    """D26: without a token it may deliver, ping and acknowledge, and nothing else; it is no device."""
    async with open_house(devices=devices) as house:
        phone = await house.connect("phone")
        script = await house.connect("phone", token="", address=DELIVER_SOCKET)
        assert script.ready["session"] == ""
        await script.send(delivery("d1", media=attachment(b"chart")))
        assert texts([await phone.receive()]) == ["text of d1"]
        assert (await phone.receive())["t"] == "media"
        await script.send({"t": "ack", "id": "d1"})
        assert await script.refusal({"t": "text", "id": "m1", "text": "hi"}) == (
            "forbidden",
            False,
            "m1",
        )
        house.hub.close_withdrawn()
        assert await script.drain() == []
        assert await phone.drain() == []
