"""Files of devices on disk: what they are called, how long they stay, what a failing disk does."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import unicodedata
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from cast import Recorder
from hermes_mobile.agents import FileInput, VoiceInput
from hermes_mobile.protocol.errors import ProtocolError
from hermes_mobile.protocol.frames import AudioFormat, MediaIn
from hermes_mobile.server.received import Received, open_received, safe_name
from hermes_mobile.server.settings import Settings, SettingsError
from house import audio, chunk, open_house

NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{12}-(.+)")


def document(data: bytes = b"12345", filename: str = "report.pdf", id: str = "f1") -> FileInput:
    return FileInput(id, MediaIn.DOCUMENT, "application/pdf", data, filename)


def in_directory(directory: Path) -> list[str]:
    """The readable ends of the names that are there, in the order of their age."""
    return [NAME.fullmatch(path.name)[1] for path in sorted(directory.iterdir())]


@asynccontextmanager
async def open_files(directory: Path, max_bytes: int = 100, max_age: float = 60.0):
    """The files of `directory`, with their janitor; on leaving all that it began is done."""
    files = Received(directory, max_bytes, max_age)
    await files.load()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.run)
        yield files
        nursery.cancel_scope.cancel()


async def pass_time(clock: trio.testing.MockClock, seconds: float) -> None:
    await trio.testing.wait_all_tasks_blocked()
    clock.jump(seconds)
    await trio.testing.wait_all_tasks_blocked()


# Names


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("Отчёт за май.pdf", "Отчёт_за_май.pdf"),
        ("हिन्दी.txt", "हिन्दी.txt"),
        ("../../etc/passwd", "file._etc_passwd"),
        ("a\x00b\u202egnp.exe", "a_b_gnp.exe"),
        (".bashrc", "bashrc"),
        ("-rf *", "-rf"),
        ("...", "file"),
        ("", "file"),
        ("🐈.jpg", "file.jpg"),
        ("a_.", "a"),
        ("x" * 200 + ".pdf", "x" * 80 + ".pdf"),
        ("я" * 100 + ".jpeg", "я" * 40 + ".jpeg"),
        ("a." + "b" * 100, "a." + "b" * 19),
    ],
)
def test_a_name_stays_readable(given_name, kept):
    """Letters and digits of any script stay; the rest becomes `_`, and what is long is cut."""
    assert safe_name(given_name) == kept


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_no_name_leads_anywhere(name):
    """Whatever an app calls a file, it is one part of a path that every file system takes."""
    safe = safe_name(name)
    assert safe
    assert len(Path(f"x-{safe}").parts) == 1
    assert len(safe.encode()) <= 100
    assert not {unicodedata.category(each) for each in safe} & {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    assert not re.search(r"[\s/\\:*?\"'<>|$`]", safe)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (document(), "report.pdf"),
        (FileInput("f1", MediaIn.IMAGE, "image/jpeg", b"x"), "image.jpg"),
        (FileInput("f1", MediaIn.DOCUMENT, "application/x-unheard-of", b"x"), "document"),
        (VoiceInput("m1", AudioFormat.OGG, b"x"), "voice.ogg"),
    ],
)
async def test_a_file_without_a_name_is_called_what_it_is(tmp_path, message, name):
    """The kind, and the suffix of its type, where there is one."""
    async with open_files(tmp_path) as files:
        kept = await files.keep(message)
    assert NAME.fullmatch(kept.path.name)[1] == name


async def test_equal_names_do_not_meet(tmp_path):
    """Two files of one name, within one second, are two files."""
    async with open_files(tmp_path) as files:
        first = await files.keep(document(b"1"))
        second = await files.keep(document(b"2"))
    assert (first.path.read_bytes(), second.path.read_bytes()) == (b"1", b"2")


# Bounds


async def test_only_the_servers_user_may_read(tmp_path):
    """The directory has the mode 0700, a file 0600, whatever the umask allows."""
    before = os.umask(0)
    try:
        async with open_files(tmp_path / "state" / "received") as files:
            kept = await files.keep(document())
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.path.parent.parent.stat().st_mode) == 0o700


async def test_the_oldest_make_room(tmp_path):
    """All files together stay within the quota, to the byte."""
    async with open_files(tmp_path, max_bytes=10) as files:
        for name in ("a", "b", "c"):
            await files.keep(document(b"12345", name))
        assert (len(files), files.bytes) == (2, 10)
        assert sorted(in_directory(tmp_path)) == ["b", "c"]
        await files.keep(document(b"1234567890", "d"))
        assert (len(files), files.bytes) == (1, 10)
    assert in_directory(tmp_path) == ["d"]


async def test_a_file_beyond_the_quota_is_refused(tmp_path):
    """It removes nothing, and the app is told the limit."""
    async with open_files(tmp_path, max_bytes=10) as files:
        await files.keep(document(b"12345", "a"))
        with pytest.raises(ProtocolError, match="at most 10 bytes") as refused:
            await files.keep(document(b"12345678901", "b", "f2"))
    assert (refused.value.code, refused.value.id) == ("internal_error", "f2")
    assert in_directory(tmp_path) == ["a"]


async def test_a_file_is_removed_at_its_age(tmp_path, mock_clock):
    """Each at its own time, exactly."""
    async with open_files(tmp_path, max_age=60.0) as files:
        await files.keep(document(filename="a"))
        await pass_time(mock_clock, 20.0)
        await files.keep(document(filename="b"))
        await pass_time(mock_clock, 39.9)
        assert (len(files), files.bytes) == (2, 10)
        await pass_time(mock_clock, 0.1)
        assert (len(files), files.bytes) == (1, 5)
    assert in_directory(tmp_path) == ["b"]


async def test_files_of_earlier_runs_count(tmp_path, mock_clock):
    """For the quota and with the age that they have; what is not ours is left alone."""
    async with open_files(tmp_path) as files:
        old = await files.keep(document(filename="old"))
        new = await files.keep(document(filename="new"))
    now = new.path.stat().st_mtime
    os.utime(old.path, (now - 50.0, now - 50.0))
    os.utime(new.path, (now + 9e6, now + 9e6))  # a clock that was wrong then
    (tmp_path / f".half-{old.path.name}").write_bytes(b"123")
    for foreign in ("notes.txt", "20261130T164912Z-report.pdf"):
        (tmp_path / foreign).write_bytes(bytes(1000))
    (tmp_path / "20261130T164912Z-4f1c9a2077ab-elsewhere").symlink_to(tmp_path / "notes.txt")
    async with open_files(tmp_path, max_age=60.0) as files:
        assert (len(files), files.bytes) == (2, 10)
        await pass_time(mock_clock, 10.0)
        assert (len(files), files.bytes) == (1, 5)
        await pass_time(mock_clock, 50.0)
        assert (len(files), files.bytes) == (0, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "20261130T164912Z-4f1c9a2077ab-elsewhere",
        "20261130T164912Z-report.pdf",
        "notes.txt",
    ]


@pytest.mark.parametrize("zero", ["received_bytes", "received_seconds"])
async def test_zero_keeps_none(tmp_path, zero):
    """Files of earlier runs go too, and a message has no path."""
    async with open_files(tmp_path / "received") as files:
        await files.keep(document())
    async with open_house(agent := Recorder(), state_dir=tmp_path, **{zero: 0}) as house:
        peer = await house.connect()
        await peer.send(chunk("f1", b"12345"))
        await peer.expect("message")
        assert house.hub.received is None
    assert agent.inputs[0].path is None
    assert list((tmp_path / "received").iterdir()) == []


async def test_without_a_state_directory_none_are_kept():
    """Nothing is asked of a disk."""
    assert await open_received(Settings()) is None


async def test_a_directory_that_cannot_be_used(tmp_path):
    """It is the operator's to mend: one line, with the setting."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"^MOBILE_STATE_DIR: .*/file/received cannot be used"):
        await open_received(Settings(state_dir=tmp_path / "file"))


# Trouble


@pytest.fixture
def full_disk(monkeypatch):
    """A disk that is full as long as the fixture's event is set."""
    full = threading.Event()
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return full


async def test_a_full_disk_leaves_no_half_file(tmp_path, logs, full_disk):
    """The message is refused, its room is given back, and the log names no file (D39)."""
    async with open_files(tmp_path, max_bytes=10) as files:
        full_disk.set()
        with pytest.raises(ProtocolError, match="resend later"):
            await files.keep(document(b"1234567890", "secret.pdf"))
        assert (len(files), files.bytes) == (0, 0)
        assert list(tmp_path.iterdir()) == []
        full_disk.clear()
        await files.keep(document(b"1234567890", "secret.pdf"))
    assert [(line["event"], line["error"]) for line in logs] == [
        ("file not kept", "No space left on device")
    ]
    assert "secret" not in str(logs)


async def test_a_file_that_cannot_be_removed_is_told(tmp_path, logs):
    """It is not counted any more, and the next one is kept."""
    async with open_files(tmp_path, max_bytes=5) as files:
        stuck = (await files.keep(document(filename="secret"))).path
        stuck.unlink()
        stuck.mkdir()
        kept = await files.keep(document(filename="next"))
    assert kept.path.exists()
    assert [line["event"] for line in logs] == ["file not removed"]
    assert "secret" not in str(logs)


async def test_one_who_is_cancelled_leaves_nothing(tmp_path):
    """The disk's answer is waited for, and the file removed."""
    async with open_files(tmp_path) as files:
        with trio.CancelScope() as scope:
            scope.cancel()
            await files.keep(document())
        assert scope.cancelled_caught
        assert (len(files), files.bytes) == (0, 0)
    assert list(tmp_path.iterdir()) == []


# Through real connections


async def test_the_agent_gets_the_path(tmp_path):
    """A file and a recording are on disk before the agent sees them, and stay there."""
    async with open_house(agent := Recorder(), state_dir=tmp_path) as house:
        peer = await house.connect()
        await peer.send(chunk("f1", b"con", 0, 2, filename="notes.txt"))
        await peer.send(chunk("f1", b"tent", 1, 2))
        await peer.expect("message")
        await peer.send(audio("m1", "T2dnUw=="))
        await peer.expect("message")
    file, voice = agent.inputs
    assert file.path.parent == tmp_path / "received"
    assert file.path.read_bytes() == file.data == b"content"
    assert voice.path.read_bytes() == voice.data == b"OggS"
    assert "notes" not in repr(file)


async def test_a_message_whose_file_is_not_kept_can_be_sent_again(tmp_path, full_disk):
    """D19: `internal_error`, not recorded; texts and other devices notice nothing."""
    async with open_house(agent := Recorder(), state_dir=tmp_path) as house:
        peer, other = await house.connect("phone"), await house.connect("tablet")
        full_disk.set()
        refusal = await peer.refusal(chunk("f1", b"12345"))
        assert refusal == ("internal_error", False, "f1")
        assert await peer.refusal(audio("m1", "T2dnUw==")) == ("internal_error", False, "m1")
        for device in (peer, other):
            await device.say("m2", "hello")
            await device.expect("message")
        full_disk.clear()
        await peer.send(chunk("f1", b"12345"))
        await peer.expect("message")
        assert house.hub.metrics.received_failed == 2
    assert agent.ids == ["m2", "m2", "f1"]


async def test_a_message_that_is_refused_leaves_no_file(tmp_path, logs, full_disk):
    """D20: a queue without room is found before the disk is asked."""
    async with open_house(state_dir=tmp_path, queue_messages=1) as house:
        peer = await house.connect()
        await peer.say("m1", "/think 100")
        await peer.expect("typing")
        await peer.say("m2", "waits")
        full_disk.set()
        refusal = await peer.refusal(chunk("f1", b"12345"))
        assert refusal == ("internal_error", False, "f1")
        assert "file not kept" not in {line["event"] for line in logs}
    assert list((tmp_path / "received").iterdir()) == []


class Gate:
    """Holds threads that write, and says when one has come."""

    def __init__(self, monkeypatch) -> None:
        self.reached = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._open = threading.Event()
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._wait)

    def _wait(self, descriptor: int) -> None:
        self._token.run_sync_soon(self.reached.set)
        assert self._open.wait(60)
        self._sync(descriptor)

    def open(self) -> None:
        self._open.set()


async def test_the_quota_holds_while_files_are_written(tmp_path, monkeypatch):
    """What is being written cannot make room, so another file that does not fit is refused."""
    async with open_files(tmp_path, max_bytes=10) as files, trio.open_nursery() as nursery:
        await files.keep(document(b"123", "old"))
        gate = Gate(monkeypatch)
        nursery.start_soon(files.keep, document(b"12345678", "first"))
        await gate.reached.wait()
        with pytest.raises(ProtocolError, match="at once: resend later") as refused:
            await files.keep(document(b"123", "second", "f2"))
        assert refused.value.id == "f2"
        assert (len(files), files.bytes) == (0, 8)
        gate.open()
    assert in_directory(tmp_path) == ["first"]


async def test_a_file_sent_twice_at_once_is_taken_once(tmp_path, monkeypatch):
    """D19: the old connection is still writing when the new one has sent the same message again."""
    async with open_house(agent := Recorder(), state_dir=tmp_path) as house:
        gate = Gate(monkeypatch)
        old = await house.connect(receipts=True)
        await old.send(chunk("f1", b"12345"))
        await gate.reached.wait()
        new = await house.connect(receipts=True)
        await new.send(chunk("f1", b"12345"))
        gate.open()
        await new.expect("accepted")
        await new.expect("message")
        await old.wait_closed()
        assert (len(house.hub.received), house.hub.received.bytes) == (1, 5)
    assert agent.ids == ["f1"]
    assert len(list((tmp_path / "received").iterdir())) == 1


async def test_a_server_that_begins_to_stop_keeps_nothing(tmp_path, monkeypatch):
    """D35: a message that would have been taken when its file was begun leaves no file."""
    async with open_house(agent := Recorder(), state_dir=tmp_path) as house:
        gate = Gate(monkeypatch)
        peer = await house.connect()
        await peer.send(chunk("f1", b"12345"))
        await gate.reached.wait()
        house.hub.stopping = True
        gate.open()
        assert (await peer.expect("error"))["id"] == "f1"
    assert agent.ids == []
    assert list((tmp_path / "received").iterdir()) == []


async def test_others_are_served_while_the_disk_is_slow(tmp_path, monkeypatch):
    """Only the reader of the connection that sent the file waits."""
    async with open_house(state_dir=tmp_path) as house:
        gate = Gate(monkeypatch)
        slow, other = await house.connect("slow"), await house.connect("other")
        await slow.send(chunk("f1", b"12345"))
        await gate.reached.wait()
        await other.say("m1", "hello")
        assert (await other.expect("message"))["text"] == "hello"
        await house.say("still there?", device="slow")
        assert (await slow.expect("message"))["text"] == "still there?"
        gate.open()
        assert "12345" not in (await slow.expect("message"))["text"]
