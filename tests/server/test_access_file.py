"""The access file: whole or not at all, in nobody else's hands, and never overwritten by mistake."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.server import access_file
from hermes_mobile.server.access_file import AccessFile, open_access_file, open_devices, read, write
from hermes_mobile.server.devices import AccessFileError, Credential, KnownDevice
from hermes_mobile.server.settings import SettingsError

PHONE = KnownDevice("phone", "Phone", "ios", 1_796_056_980, (Credential.of("t"),))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
known_devices = st.lists(
    st.builds(
        KnownDevice,
        id=texts.filter(bool),
        name=texts,
        platform=texts,
        last_seen=st.none() | st.integers(0, 2**40),
        tokens=st.lists(st.binary(min_size=32, max_size=32).map(Credential)).map(tuple),
        revoked=st.booleans(),
    ),
    unique_by=(lambda device: device.id,),
).filter(
    lambda known: (
        len({each for device in known for each in device.tokens})
        == sum(len(device.tokens) for device in known)
    )
)


@given(known_devices)
def test_what_is_written_is_read(tmp_path_factory, known):
    """Whatever is known, in its order; and writing it again changes no byte."""
    directory = tmp_path_factory.mktemp("state")
    write(directory, known)
    assert read(directory) == known
    before = (directory / "devices.json").read_bytes()
    write(directory, read(directory))
    assert (directory / "devices.json").read_bytes() == before


def test_it_is_the_owners_alone(tmp_path):
    """Mode 0600, with digests and no token in it, and nothing beside it."""
    write(tmp_path, [KnownDevice("phone", tokens=(Credential.of("a-secret"),))])
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "a-secret" not in file.read_text()
    assert json.loads(file.read_text())["version"] == 1


def test_no_file_is_no_device(tmp_path):
    """A server that never paired anybody has none."""
    assert read(tmp_path) == []


def entry(**fields):
    empty = {"name": "", "platform": "", "last_seen": None, "tokens": [], "revoked": False}
    return {"id": "phone", **empty, **fields}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is damaged: no JSON"),
        ("{", "is damaged: no JSON"),
        ("[]", "is of a version that is not known here"),
        ('{"version": 2, "devices": []}', "is of a version that is not known here"),
        ('{"version": 1}', "is damaged: its devices"),
        ([1], "is damaged: its devices"),
        ([{}], "is damaged: its devices"),
        ([entry(id="")], "is damaged: its devices"),
        ([entry(id=1)], "is damaged: its devices"),
        ([entry(last_seen=True)], "is damaged: its devices"),
        ([entry(last_seen="now")], "is damaged: its devices"),
        ([entry(revoked=0)], "is damaged: its devices"),
        ([entry(tokens=["xx"])], "is damaged: its devices"),
        ([entry(tokens=["ab"])], "is damaged: its devices"),
        ([entry(tokens="ab" * 32)], "is damaged: its devices"),
        ([entry(tokens=["ab" * 32] * 2)], "is there twice"),
        ([entry(), entry()], "is there twice"),
        ([entry(tokens=["ab" * 32]), entry(id="b", tokens=["ab" * 32])], "is there twice"),
    ],
)
async def test_a_damaged_file(tmp_path, content, says):
    """One line that names the file; nothing is overwritten."""
    if not isinstance(content, str):
        content = json.dumps({"version": 1, "devices": content})
    path = tmp_path / "devices.json"
    path.write_text(content)
    with pytest.raises(SettingsError) as raised:
        async with open_devices(tmp_path):
            pass
    assert str(raised.value).startswith(f"MOBILE_STATE_DIR: {path} ")
    assert says in str(raised.value)
    assert path.read_text() == content


def test_a_file_that_cannot_be_read(tmp_path):
    """One line that says why."""
    (tmp_path / "devices.json").mkdir()
    with pytest.raises(AccessFileError, match=r"devices\.json cannot be read: Is a directory"):
        read(tmp_path)


def test_a_write_that_fails(tmp_path, monkeypatch):
    """One line that says why, and the file is as it was."""
    write(tmp_path, [PHONE])

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(AccessFileError, match="cannot be written: No space left on device"):
        write(tmp_path, [])
    assert read(tmp_path) == [PHONE]


async def test_devices_outlive_a_server(tmp_path):
    """Another server with the same directory knows them, and the directory is made when missing."""
    directory = tmp_path / "deep" / "state"
    async with open_devices(directory) as devices:
        token = await devices.pair("phone", name="Phone")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    async with open_devices(directory) as devices:
        assert devices.owner_of(Credential.of(token)) == "phone"
        await devices.reload()
        assert [device.name for device in devices] == ["Phone"]


async def test_a_write_that_nobody_waited_for(tmp_path, monkeypatch):
    """It is made, but not after a later one, whose state is newer."""
    may_go_on = threading.Event()
    fsync = os.fsync

    def slow_fsync(file):
        may_go_on.wait(20)
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    async with open_access_file(tmp_path) as file:
        with trio.move_on_after(0.05):
            await file.write([KnownDevice("given-up")])
        async with trio.open_nursery() as nursery:
            for name in ("second", "third"):
                nursery.start_soon(file.write, [KnownDevice(name)])
                await trio.testing.wait_all_tasks_blocked()
            may_go_on.set()
        assert [device.id for device in await file.read()] == ["third"]


async def test_an_older_write_undoes_no_later_one(tmp_path):
    """Whichever of their threads gets its turn first."""
    file = AccessFile(tmp_path)
    file._write(2, [KnownDevice("later")])
    file._write(1, [KnownDevice("given-up")])
    assert read(tmp_path) == [KnownDevice("later")]


async def test_a_read_that_hangs_holds_up_nobody(tmp_path, monkeypatch):
    """Who is cancelled meanwhile goes on at once: a server that is to stop, for one."""
    may_go_on = threading.Event()
    monkeypatch.setattr(access_file, "read", lambda _: may_go_on.wait(5))
    async with open_access_file(tmp_path) as file:
        with trio.move_on_after(0.05) as waiting:
            await file.read()
        assert waiting.cancelled_caught
    may_go_on.set()


async def test_without_a_directory(tmp_path):
    """The devices are known as long as the server runs."""
    async with open_devices(None) as devices:
        assert list(devices) == []


async def test_a_directory_that_cannot_be(tmp_path):
    """One line that names it."""
    (tmp_path / "file").touch()
    with pytest.raises(AccessFileError, match="file/state cannot be used: Not a directory"):
        async with open_access_file(tmp_path / "file" / "state"):
            pass


async def test_one_at_a_time(tmp_path, monkeypatch):
    """A second server or command waits for the lock, for 5 s, then says who has it."""
    monkeypatch.setattr(access_file, "LOCK_SECONDS", 0.05)
    async with open_access_file(tmp_path):
        with pytest.raises(AccessFileError, match="is in use by another hermes-mobile"):
            async with open_access_file(tmp_path):
                pass
    async with open_access_file(tmp_path):
        pass


async def test_a_lock_that_is_let_go(tmp_path):
    """Whoever waits for it gets it then: a command does not keep a server from starting."""
    lock = os.open(tmp_path / "devices.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    opened = trio.Event()

    async def open_it():
        async with open_access_file(tmp_path):
            opened.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_it)
        await trio.testing.wait_all_tasks_blocked()
        assert not opened.is_set()
        os.close(lock)
        await opened.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_what_root_writes_belongs_to_the_directorys_owner(tmp_path):
    """A command of root's does not lock the server, which is somebody else, out of its own files."""
    directory = tmp_path / "state"
    directory.mkdir()
    os.chown(directory, 4321, 1234)
    async with open_devices(directory) as devices:
        await devices.pair("phone")
    assert {(each.stat().st_uid, each.stat().st_gid) for each in directory.iterdir()} == {
        (4321, 1234)
    }
