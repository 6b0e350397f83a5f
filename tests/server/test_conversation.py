"""A person and the demo agent: the protocol's ordinary day."""

from __future__ import annotations

import base64
import hashlib

from house import open_house


async def test_an_echo_is_five_frames_in_the_order_of_the_reference(autojump_clock):
    """D30: thinking, typing, the message, speaking, and the end of typing."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "  Hello\n")
        frames = await peer.receive_until("typing", stop=True)
    message = frames[2]
    assert [frame["t"] for frame in frames] == ["avatar", "typing", "message", "avatar", "typing"]
    assert frames[0]["state"] == "thinking"
    assert frames[3]["state"] == "speaking"
    assert message["text"] == "  Hello\n"
    assert message["chunk"] == {"index": 0, "total": 1}
    assert message["final"] is True


async def test_ready_tells_session_device_and_capabilities(autojump_clock):
    """The handshake's answer is the reference's."""
    async with open_house() as house:
        peer = await house.connect("tel-1")
    assert peer.ready["t"] == "ready"
    assert peer.ready["session"] == "mobile:tel-1"
    assert peer.ready["device"] == {"id": "tel-1", "name": "Tel-1"}
    assert peer.ready["capabilities"]["max_media_bytes"] == 8388608


async def test_a_file_in_chunks_reaches_the_agent_whole(autojump_clock):
    """D17: 5 MiB in chunks, and the agent sees one file."""
    data = bytes(range(256)) * (5 * 4096)
    async with open_house() as house:
        peer = await house.connect()
        await peer.send_file("f1", data, filename="a.bin")
        message = await peer.expect("message")
    assert hashlib.sha256(data).hexdigest() in message["text"]


async def test_a_file_of_the_agent_arrives_in_chunks(autojump_clock):
    """D31: parts from 0, size of the whole, final on the last."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/file 7000000")
        parts = [await peer.expect("media") for _ in range(3)]
    assert [part["part"] for part in parts] == [0, 1, 2]
    assert [part["final"] for part in parts] == [False, False, True]
    assert {part["size"] for part in parts} == {7_000_000}
    assert sum(len(base64.b64decode(part["data"])) for part in parts) == 7_000_000
