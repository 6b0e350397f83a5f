"""A state directory whose disk is full, or cannot be written to: real file systems, small ones."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system"),
]

KIB = 1024
DISK_BYTES = 1024 * KIB
FILE = os.urandom(300 * KIB)
MOUNT = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$MOBILE_STATE_DIR" && exec "$@"'


class SmallDisk:
    """A server whose state directory is a file system of 1 MiB, which only the server sees."""

    def __init__(self, serve, directory: Path, **settings: object) -> None:
        within = ["unshare", "--mount", "sh", "-c", MOUNT, "sh"]
        self.server = serve(within=within, MOBILE_STATE_DIR=directory, **settings)
        self._directory = directory
        self.seen = Path(f"/proc/{self.server.process.pid}/root{directory}")
        """The state directory, as the server sees it."""

    @property
    def received(self) -> dict[str, bytes]:
        """The received files, by the readable part of their names; and half ones, if there are any."""
        files = (self.seen / "received").iterdir()
        return {path.name.split("-", 2)[2]: path.read_bytes() for path in files}

    def end_room(self, trouble: str) -> None:
        """Leave room for 100 KiB, or for nothing at all."""
        if trouble == "full":
            free = shutil.disk_usage(self.seen).free
            (self.seen / "filler").write_bytes(bytes(free - 100 * KIB))
        else:
            self._run("mount --bind $1 $1 && mount --options remount,bind,ro $1")

    def make_room(self, trouble: str) -> None:
        if trouble == "full":
            (self.seen / "filler").unlink()
        else:
            self._run("umount $1")

    def _run(self, script: str) -> None:
        """Run a shell script where the server is; `$1` is the directory of the files."""
        within = ["nsenter", "--target", str(self.server.process.pid), "--mount"]
        command = [*within, "sh", "-c", script, "sh", str(self._directory / "received")]
        subprocess.run(command, check=True)  # noqa: S603 - our own command


def file(id: str, filename: str, data: bytes = FILE) -> dict[str, Any]:
    encoded = base64.b64encode(data).decode()
    frame = {"t": "media", "id": id, "kind": "document", "filename": filename, "data": encoded}
    return frame | {"part": 0, "parts": 1}


@pytest.mark.parametrize("trouble", ["full", "read-only"])
async def test_a_disk_that_takes_nothing(serve, tmp_path, trouble):
    """D19: files and recordings are refused, with no half file left, and can be sent again.

    Messages: every text is echoed amid the trouble, once, in order; what was refused is taken as soon
    as there is room. Connections: both live. Descriptors and memory: as before.
    """
    disk = SmallDisk(serve, tmp_path)
    server = disk.server
    async with server.connect("phone") as phone, server.connect("witness") as witness:
        await phone.send_frame(file("f0", "before.bin"))
        assert hashlib.sha256(FILE).hexdigest() in (await phone.expect("message"))["text"]
        disk.end_room(trouble)
        descriptors, memory = server.descriptors, server.resident_bytes
        for number in range(10):
            await phone.send_frame(file("f1", "secret name.bin"))
            error = await phone.expect("error")
            assert (error["code"], error["fatal"], error["id"]) == ("internal_error", False, "f1")
            await phone.say(f"m{number}", "Still there?")
            assert (await phone.expect("message"))["text"] == "Still there?"
        voice = {"t": "audio", "id": "v1", "format": "ogg"}
        await phone.send_frame(voice | {"data": base64.b64encode(FILE).decode()})
        assert (await phone.expect("error"))["id"] == "v1"
        await witness.say("m1", "And here?")
        assert (await witness.expect("message"))["text"] == "And here?"
        assert disk.received == {"before.bin": FILE}
        assert server.descriptors == descriptors
        assert server.resident_bytes < memory + 8 * KIB * KIB

        disk.make_room(trouble)
        await phone.send_frame(file("f1", "after.bin"))
        assert "after.bin" in (await phone.expect("message"))["text"]
        assert disk.received == {"before.bin": FILE, "after.bin": FILE}
    told = [line for line in server.log if line["event"] == "file not kept"]
    reason = "No space left on device" if trouble == "full" else "Read-only file system"
    assert {line["error"] for line in told} == {reason}
    assert len(told) == 11
    assert "secret name" not in server.log_text
    server.terminate()
    assert server.wait() == 0


async def test_the_oldest_files_make_room_before_the_disk_is_full(serve, tmp_path):
    """With a quota below what the disk has, files come and go, and none is ever refused."""
    disk = SmallDisk(serve, tmp_path, MOBILE_RECEIVED_BYTES=3 * len(FILE))
    async with disk.server.connect("phone") as phone:
        for number in range(10):
            await phone.send_frame(file(f"f{number}", f"{number}.bin"))
            assert f"{number}.bin" in (await phone.expect("message"))["text"]
            assert len(disk.received) == min(3, number + 1)
    assert disk.received.keys() == {"7.bin", "8.bin", "9.bin"}
