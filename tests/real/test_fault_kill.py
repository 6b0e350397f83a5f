"""A server that is killed under load, and started again on the same port, three times."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections import Counter

import pytest
import trio

from hermes_mobile.client import Device, Message, OfflineError, Ready, open_client
from street import PATIENCE, TOKEN, environment

pytestmark = pytest.mark.slow
LIVES = 4
PHONES = 6
MESSAGES = 80
"""Of each phone; every tenth is a file."""
FILE_BYTES = 96 << 10


class Phone:
    """A device that sends numbered messages, each when the one before was accepted.

    On each new connection it begins again with the first one that has no answer yet.
    """

    def __init__(self, number: int, crowd: Crowd) -> None:
        self.number = number
        self.names = [f"{number}-{n:03}" for n in range(MESSAGES)]
        self._crowd = crowd
        self._connections = 0

    async def talk(self, url: str) -> None:
        device = Device(f"phone-{self.number}")
        async with (
            open_client(url, token=TOKEN, device=device, max_backoff=0.1) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._listen, client)
            while self._unanswered:
                await self._send_all(client)
            nursery.cancel_scope.cancel()

    @property
    def _unanswered(self) -> list[str]:
        return [name for name in self.names if not self._crowd.answers[name]]

    async def _send_all(self, client) -> None:
        """Send what has no answer, and wait for the answers, or for another connection."""
        await client.wait_ready()
        connections = self._connections
        for name in self._unanswered:
            await self._send(client, name)
            if self._connections != connections:
                return
        while self._unanswered and self._connections == connections:
            await self._crowd.changed.park()

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
            match event:
                case Message():
                    self._crowd.answers[event.text] += 1
                case Ready():
                    self._connections += 1
            self._crowd.changed.unpark_all()


class Crowd:
    """All phones, and what they were answered."""

    def __init__(self) -> None:
        self.phones = [Phone(number, self) for number in range(PHONES)]
        self.answers: Counter[str] = Counter()
        self.changed = trio.lowlevel.ParkingLot()

    async def wait_answers(self, count: int) -> None:
        """Wait until so many messages have an answer."""
        with trio.fail_after(3 * PATIENCE):  # a start of the server among them
            while len(+self.answers) < count:
                await self.changed.park()


async def test_a_server_is_killed_under_load(serve, tmp_path):
    """T9, D19, D32: each life of the server acts once on what it accepted, and no file is harmed.

    Messages: every one is accepted, acted on, and answered. In one life it is acted on once, and in the
    order of sending, but for the one that was on its way when that life began; again only in a later
    one, where receipt or answer had died with the server: that is what memory only means. No answer is
    shown twice. Files: each is there, whole, and no half of one is left; a token that was paired before
    still admits its device. Connections: all phones come back by themselves. Descriptors: after the
    last phone as before the first.
    """
    state = tmp_path / "state"
    ledgers = [tmp_path / f"life-{life}" for life in range(LIVES)]
    paired_token = pair(state, "tablet")

    def start(life: int, port: int = 0):
        return serve(
            *("--agent", "ledger:LedgerAgent"),
            LEDGER=ledgers[life],
            MOBILE_PORT=port,
            MOBILE_STATE_DIR=state,
            MOBILE_QUEUE_MESSAGES=MESSAGES,
        )

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
    for phone in crowd.phones:
        await server.wait_logged("connection", device=f"phone-{phone.number}")
    assert server.descriptors <= descriptors

    lives = [ledger.read_text().split() for ledger in ledgers]
    for names in lives:
        assert len(set(names)) == len(names)
        for phone in crowd.phones:
            own = [name for name in names if name in phone.names]
            assert own[1:] == sorted(own[1:])
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
