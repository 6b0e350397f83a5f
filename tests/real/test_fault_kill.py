"""A server that is killed under load, and started again on the same port, three times."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import Counter

import pytest
import trio

from hermes_mobile.client import Device, Message, OfflineError, open_client
from street import PATIENCE, TOKEN, environment

pytestmark = pytest.mark.slow
LIVES = 4
PHONES = 6
MESSAGES = 80
"""Of each phone; every tenth is a file."""
FILE_BYTES = 96 << 10


class Phone:
    """A device that sends numbered messages, each when the one before was accepted."""

    def __init__(self, number: int, crowd: Crowd) -> None:
        self.number = number
        self.names = [f"{number}-{n:03}" for n in range(MESSAGES)]
        self._crowd = crowd

    async def talk(self, url: str) -> None:
        device = Device(f"phone-{self.number}")
        async with (
            open_client(url, token=TOKEN, device=device, max_backoff=0.1) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._listen, client)
            for name in self.names:
                await self._send(client, name)
            await self._crowd.last_life.wait()
            for name in self.names:
                if not self._crowd.answers[name]:  # it died with the server that had accepted it
                    await self._send(client, name)
            await self._crowd.wait_answered(self.names)
            nursery.cancel_scope.cancel()

    async def _send(self, client, name: str) -> None:
        """Send until it was accepted."""
        while True:
            try:
                if name.endswith("0"):
                    await client.send_document(content(name), filename=f"{name}.bin", id=name)
                else:
                    await client.send_text(name, id=name)
            except OfflineError:
                await client.wait_ready()
            else:
                return

    async def _listen(self, client) -> None:
        async for event in client:
            if isinstance(event, Message):
                self._crowd.answered(event.text)


class Crowd:
    """All phones, and what they were answered."""

    def __init__(self) -> None:
        self.phones = [Phone(number, self) for number in range(PHONES)]
        self.answers: Counter[str] = Counter()
        self.last_life = trio.Event()
        self._changed = trio.lowlevel.ParkingLot()

    def answered(self, name: str) -> None:
        self.answers[name] += 1
        self._changed.unpark_all()

    async def wait_answered(self, names: list[str]) -> None:
        with trio.fail_after(PATIENCE):
            while not all(self.answers[name] for name in names):
                await self._changed.park()

    async def wait_answers(self, count: int) -> None:
        with trio.fail_after(3 * PATIENCE):  # a start of the server among them
            while len(self.answers) < count:
                await self._changed.park()


async def test_a_server_is_killed_under_load(serve, tmp_path):
    """T9, D19, D32: each life of the server acts once on what it accepted, and no file is harmed.

    Messages: every one is accepted, and acted on once, in order, in the life that accepted it; again
    only in a later one, when receipt or answer had died with the server: that is what memory only
    means. Each is answered, and no answer is shown twice. Files: whole, one for each that was accepted,
    and no half of one is left; a token that was paired before still admits its device. Connections:
    all phones come back by themselves. Descriptors: after the last phone as before the first.
    """
    state = tmp_path / "state"
    ledgers = [tmp_path / f"life-{life}" for life in range(LIVES)]
    paired_token = pair(state, "tablet")

    def start(life: int, port: int = 0):
        settings = {"MOBILE_STATE_DIR": state, "LEDGER": ledgers[life], "MOBILE_PORT": port}
        return serve("--agent", "ledger:LedgerAgent", **settings)

    server = start(0)
    port, descriptors = server.port, server.descriptors
    crowd = Crowd()
    async with trio.open_nursery() as nursery:
        for phone in crowd.phones:
            nursery.start_soon(phone.talk, server.url)
        for life in range(1, LIVES):
            await crowd.wait_answers(life * PHONES * MESSAGES // LIVES)
            server.process.kill()
            await trio.to_thread.run_sync(server.wait)
            server = await trio.to_thread.run_sync(start, life, port)
        crowd.last_life.set()
    for phone in crowd.phones:
        await server.wait_logged("connection", device=f"phone-{phone.number}")
    assert server.descriptors <= descriptors

    lives = [ledger.read_text().split() for ledger in ledgers]
    for life, names in enumerate(lives):
        assert len(set(names)) == len(names)
        for phone in crowd.phones:
            own = [name for name in names if name in phone.names]
            assert life == LIVES - 1 or own == sorted(own)
    acted = Counter(name for names in lives for name in names)
    every = [name for phone in crowd.phones for name in phone.names]
    assert sorted(acted) == sorted(crowd.answers) == sorted(every)
    assert crowd.answers <= acted

    received = state / "received"
    files = {path.name.partition("-")[2].partition("-")[2]: path for path in received.iterdir()}
    assert sorted(files) == sorted(f"{name}.bin" for name in every if name.endswith("0"))
    for name, path in files.items():
        assert path.read_bytes() == content(name.removesuffix(".bin"))
    async with server.connect("tablet", token=paired_token):
        pass


def content(name: str) -> bytes:
    """A file that is like no other."""
    return hashlib.shake_256(name.encode()).digest(FILE_BYTES)


def pair(state_dir, device: str) -> str:
    """Pair a device while there is no server; returns its token."""
    paired = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "hermes_mobile", "pair", "--device", device],
        env=environment(MOBILE_STATE_DIR=state_dir, MOBILE_TOKEN=TOKEN),
        capture_output=True,
        text=True,
        check=True,
    )
    [token] = re.findall(r"^ *token +(\S+)$", paired.stdout, re.MULTILINE)
    return token
