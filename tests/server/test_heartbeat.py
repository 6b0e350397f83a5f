"""When the server pings, whom it takes for dead, and whom never (D5): the rule, then connections."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.server.connection import serve_connection
from hermes_mobile.server.heartbeat import CONFIRM_AFTER, Heartbeat
from hermes_mobile.server.stream import SocketStream
from house import House, Peer, open_house

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

# The rule: 30 s between pings, 20 s for a sign of life


class Beats:
    """Runs a heartbeat as its timer does; what the peer did by then is `received` and `taken`."""

    def __init__(self, interval: float = 30.0, timeout: float = 20.0) -> None:
        self.heartbeat = Heartbeat(interval, timeout, 0.0)
        self.now = 0.0
        self.received = 0
        self.taken: int | None = None
        self.pings: list[float] = []
        self.died: float | None = None

    def until(self, end: float) -> Beats:
        while self.died is None and (due := self.heartbeat.due) <= end:
            self.now = due
            if self.heartbeat.dead(due, self.received, self.taken or 0):
                self.died = due
                break
            if self.heartbeat.ping_due(due, self.received, self.taken):
                self.pings.append(due)
            assert self.heartbeat.due > due, "it would be called again at once"
        self.now = end
        return self


def test_a_silent_peer_is_pinged_at_30_and_dead_at_50() -> None:
    """D5: 20 s after the ping, not a moment earlier."""
    beats = Beats().until(1000)
    assert beats.pings == [30]
    assert beats.died == 50


def test_any_byte_is_life() -> None:
    """D5: one byte between ping and judgement is enough, but only until the next ping."""
    beats = Beats().until(49)
    beats.received += 1
    beats.until(1000)
    assert beats.pings == [30, 60]
    assert beats.died == 80


def test_bytes_before_the_ping_are_no_answer_to_it() -> None:
    """D5: life is what comes after the ping."""
    beats = Beats().until(29)
    beats.received += 1000
    assert beats.until(1000).died == 50


def test_bytes_that_the_peer_takes_are_life_while_some_wait() -> None:
    """D5: a slow transfer is never cut by its own length."""
    beats = Beats()
    beats.taken = 0
    for second in range(1000):
        beats.until(second)
        beats.taken += 1
    assert beats.died is None
    assert beats.pings == list(range(30, 1000, 30))


def test_a_transfer_that_stops_moving_is_dead() -> None:
    """D5: bytes that nobody takes for 20 s after a ping are no life."""
    beats = Beats()
    beats.taken = 5000
    assert beats.until(1000).died == 50


def test_taking_a_ping_is_no_life() -> None:
    """D5: when nothing waits, what the kernel of a hung peer takes is only our own ping."""
    beats = Beats().until(30)
    beats.taken = 7
    assert beats.until(1000).died == 50


def test_a_count_that_falls_is_no_life() -> None:
    """D5: a ping that waits costs more than its bytes on a Unix socket; that is not the peer's doing."""
    beats = Beats()
    beats.taken = 5000
    beats.until(30)
    beats.taken = 4000
    assert beats.until(1000).died == 50


def test_a_confirming_ping_comes_a_second_after_the_last_write() -> None:
    """D32: writes put it off; one ping asks for all of them."""
    beats = Beats()
    beats.heartbeat.wrote_unit(0.0, pressing=False)
    beats.until(0.5)
    beats.heartbeat.wrote_unit(0.5, pressing=False)
    beats.until(5)
    assert beats.pings == [0.5 + CONFIRM_AFTER]


def test_a_confirming_ping_does_not_judge() -> None:
    """D5: only the regular ping is followed by judgement, and it comes at its own time."""
    beats = Beats()
    beats.heartbeat.wrote_unit(0.0, pressing=False)
    assert beats.until(1000).pings == [CONFIRM_AFTER, 30]
    assert beats.died == 50


def test_a_pressing_write_is_confirmed_at_once() -> None:
    """D32: a mailbox that fills up cannot wait a second."""
    beats = Beats().until(3)
    beats.heartbeat.wrote_unit(3.0, pressing=True)
    assert beats.heartbeat.due == 3.0
    assert beats.until(3).pings == [3.0]


def test_the_next_ping_has_the_next_number() -> None:
    """D32: a unit written now is confirmed by the pong of a ping that is not sent yet."""
    beats = Beats()
    assert (beats.heartbeat.sent, beats.heartbeat.next_ping) == (0, 1)
    beats.until(30)
    assert (beats.heartbeat.sent, beats.heartbeat.next_ping) == (1, 2)


def test_nothing_is_due_early() -> None:
    """D5: asked too early, it neither pings nor judges."""
    heartbeat = Heartbeat(30.0, 20.0, 0.0)
    assert not heartbeat.ping_due(29.9, 0, None)
    assert heartbeat.ping_due(30.0, 0, None)
    assert not heartbeat.dead(49.9, 0, 0)
    assert heartbeat.dead(50.0, 0, 0)


@given(
    interval=st.integers(1, 100),
    timeout=st.integers(1, 100),
    last=st.integers(0, 200),
)
def test_a_peer_is_never_cut_before_the_timeout_nor_long_after(
    interval: int, timeout: int, last: int
) -> None:
    """D5: whatever the settings, death is 20 s or more after a sign of life, and bounded after it."""
    beats = Beats(interval, timeout)
    for second in range(last + 1):
        beats.until(second)
        beats.received += 1
    assert beats.died is None
    beats.until(last + 1000)
    assert beats.died is not None
    assert last + min(timeout, interval) <= beats.died <= last + 2 * (interval + timeout)


# Through a connection


def serve(house: House, ours: socket.socket, theirs: socket.socket) -> Peer:
    """A connection on a socket pair that the test made."""
    stream = SocketStream(ours, house.hub.settings.write_timeout)
    house.nursery.start_soon(serve_connection, house.hub, stream, "127.0.0.1")
    house.peers.append(Peer(theirs))
    return house.peers[-1]


async def say_hello(peer: Peer) -> None:
    await peer.upgrade()
    await peer.send({"t": "hello", "token": "secret-token", "device": {"id": "phone"}})
    await peer.expect("ready")


async def test_a_silent_peer_is_dropped_at_50_s(
    autojump_clock: MockClock, logs: list[dict]
) -> None:
    """D5: pinged at 30 s, dropped at 50 s, without a Close frame that nobody would read."""
    async with open_house() as house:
        peer = await house.connect()
        peer.answers_pings = False
        assert await peer.wait_closed() == (1006, "")
        assert trio.current_time() == 50.0
        assert peer.pings == [(30.0, b"1")]
        await wait_all_tasks_blocked()
        assert not house.hub.connections
    [line] = [entry for entry in logs if entry["event"] == "connection"]
    assert (line["end"], line["seconds"]) == ("lost", 50.0)


async def test_pongs_keep_an_idle_connection_for_ever(autojump_clock: MockClock) -> None:
    """D5: an hour of nothing but pings and pongs."""
    async with open_house() as house:
        peer = await house.connect()
        assert await peer.receive_for(3600.0) == []
        assert [at for at, _ in peer.pings] == [30.0 * n for n in range(1, 120)]
        await peer.send({"t": "ping"})
        await peer.expect("pong")


async def test_half_a_frame_is_life(autojump_clock: MockClock) -> None:
    """D5: any byte counts, though no message, and no pong, ever comes of it."""
    async with open_house() as house:
        peer = await house.connect()
        peer.answers_pings = False
        await peer.stream.send_all(b"\x81\xfe\x10\x00")
        for _ in range(50):
            await trio.sleep(10)
            await peer.stream.send_all(b"\0")
        assert await peer.wait_closed() == (1006, "")
        assert trio.current_time() == 530.0  # the last byte came at 500, the next ping at 510


async def test_nothing_is_pinged_before_hello(autojump_clock: MockClock) -> None:
    """D4, D5: the deadline for hello is what bounds a silent stranger; the heartbeat begins with it."""
    async with open_house(ping_interval=1.0) as house:
        peer = await house.open()
        await peer.wait_closed()
        assert trio.current_time() == 15.0
        assert peer.pings == []


async def test_a_slow_transfer_that_moves_is_never_cut(autojump_clock: MockClock) -> None:
    """D5: 8 MB at 4 KB/s takes more than half an hour without a pong, and arrives whole."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/file 8000000")
        received = 0
        while received < 10_600_000:
            await trio.sleep(15)
            data = await peer.stream.receive_some(64 * 1024)
            assert data, f"cut after {received} bytes"
            received += len(data)
        assert trio.current_time() > 1800
        assert len(house.hub.connections) == 1


async def test_a_transfer_that_stops_is_cut_by_the_write_timeout(
    autojump_clock: MockClock,
) -> None:
    """D5, D33: a peer that stops taking bytes is dead after 30 s, whatever it took before."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/file 8000000")
        await wait_all_tasks_blocked()
        await trio.sleep(29.999)
        assert house.hub.connections
        await trio.sleep(0.001)
        await wait_all_tasks_blocked()
        assert not house.hub.connections


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        return listener.accept()[0], theirs


@pytest.mark.parametrize("pair", [tcp_pair, socket.socketpair])
@pytest.mark.parametrize("unread", ["", "/long 3000"])
async def test_a_hung_peer_is_cut_though_its_kernel_takes_bytes(
    autojump_clock: MockClock, pair: Callable[[], tuple[socket.socket, socket.socket]], unread: str
) -> None:
    """D5: an app that hangs takes nothing: neither the ping nor a reply in its kernel is a life."""
    async with open_house() as house:
        peer = serve(house, *pair())
        await say_hello(peer)
        if unread:
            await peer.say("m1", unread)
        await trio.sleep(49.999)
        assert house.hub.connections
        await trio.sleep(0.001)
        await wait_all_tasks_blocked()
        assert not house.hub.connections


async def test_a_reader_that_waits_for_the_server_is_not_silent(
    autojump_clock: MockClock,
) -> None:
    """D5: what the server does not read it cannot miss: deliveries that wait are no death of theirs."""
    async with open_house(
        deliver_tokens={"cron-token"}, ping_interval=5.0, ping_timeout=5.0, write_timeout=1000.0
    ) as house:
        phone = await house.connect()
        await phone.say("m1", "/file 8000000")  # which the phone does not read
        cron = await house.connect("cron", token="cron-token")
        for n in range(300):
            await cron.send({"t": "deliver", "id": f"d{n}", "target": "phone", "text": "hello"})
        with trio.move_on_after(100):
            while True:
                await phone.send({"t": "typing"})
                await trio.sleep(1)
        assert len(house.hub.connections) == 2
