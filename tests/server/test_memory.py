"""What a connection holds of what it was sent: nothing that was acted on, nothing once it is over."""

from __future__ import annotations

import base64
import gc
import json
import tracemalloc
from contextlib import contextmanager

import pytest
from trio.testing import wait_all_tasks_blocked
from wsproto.events import BytesMessage, TextMessage

from cast import Scripted
from house import attachment, open_house

MIB = 1 << 20
LARGE = json.dumps({"t": "from the future", "data": "x" * 4 * MIB})
HERE = [tracemalloc.Filter(True, f"*{part}*") for part in ("hermes_mobile", "wsproto", "trio")]


@contextmanager
def tracing():
    """Tell how many bytes are held; the garbage collector, which runs late, does not help."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield lambda: sum(
            trace.size for trace in tracemalloc.take_snapshot().filter_traces(HERE).traces
        )
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("message", [LARGE, LARGE.encode()], ids=["text", "binary"])
async def test_a_large_message_is_let_go_before_the_next_one_comes(autojump_clock, message):
    """D3: a device that sent 4 MiB and is silent since costs no more than another one."""
    async with open_house() as house:
        peer = await house.connect()
        with tracing() as held:
            await peer.send(message)
            await wait_all_tasks_blocked()
            assert held() < MIB
        assert await peer.drain() == []


@pytest.mark.parametrize("event", [TextMessage, BytesMessage], ids=["text", "binary"])
async def test_half_a_message_goes_with_its_connection(autojump_clock, event):
    """D3: what will never be whole is let go at once, not when garbage is collected."""
    async with open_house() as house:
        peer = await house.connect()
        message = LARGE if event is TextMessage else LARGE.encode()
        with tracing() as held:
            frame = peer.websocket.send(event(message))
            await peer.stream.send_all(frame[: 3 * MIB])
            del frame
            await wait_all_tasks_blocked()
            assert held() > 2 * MIB
            await house.lose(peer)
            assert held() < MIB


async def test_a_file_is_let_go_once_it_has_arrived(autojump_clock):
    """D32: the device has confirmed it, and nothing is said after it."""
    async with open_house() as house:
        peer = await house.connect()
        with tracing() as held:
            await peer.send({"t": "text", "id": "m1", "text": f"/file {4 * MIB}"})
            await peer.receive_for(10)
            assert held() < MIB


async def test_an_upload_is_let_go_once_the_agent_has_seen_it(autojump_clock):
    """D17: nothing is sent after it, and its device has become quiet."""

    async def see(turn) -> None:
        await turn.reply(f"{len(turn.input.data)} bytes")

    async with open_house(Scripted(see)) as house:
        peer = await house.connect()
        data = base64.b64encode(bytes(2 * MIB)).decode()
        chunk = {"t": "media", "id": "f1", "kind": "document", "parts": 2, "data": data}
        with tracing() as held:
            for part in (0, 1):
                await peer.send({**chunk, "part": part})
            await peer.expect("message", text=f"{4 * MIB} bytes")
            await peer.expect("avatar", state="idle")
            await wait_all_tasks_blocked()
            assert held() < MIB


async def test_a_delivery_is_let_go_once_it_has_arrived(autojump_clock):
    """D25: the courier stays, and delivers nothing after it."""
    async with open_house(deliver_tokens=frozenset({"of-the-courier"})) as house:
        peer = await house.connect()
        courier = await house.connect(token="of-the-courier")
        with tracing() as held:
            media = attachment(bytes(4 * MIB))
            await courier.send({"t": "deliver", "id": "d1", "target": "phone", "media": media})
            await peer.receive_for(10)
            assert held() < MIB
