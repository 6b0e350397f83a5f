"""However an app's messages are framed, and however they arrive, the agent gets them in their order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from cast import Recorder
from hermes_mobile.server.scanner import Opcode
from house import client_frame, open_house

if TYPE_CHECKING:
    from collections.abc import Sequence

PING = client_frame(Opcode.PING, b"?")
PONG = client_frame(Opcode.PONG, b"1")
SIZES = [1, 40, 200, 3_000, 66_000]
"""Of texts: on both sides of the lengths at which a frame's header grows, and of one receive."""


def whole(payload: bytes) -> bytes:
    return client_frame(Opcode.TEXT, payload)


def binary(payload: bytes) -> bytes:
    return client_frame(Opcode.BINARY, payload)


def fragments(payload: bytes) -> bytes:
    """In three, with a ping and a pong between: control frames may come anywhere."""
    third = len(payload) // 3
    return (
        client_frame(Opcode.TEXT, payload[:third], final=False)
        + PING
        + client_frame(Opcode.CONTINUATION, payload[third : 2 * third], final=False)
        + PONG
        + client_frame(Opcode.CONTINUATION, payload[2 * third :])
    )


async def listen(stream: trio.SocketStream) -> None:
    """Take what comes: a peer that does not read is not answered."""
    async for _ in stream:
        pass


framings = st.sampled_from([whole, whole, binary, fragments])
messages = st.lists(st.tuples(framings, st.sampled_from(SIZES), st.booleans()), max_size=8)


@given(messages, st.lists(st.integers(1, 200_000), max_size=6))
def test_messages_arrive_whole_and_in_order(messages, cuts: Sequence[int]) -> None:
    """D2: short and long, whole and in fragments, text and binary, cut anywhere on their way."""
    sent = []
    stream = b""
    for number, (framing, size, pinged) in enumerate(messages):
        text = f"{number}é" * size
        sent.append(text[:12_000])
        frame = {"t": "text", "id": str(number), "text": text[:12_000], "padding": text}
        stream += framing(json.dumps(frame, ensure_ascii=False).encode()) + PING * pinged
    agent = Recorder()

    async def play() -> None:
        async with open_house(agent) as house:
            peer = await house.connect()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen, peer.stream)
                position = 0
                for cut in [*cuts, len(stream)]:
                    await peer.stream.send_all(stream[position : position + cut])
                    position += cut
                    await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()

    with structlog.testing.capture_logs():
        trio.run(play, clock=MockClock(autojump_threshold=0))
    assert [each.text for each in agent.inputs] == sent
