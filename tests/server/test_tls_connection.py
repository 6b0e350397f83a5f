"""A device over TLS of the server's own: every deadline and bound holds as without it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from socket import SO_SNDBUF, SOL_SOCKET, socketpair
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import wait_all_tasks_blocked
from wsproto.events import CloseConnection

from certificates import NAME, client_context, server_context
from hermes_mobile.server.connection import serve_connection
from hermes_mobile.server.tls import TlsStream
from house import TOKEN, Peer, ends, faults, open_house, texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext

    from trio.testing import MockClock

    from house import House

MIB = 1 << 20


@contextmanager
def plug(
    house: House, context: SSLContext | None = None, send_buffer: int = MIB
) -> Iterator[tuple[Peer, trio.SocketStream]]:
    """A new connection that has not begun with TLS: its peer, and the stream below that."""
    ours, theirs = socketpair()
    with theirs:
        ours.setsockopt(SOL_SOCKET, SO_SNDBUF, send_buffer)
        stream = TlsStream(ours, house.hub.settings.write_timeout, server_context())
        house.nursery.start_soon(serve_connection, house.hub, stream, "127.0.0.1")
        peer = Peer(theirs)
        below = peer.stream
        peer.stream = trio.SSLStream(
            below, context or client_context(), server_hostname=NAME, https_compatible=True
        )
        yield peer, below


async def greet(peer: Peer, device: str = "phone") -> None:
    await peer.upgrade()
    await peer.send({"t": "hello", "token": TOKEN, "device": {"id": device}})
    assert (await peer.receive())["t"] == "ready"


async def test_a_conversation(autojump_clock: MockClock, logs: list[dict[str, Any]]) -> None:
    """Replies, files, states, and the pong that confirms them; and words at the end."""
    async with open_house() as house:
        with plug(house) as (phone, _):
            await greet(phone)
            await phone.say("m1", "Grüße")
            assert (await phone.expect("message"))["text"] == "Grüße"
            data = bytes(range(256)) * 4096 * 3
            await phone.send_file("f1", data)
            assert f"size: {len(data)} bytes" in (await phone.expect("message"))["text"]
            await phone.say("m2", f"/file {3 * MIB}")
            assert (await phone.expect("media"))["size"] == 3 * MIB
            await phone.receive_for(60)
            assert len(phone.pings) >= 2
            assert not house.hub.registry.get("phone").mailbox
            house.nursery.start_soon(house.stop)
            assert await phone.wait_closed() == (1001, "shutdown")
            # And TLS ends in order: nothing was cut off.
            assert await phone.stream.receive_some() == b""
    assert ends(logs) == [("phone", "shutdown")]
    assert faults(logs) == []


async def test_a_peer_that_leaves_in_order() -> None:
    """The Close frame is answered, and TLS's own end follows."""
    async with open_house() as house:
        with plug(house) as (phone, _):
            await greet(phone)
            await phone.send_event(CloseConnection(1000))
            assert (await phone.wait_closed())[0] == 1000
            assert await phone.stream.receive_some() == b""


async def test_the_handshake_has_the_time_of_the_upgrade(autojump_clock: MockClock) -> None:
    """D4: neither silence nor a byte a second moves the end of it."""
    async with open_house(upgrade_timeout=15.0) as house:
        with plug(house) as (_, silent), plug(house) as (_, slow):
            hello = bytes.fromhex("1603010100010000fc0303") + bytes(256)
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def drip() -> None:
                    for byte in hello:
                        await slow.send_all(bytes((byte,)))
                        await trio.sleep(0.9)

                assert await silent.receive_some() == b""
                assert trio.current_time() == 15
                assert await slow.receive_some() == b""
                assert trio.current_time() == 15
                nursery.cancel_scope.cancel()
        assert not house.hub.connections


async def test_a_connection_counts_before_its_handshake() -> None:
    """D37: one too many ends at once, without the work of a handshake; and places become free again."""
    async with open_house(max_pending=1) as house:
        with plug(house) as (first, _):
            await wait_all_tasks_blocked()
            with plug(house) as (_, second):
                assert await second.receive_some() == b""
            await greet(first)
            with plug(house) as (third, _):
                await greet(third, "tablet")


async def test_plain_http_ends_at_once_and_quietly(logs: list[dict[str, Any]]) -> None:
    """D1: there is no answer that it could read; the log has its one line."""
    async with open_house() as house:
        with plug(house) as (_, below):
            await below.send_all(b"GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b""
            try:
                while data := await below.receive_some():
                    received += data
            except trio.BrokenResourceError:
                pass
            assert b"HTTP" not in received
        await wait_all_tasks_blocked()
        assert not house.hub.connections
    assert ends(logs) == [("", "lost")]
    assert faults(logs) == []


async def test_a_refusal_is_read(autojump_clock: MockClock) -> None:
    """D1, D7: in HTTP, or as an error frame and a Close: nothing of it is cut off."""
    async with open_house() as house:
        with plug(house) as (elsewhere, _):
            await elsewhere.upgrade("/elsewhere")
            assert elsewhere.http_status == 404
        with plug(house) as (wrong, _):
            await wrong.upgrade()
            await wrong.send({"t": "hello", "token": "wrong", "device": {"id": "phone"}})
            assert (await wrong.receive())["code"] == "auth_failed"
            assert await wrong.wait_closed() == (1008, "auth_failed")


async def test_a_frame_beyond_the_limit_is_refused_in_words(autojump_clock: MockClock) -> None:
    """D3: while the peer still sends, and it is read until it has heard."""
    async with open_house() as house:
        with plug(house) as (phone, _):
            await greet(phone)
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def send() -> None:
                    with suppress(trio.BrokenResourceError):
                        await phone.send(b"x" * (16 * MIB + 1))

                assert (await phone.expect("error"))["code"] == "too_big"
                assert await phone.wait_closed() == (1008, "too_big")
                nursery.cancel_scope.cancel()


async def test_a_frame_of_the_limit_is_taken(autojump_clock: MockClock) -> None:
    """D3: 16 MiB to the byte; it is no frame of ours, but it is read to its end."""
    async with open_house() as house:
        with plug(house) as (phone, _):
            await greet(phone)
            await phone.send(b"x" * (16 * MIB))
            assert (await phone.expect("error"))["code"] == "bad_frame"
            assert await phone.drain() == []


async def test_a_slow_reader_is_alive_and_a_stalled_one_is_not(autojump_clock: MockClock) -> None:
    """D5, D33: what the peer's side takes is life; 30 s without any is the end."""
    async with open_house() as house:
        with plug(house, send_buffer=64 * 1024) as (phone, below):
            await greet(phone)
            await phone.say("m1", f"/file {8 * MIB}")
            for _ in range(60):
                await trio.sleep(5)
                assert await below.receive_some(64 * 1024)
            assert house.connection("phone")
            await trio.sleep(30 * 1.25)
            assert not house.hub.connections


async def test_what_is_not_confirmed_comes_again(autojump_clock: MockClock) -> None:
    """D32: the kernel took it, encrypted; the device never said that it came."""
    async with open_house() as house:
        with plug(house) as (phone, _):
            await greet(phone)
            await house.say("one")
        await wait_all_tasks_blocked()
        await house.say("two")
        with plug(house) as (phone, _):
            await greet(phone)
            assert texts(await phone.receive_for(0.5)) == ["one", "two"]
