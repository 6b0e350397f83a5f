"""The devices that a running server knows: what a change means, and when it counts."""

from __future__ import annotations

import pytest
import trio

from hermes_mobile.protocol.frames import Device
from hermes_mobile.server import devices as module
from hermes_mobile.server.devices import (
    MAX_TOKENS,
    AccessFileError,
    Credential,
    DeviceError,
    Devices,
    KnownDevice,
)
from store import FakeStore

PHONE = Device("phone", "Anna's phone", "ios")


async def test_a_paired_token(autojump_clock):
    """It belongs to its device at once, and only its digest is kept."""
    store = FakeStore()
    devices = Devices(store=store)
    token = await devices.pair("phone", name="Phone")
    assert len(token) >= 43
    assert devices.owner_of(Credential.of(token)) == "phone"
    assert devices.is_bound("phone")
    assert store.known == [KnownDevice("phone", "Phone", tokens=(Credential.of(token),))]
    assert token not in repr(store.known)


async def test_a_rotation(autojump_clock):
    """A second token is valid beside the first, until the one that replaces both."""
    devices = Devices(store=FakeStore())
    first, second = await devices.pair("phone"), await devices.pair("phone", name="Phone")
    assert {devices.owner_of(Credential.of(each)) for each in (first, second)} == {"phone"}
    third = await devices.pair("phone", replace=True)
    assert [devices.owner_of(Credential.of(each)) for each in (first, second, third)] == [
        None,
        None,
        "phone",
    ]
    assert devices.get("phone") == KnownDevice("phone", "Phone", tokens=(Credential.of(third),))


async def test_too_many_tokens(autojump_clock):
    """A device has at most 16; replacing them is always possible."""
    devices = Devices(store=FakeStore())
    for _ in range(MAX_TOKENS):
        await devices.pair("phone")
    with pytest.raises(DeviceError, match="phone has 16 tokens: --replace withdraws them"):
        await devices.pair("phone")
    await devices.pair("phone", replace=True)


async def test_a_revoked_device(autojump_clock):
    """Its tokens are gone, and it stays revoked until it is paired anew."""
    store = FakeStore()
    devices = Devices(store=store)
    token = await devices.pair("phone")
    await devices.revoke("phone")
    assert devices.owner_of(Credential.of(token)) is None
    assert (devices.is_revoked("phone"), devices.is_bound("phone")) == (True, False)
    assert store.known == [KnownDevice("phone", revoked=True)]
    await devices.pair("phone")
    assert (devices.is_revoked("phone"), devices.is_bound("phone")) == (False, True)


@pytest.mark.parametrize("change", [Devices.pair, Devices.revoke])
async def test_a_change_that_cannot_be_kept(change, autojump_clock):
    """It is refused in words, and nothing has changed, here or there."""
    store = FakeStore()
    devices = Devices(store=store)
    token = await devices.pair("phone")
    before = store.known
    store.failure = "no space left on device"
    with pytest.raises(AccessFileError, match="no space left"):
        await change(devices, "phone")
    assert list(devices) == before == store.known
    assert devices.owner_of(Credential.of(token)) == "phone"


@pytest.mark.parametrize("change", [Devices.pair, Devices.revoke])
async def test_changes_need_a_place(change):
    """Without a state directory there is none, and the error names the setting."""
    with pytest.raises(AccessFileError, match="MOBILE_STATE_DIR is not set"):
        await change(Devices(), "phone")


async def test_a_change_is_finished(autojump_clock):
    """Whoever gives up waiting for it: what is on disk is also true here."""
    store = FakeStore(seconds=2.0)
    devices = Devices(store=store)
    with trio.move_on_after(1):
        await devices.revoke("phone")
    assert trio.current_time() == 2
    assert devices.is_revoked("phone")
    assert list(devices) == store.known


async def test_a_disk_that_does_not_answer(autojump_clock):
    """A change has 4 seconds; then it is given up in words, whoever waits, and the next one may work."""
    store = FakeStore(seconds=60.0)
    devices = Devices(store=store)
    with pytest.raises(AccessFileError, match="the disk does not answer"):
        await devices.revoke("phone")
    assert trio.current_time() == 4
    assert not devices.is_revoked("phone")
    store.seconds = 0.0
    await devices.revoke("phone")
    assert devices.is_revoked("phone")


async def test_changes_wait_for_each_other(autojump_clock):
    """Of two at the same time none is lost, nor what was seen meanwhile."""
    store = FakeStore(seconds=1.5)
    devices = Devices(store=store, clock=lambda: 1000.9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(devices.revoke, "tablet")
        nursery.start_soon(devices.revoke, "phone")
        await trio.sleep(1)
        devices.seen(PHONE)
    assert store.written_at == [1.5, 3]
    phone = KnownDevice("phone", "Anna's phone", "ios", 1000, revoked=True)
    assert set(devices) == {KnownDevice("tablet", revoked=True), phone}


async def test_when_it_was_seen_is_saved_within_a_minute(autojump_clock):
    """One write for all, a minute after the first; nothing is written when nobody came."""
    store = FakeStore()
    devices = Devices(store=store, clock=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(devices.run)
        await trio.sleep(100)
        for n in range(40):
            devices.seen(Device(f"device-{n % 4}", f"Number {n}"))
            await trio.sleep(1)
        await trio.sleep(1000)
        assert store.written_at == [160]
        assert [(each.id, each.name) for each in store.known] == [
            (f"device-{n % 4}", f"Number {n}") for n in range(36, 40)
        ]
        devices.seen(Device("device-0"))
        await trio.sleep(1000)
        assert store.written_at == [160, 1200]
        assert store.known[-1] == KnownDevice("device-0", "Number 36", last_seen=1140)
        nursery.cancel_scope.cancel()


async def test_a_save_that_fails_is_tried_again(autojump_clock, logs):
    """The log says so each time, and what was not saved is not forgotten."""
    store = FakeStore(failure="no space left on device")
    devices = Devices(store=store)
    devices.seen(PHONE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(devices.run)
        await trio.sleep(130)
        store.failure = ""
        await trio.sleep(1000)
        nursery.cancel_scope.cancel()
    assert [entry["event"] for entry in logs] == ["known devices not saved"] * 2
    assert store.written_at == [180]
    assert store.known[0].name == "Anna's phone"


async def test_without_a_place_nothing_is_saved(autojump_clock):
    """The devices are known all the same, as long as the server runs."""
    devices = Devices(clock=lambda: 1.0)
    devices.seen(PHONE)
    await devices.save()
    await devices.reload()
    assert list(devices) == [KnownDevice("phone", "Anna's phone", "ios", 1)]


async def test_strangers_are_forgotten(monkeypatch):
    """Who was merely seen is known among so many; who has a token or was revoked always is."""
    monkeypatch.setattr(module, "MAX_DEVICES", 3)
    bound = KnownDevice("bound", tokens=(Credential.of("t"),))
    devices = Devices([bound, KnownDevice("revoked", revoked=True), KnownDevice("old")])
    devices.seen(PHONE)
    assert [device.id for device in devices] == ["bound", "revoked", "phone"]
    devices.seen(Device("tablet"))
    assert [device.id for device in devices] == ["bound", "revoked", "tablet"]
    everybody = [KnownDevice(f"{n}", revoked=True) for n in range(4)]
    devices = Devices(everybody)
    devices.seen(Device("0"))
    assert {device.id for device in devices} == {"0", "1", "2", "3"}


async def test_the_file_is_read_again(autojump_clock):
    """Tokens and revocations are then the file's; what was seen since stays."""
    store = FakeStore()
    devices = Devices(store=store, clock=lambda: 7.0)
    kept, withdrawn = await devices.pair("phone"), await devices.pair("tablet")
    devices.seen(PHONE)
    store.known = [
        KnownDevice("new", tokens=(Credential.of("new"),)),
        KnownDevice("phone", tokens=(Credential.of(kept),), revoked=False),
    ]
    await devices.reload()
    owners = [devices.owner_of(Credential.of(token)) for token in (kept, withdrawn, "new")]
    assert owners == ["phone", None, "new"]
    assert [device.id for device in devices] == ["new", "tablet", "phone"]
    assert devices.get("phone") == KnownDevice(
        "phone", "Anna's phone", "ios", 7, (Credential.of(kept),)
    )
    store.failure = "damaged"
    with pytest.raises(AccessFileError):
        await devices.reload()
    assert devices.owner_of(Credential.of("new")) == "new"
