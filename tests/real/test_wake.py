"""The wake hook, with a real command of a real server."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
import trio

from street import PATIENCE

pytestmark = pytest.mark.slow
SCRIPT = """
exec > "$1/$HERMES_MOBILE_DEVICE"
env
[ "$HERMES_MOBILE_DEVICE" = tired ] && exec sleep 600
"""
"""Tells what it was told; for the device `tired` it then hangs, with the pipe in its hand."""


class Pipe:
    """A pipe with a name, read from its first word to its end."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._stream = trio.lowlevel.FdStream(os.open(path, os.O_RDONLY | os.O_NONBLOCK))

    async def read_until(self, end: bytes) -> str:
        """Read until `end` was written; nothing is the end of the pipe."""
        read = b""
        with trio.fail_after(PATIENCE):
            await trio.lowlevel.wait_readable(self._stream.fileno())
            while not end or end not in read:
                data = await self._stream.receive_some()
                if not data:
                    break
                read += data
        return read.decode()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_a_command_is_told_who_and_what_and_ends_with_the_server(serve, tmp_path):
    """It knows the device and the kind, and neither a token nor a text; a stop does not wait for it."""
    phone, tired = Pipe(tmp_path / "phone"), Pipe(tmp_path / "tired")
    server = serve(MOBILE_WAKE_COMMAND=shlex.join(["sh", "-c", SCRIPT, "sh", str(tmp_path)]))
    async with server.connect("courier") as courier:
        await deliver(courier, "phone")
        told = await phone.read_until(b"")
        environ = dict(line.split("=", 1) for line in told.splitlines())
        assert environ["HERMES_MOBILE_DEVICE"] == "phone"
        assert environ["HERMES_MOBILE_KIND"] == "message"
        allowed = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "PWD", "OLDPWD", "SHLVL", "_"}
        hook = {"HERMES_MOBILE_DEVICE", "HERMES_MOBILE_KIND"}
        assert environ.keys() <= allowed | hook
        assert "secret words" not in told
        assert server.token not in told

        await deliver(courier, "tired")
        assert await tired.read_until(b"HERMES_MOBILE_DEVICE=tired\n")
    server.terminate()
    await tired.read_until(b"")
    for pipe in (phone, tired):
        await pipe.aclose()
    assert server.wait() == 0
    assert "secret words" not in server.log_text


async def deliver(courier, device: str) -> None:
    frame = {"t": "deliver", "id": f"to {device}", "target": device, "text": "secret words"}
    await courier.send_frame(frame | {"keep": True})
