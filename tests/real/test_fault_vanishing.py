"""A peer that vanishes without a FIN, because the network swallows all that is sent."""

from __future__ import annotations

import os
import shutil

import pytest
import trio

from network import CLIENT, SERVER, open_network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None,
        reason="network namespaces are made by root, with iproute2",
    ),
]
MIB = 1 << 20
LATE = 5
"""Seconds that a busy machine may add to what was promised."""


@pytest.fixture(scope="module")
def network():
    with open_network() as made:
        yield made


@pytest.fixture
def serve_there(serve, network):
    """Start a server on a host of its own; the other one has the devices."""

    def start(**settings: object):
        return serve(within=network.within_server, MOBILE_HOST=SERVER, **settings)

    return start


@pytest.fixture
def connect(network):
    def connect_there(server, **how):
        open_socket = network.open_client_socket
        return server.connect("phone", source=CLIENT, open_socket=open_socket, **how)

    return connect_there


async def test_a_silent_peer_is_dropped_by_its_heartbeat(serve_there, connect, network):
    """D5, D32: within a ping's interval and its timeout, and what it was told in vain comes again.

    Messages: the one that was written to it before it was known to be gone, and the one that was said
    while it was away, once each, in order. Connections: the next one lives. Descriptors: as before.
    """
    interval, timeout = 1.0, 1.0
    server = serve_there(MOBILE_PING_INTERVAL=interval, MOBILE_PING_TIMEOUT=timeout)
    descriptors = server.descriptors
    async with connect(server) as phone:
        await phone.say("m1", "/think 0.3")
        await phone.say("m2", "/think 3")
        await phone.expect("typing")
        network.swallow()
        vanished = trio.current_time()
        line = await server.wait_logged("connection", device="phone")
        assert line["end"] == "lost"
        assert trio.current_time() - vanished < interval + timeout + LATE
        assert server.descriptors == descriptors
    network.heal()
    async with connect(server) as phone:
        first = await phone.receive()
        assert (first["t"], first["text"]) == ("message", "Thought for 0.3 s.")
        assert (await phone.expect("message"))["text"] == "Thought for 3 s."
        await phone.say("m3", "Here again")
        assert (await phone.expect("message"))["text"] == "Here again"


async def test_a_peer_that_takes_nothing_is_dropped_by_the_write_timeout(
    serve_there, connect, network
):
    """D33, D32: amid a file, long before its heartbeat would notice; the file comes again, whole.

    Messages: the file, once, from its first chunk. Connections: the next one lives. Memory: what was
    kept of the file is given up once it has arrived.
    """
    timeout = 1.0
    server = serve_there(MOBILE_WRITE_TIMEOUT=timeout, MOBILE_MEDIA_CHUNK_BYTES=MIB)
    async with connect(server, receive_buffer=1 << 16) as phone:
        await phone.say("f1", f"/file {8 * MIB}")
        await phone.expect("media", part=0)
        network.swallow()
        vanished = trio.current_time()
        line = await server.wait_logged("connection", device="phone")
        assert line["end"] == "lost"
        assert timeout / 2 < trio.current_time() - vanished < 1.25 * timeout + LATE
    network.heal()
    async with connect(server) as phone:
        chunks = [
            frame
            for frame in await phone.receive_until("media", final=True)
            if frame["t"] == "media"
        ]
        assert [chunk["part"] for chunk in chunks] == list(range(8))
        assert len({chunk["id"] for chunk in chunks}) == 1
        await phone.say("m3", "Here again")
        assert (await phone.expect("message"))["text"] == "Here again"
