"""How connections end that are not to end well: faults, unread answers, overlaps (D11, D33, D35)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cast import Recorder
from hermes_mobile.agents import Agent
from hermes_mobile.server import connection as connection_module
from hermes_mobile.server.connection import DRAIN_SECONDS
from hermes_mobile.server.scanner import Opcode
from hermes_mobile.server.session import Session
from hermes_mobile.server.units import MessageUnit
from house import House, Peer, client_frame, ends, faults, open_house, two_devices

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hermes_mobile.agents import Turn

Logs = list[dict[str, Any]]


# Faults of ours (D35)


async def fail(*_: object) -> None:
    raise RuntimeError("a private detail of the failure")


async def expect_internal_error(peer: Peer, logs: Logs) -> None:
    """The error, 1011, one log line with type and place, and no word of the exception's text."""
    error = await peer.expect("error")
    assert (error["code"], error["fatal"]) == ("internal_error", True)
    assert await peer.wait_closed() == (1011, "internal_error")
    await peer.vanish()
    await wait_all_tasks_blocked()
    assert ends(logs) == [("rude", "internal_error")]
    [fault] = faults(logs)
    assert (fault["event"], fault["device"]) == ("connection fault", "rude")
    assert fault["error"] == "RuntimeError"
    assert "private" not in str(logs) + str(error)


async def test_a_fault_in_the_reader_ends_its_connection_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: Logs
) -> None:
    """D35, D39: `internal_error`, 1011; the exception's text reaches neither peer nor log."""
    async with two_devices() as (_, rude, _):
        with monkeypatch.context() as patch:
            patch.setattr(connection_module, "dispatch", fail)
            await rude.send({"t": "ping"})
            await expect_internal_error(rude, logs)


async def test_a_fault_in_the_writer_ends_its_connection_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: Logs
) -> None:
    """D35: a unit that cannot be encoded takes down the connection that wanted to send it."""
    async with two_devices() as (_, rude, _):
        with monkeypatch.context() as patch:

            def fail_to_encode(*_: object) -> None:
                raise RuntimeError("a private detail of the failure")

            patch.setattr(MessageUnit, "frames", fail_to_encode)
            await rude.say("m1", "hello")
            await expect_internal_error(rude, logs)


async def test_a_fault_at_the_very_end_is_still_no_one_else_s(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, logs: Logs
) -> None:
    """D35: even when the clean-up fails, the socket is closed and the server lives on."""
    async with two_devices() as (house, rude, _):

        def fail_to_detach(*_: object) -> None:
            raise RuntimeError("a private detail of the failure")

        with monkeypatch.context() as patch:
            patch.setattr(Session, "detach", fail_to_detach)
            await rude.stream.send_all(client_frame(Opcode.CLOSE, b"\x03\xe8"))
            await rude.wait_closed()
            await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "fault")]
        assert [entry["error"] for entry in faults(logs)] == ["RuntimeError"]
        assert len(house.hub.connections) == 1


# Peers that send and do not read (D33)


async def send_until_cut_off(house: House, peer: Peer, *frames: dict[str, Any]) -> None:
    """Send `frames` over and over, without reading what comes, until the server has enough."""
    connection = house.connection("rude")
    number = 0
    while connection._ending is None:
        for frame in frames:
            number += 1
            await peer.send({**frame, "id": f"i{number}"})
        await wait_all_tasks_blocked()
        assert number < 2000


FILE = {"t": "text", "text": "/file 8000000"}
"""Asks for what fills every buffer on the way."""
PINGS = {"t": "ping", "ts": "x" * 1000}


@pytest.mark.parametrize(
    "frames",
    [
        [PINGS],
        [{"t": "text", "text": ""}],
        [{"t": "text", "text": "/stop"}],
        [{"t": "text", "text": "/think 1"}, {"t": "text", "text": "/stop"}],
    ],
    ids=["pongs", "errors", "stops", "turns that are stopped"],
)
async def test_answers_that_nobody_reads_end_the_connection_with_1013(
    autojump_clock: MockClock, frames: list[dict[str, Any]], logs: Logs
) -> None:
    """D33: the queue is bounded by ending the connection, in words if the peer reads after all."""
    async with two_devices() as (house, rude, _):
        await rude.say("f", "/file 100000")
        await send_until_cut_off(house, rude, *frames)
        assert await rude.wait_closed() == (1013, "outbox full")
        assert trio.current_time() == 0
        await rude.vanish()
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "outbox full")]
        assert faults(logs) == []


async def test_what_comes_with_the_last_straw_is_not_acted_on(autojump_clock: MockClock) -> None:
    """D33: frames behind the ping whose answer found no room, in the same receive."""
    agent = Recorder()
    async with open_house(agent, outbox_frames=1) as house:
        rude = await house.connect("rude")
        texts = [json.dumps({"t": "ping"})] * 2 + [
            json.dumps({"t": "text", "id": "m", "text": "x"})
        ]
        frames = [client_frame(Opcode.TEXT, text.encode()) for text in texts]
        await rude.stream.send_all(b"".join(frames))
        assert await rude.wait_closed() == (1013, "outbox full")
        assert agent.ids == []


async def test_a_peer_that_still_does_not_read_is_left_after_the_drain(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D33: no Close frame can reach it behind half a frame: two seconds, and the socket is gone."""
    async with two_devices() as (house, rude, _):
        await rude.send({**FILE, "id": "f"})
        await send_until_cut_off(house, rude, PINGS)
        assert ends(logs) == []
        await trio.sleep(DRAIN_SECONDS)
        await wait_all_tasks_blocked()
        assert ends(logs) == [("rude", "outbox full")]
        assert trio.current_time() == DRAIN_SECONDS
        assert await rude.wait_closed() == (1006, "")


class Talker(Agent):
    """Says many small things to every message."""

    def __init__(self, replies: int = 1000) -> None:
        self.replies = replies

    async def handle(self, turn: Turn) -> None:
        for n in range(self.replies):
            await turn.reply(f"reply {n}")


async def test_a_turn_waits_for_room_and_loses_nothing(autojump_clock: MockClock) -> None:
    """D33: to a peer that does not read, an agent talks no faster than its queue allows."""
    async with open_house(Talker()) as house:
        house.send_buffer = 4096
        peer = await house.connect()
        [connection] = house.hub.connections
        await peer.say("m1", "talk")
        await trio.sleep(20)
        assert connection.outbox.frames <= 256 + len(("thinking", "typing", "speaking"))
        texts = [(await peer.expect("message"))["text"] for _ in range(1000)]
        assert texts == [f"reply {n}" for n in range(1000)]


async def test_a_slow_peer_sees_the_last_edit_and_few_before_it(
    autojump_clock: MockClock,
) -> None:
    """D29, D33: edits collapse while the link is slow; the final one is whole."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("f", "/file 1000000")
        await peer.say("m", "/stream 400")
        await trio.sleep(29)
        [connection] = house.hub.connections
        assert connection.outbox.frames < 20
        frames = await peer.receive_until("message", final=True)
        states = [frame for frame in frames if frame["t"] == "message"]
        assert len(states) <= 2
        assert len(states[-1]["text"].split()) == 400


async def test_why_it_ended_is_known_though_the_writer_is_busy(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D2, D35: a write that the end overtakes does not make a peer's own fault, or goodbye, a loss."""
    farewells = {
        "not utf-8": client_frame(Opcode.TEXT, b"\xff"),
        "peer left": client_frame(Opcode.CLOSE, b"\x03\xe8"),
    }
    async with open_house(Talker(30)) as house:
        for why, farewell in farewells.items():
            for n in range(40):
                rude = await house.connect(f"rude {n}")
                await rude.say(why, "talk")
                await rude.expect("message")
                await rude.stream.send_all(farewell)
                await rude.wait_closed()
                await rude.vanish()
            await wait_all_tasks_blocked()
            assert {end for _, end in ends(logs)} == {why}
            logs.clear()


async def test_the_first_reason_to_end_is_the_one_that_counts(
    autojump_clock: MockClock, logs: Logs
) -> None:
    """D35: a server that is told twice to stop, or a peer replaced while it goes, says one Close."""
    async with open_house() as house:
        peer = await house.connect()
        await house.stop()
        await house.stop()
        assert await peer.wait_closed() == (1001, "shutdown")
        await peer.vanish()
        await wait_all_tasks_blocked()
        assert ends(logs) == [("phone", "shutdown")]


async def test_a_replaced_connection_finishes_its_frame_and_nothing_more(
    autojump_clock: MockClock,
) -> None:
    """D11: the Close must not land inside a frame; what follows that frame is the new connection's."""
    async with open_house() as house:
        old = await house.connect()
        await old.say("m1", "/file 300000")
        await wait_all_tasks_blocked()
        new = await house.connect()
        assert (await new.expect("media"))["final"] is True
        frames = await old.receive_until("media", final=True)
        assert [frame["t"] for frame in frames] == ["avatar", "typing", "media"]
        assert await old.receive() is None
        assert old.closed == (4001, "replaced")
        assert "media" not in [frame["t"] for frame in await new.receive_for(100)]


async def test_what_a_replaced_connection_still_writes_is_the_next_one_s_to_confirm(
    autojump_clock: MockClock,
) -> None:
    """D11, D32: a reply that ends on the old connection, unseen perhaps, is said on the new one."""
    async with open_house() as house:
        house.send_buffer = 4096
        old = await house.connect()
        await old.say("m1", "/long 30000")
        await wait_all_tasks_blocked()
        new = await house.connect()
        said = await new.expect("message", final=True)
        assert await old.expect("message", final=True) == said
        assert await old.wait_closed() == (4001, "replaced")
