"""Guessing tokens, and crowding the door, through real connections (D37)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from hermes_mobile.server.values import Token, networks
from house import TOKEN, House, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock

ADDRESS = "203.0.113.5"
NEIGHBOUR = "203.0.113.6"
PROXY = "127.0.0.1"
SWITCHING_PROTOCOLS, TOO_MANY_REQUESTS, UNAVAILABLE = 101, 429, 503


def forwarded_for(*addresses: str) -> list[tuple[bytes, bytes]]:
    return [(b"X-Forwarded-For", ", ".join(addresses).encode())]


async def fail(house: House, times: int = 1, address: str = ADDRESS, **connect: Any) -> None:
    """Be refused `times` times in a row."""
    for _ in range(times):
        peer = await house.connect("guesser", token="a guess", address=address, **connect)
        assert peer.ready["code"] == "auth_failed"


async def upgrade(house: House, address: str = ADDRESS, **upgrade: Any) -> int:
    """The HTTP status that an upgrade from `address` is answered with."""
    peer = house.plug(address)
    await peer.upgrade(**upgrade)
    return peer.http_status or SWITCHING_PROTOCOLS


async def test_ten_failures_close_the_door_for_a_minute(autojump_clock: MockClock) -> None:
    """D37: from the tenth on, upgrades of that address, and no other, are answered 429 for 60 s."""
    async with open_house() as house:
        await fail(house, 9)
        assert await upgrade(house) == SWITCHING_PROTOCOLS
        await fail(house)
        assert await upgrade(house) == TOO_MANY_REQUESTS
        assert await upgrade(house, NEIGHBOUR) == SWITCHING_PROTOCOLS
        await trio.sleep(59.999)
        assert await upgrade(house) == TOO_MANY_REQUESTS
        await trio.sleep_until(60.0)
        peer = await house.connect(address=ADDRESS)
    assert peer.ready["t"] == "ready"


async def test_a_refused_upgrade_does_not_renew_the_minute(autojump_clock: MockClock) -> None:
    """D37: an impatient client that retries every second is let in when the minute is over."""
    async with open_house() as house:
        await fail(house, 10)
        for second in range(1, 60):
            await trio.sleep_until(second)
            assert await upgrade(house) == TOO_MANY_REQUESTS
        await trio.sleep_until(60.0)
        assert await upgrade(house) == SWITCHING_PROTOCOLS


async def test_only_failures_within_a_minute_add_up(autojump_clock: MockClock) -> None:
    """D37: the tenth failure later than 60 s after the first closes nothing."""
    async with open_house() as house:
        await fail(house, 9)
        await trio.sleep_until(60.001)
        await fail(house)
        assert await upgrade(house) == SWITCHING_PROTOCOLS
        await fail(house, 9)
        assert await upgrade(house) == TOO_MANY_REQUESTS


async def test_forbidden_counts_and_bad_frames_do_not(autojump_clock: MockClock) -> None:
    """D37: failed means `auth_failed` or `forbidden`."""
    async with open_house(extra_tokens=(Token("bound-token", "phone"),)) as house:
        for _ in range(10):
            peer = await house.open(ADDRESS)
            await peer.send({"t": "text"})
            await peer.wait_closed()
        await fail(house, 9)
        peer = await house.connect("tablet", token="bound-token", address=ADDRESS)
        assert peer.ready["code"] == "forbidden"
        assert await upgrade(house) == TOO_MANY_REQUESTS


async def test_an_address_with_a_live_session_is_slowed(autojump_clock: MockClock) -> None:
    """D37: never refused, but one hello at a time, 1 s each."""
    ready_at: list[float] = []

    async def say_hello(house: House, device: str) -> None:
        peer = await house.connect(device, address=ADDRESS)
        assert peer.ready["t"] == "ready"
        ready_at.append(trio.current_time())

    async with open_house() as house:
        await house.connect("phone", address=ADDRESS)
        await fail(house, 10)
        assert trio.current_time() == 0.0
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(say_hello, house, f"tablet-{number}")
        assert ready_at == [1.0, 2.0, 3.0]
        await fail(house)
        assert trio.current_time() == 4.0
        await trio.sleep_until(64.0)
        await say_hello(house, "tablet-4")
    assert ready_at[-1] == 64.0


async def test_the_door_closes_with_the_last_live_session(autojump_clock: MockClock) -> None:
    """D37: a session that ends takes its address's privilege with it."""
    async with open_house() as house:
        phone = await house.connect("phone", address=ADDRESS)
        replacing = await house.connect("phone", address=ADDRESS)
        await fail(house, 10)
        assert await phone.wait_closed() == (4001, "replaced")
        assert await upgrade(house) == SWITCHING_PROTOCOLS
        await replacing.vanish()
        await trio.sleep(0.1)
        assert await upgrade(house) == TOO_MANY_REQUESTS


async def test_sockets_opened_before_do_not_get_round_it(autojump_clock: MockClock) -> None:
    """D37: connections that were upgraded before the tenth failure say hello 1 s apart."""
    async with open_house() as house:
        early = [await house.open(ADDRESS) for _ in range(3)]
        await fail(house, 10)
        for peer in early:
            await peer.send({"t": "hello", "token": "a guess"})
        seen = []
        for peer in early:
            assert await peer.wait_closed() == (1008, "auth_failed")
            seen.append(trio.current_time())
    assert seen == [1.0, 2.0, 3.0]


async def test_ipv6_counts_by_64(autojump_clock: MockClock) -> None:
    """D37: a host has a whole /64 to guess from, so that is one address."""
    async with open_house() as house:
        for host in range(1, 11):
            await fail(house, address=f"2001:db8:0:7::{host:x}")
        assert await upgrade(house, "2001:db8:0:7:ffff::1") == TOO_MANY_REQUESTS
        assert await upgrade(house, "2001:db8:0:8::1") == SWITCHING_PROTOCOLS


async def test_a_trusted_proxy_speaks_for_its_clients(autojump_clock: MockClock) -> None:
    """D37: behind a proxy it is the forwarded address that fails, is refused, and no other."""
    async with open_house() as house:
        await fail(house, 10, PROXY, headers=forwarded_for(ADDRESS))
        assert await upgrade(house, PROXY, headers=forwarded_for(ADDRESS)) == TOO_MANY_REQUESTS
        assert await upgrade(house, PROXY, headers=forwarded_for(NEIGHBOUR)) == SWITCHING_PROTOCOLS
        assert await upgrade(house, PROXY) == SWITCHING_PROTOCOLS
        assert await upgrade(house, ADDRESS) == TOO_MANY_REQUESTS


async def test_what_a_client_claims_itself_does_not_count(autojump_clock: MockClock) -> None:
    """D37: the right-most address that is no trusted proxy is the client, whatever stands before."""
    proxies = networks("127.0.0.0/8,10.0.0.0/8")
    async with open_house(trusted_proxies=proxies) as house:
        for number in range(10):
            claimed = forwarded_for(f"198.51.100.{number}", ADDRESS, "10.0.0.7")
            await fail(house, 1, PROXY, headers=claimed)
        claimed = forwarded_for("192.0.2.1", ADDRESS)
        assert await upgrade(house, "10.0.0.9", headers=claimed) == TOO_MANY_REQUESTS
        assert await upgrade(house, "198.51.100.1") == SWITCHING_PROTOCOLS


async def test_an_untrusted_peer_speaks_for_itself_only(autojump_clock: MockClock) -> None:
    """D37: a forwarded address from outside the trusted proxies is not believed."""
    async with open_house() as house:
        for number in range(10):
            await fail(house, headers=forwarded_for(f"198.51.100.{number}"))
        assert await upgrade(house, headers=forwarded_for(NEIGHBOUR)) == TOO_MANY_REQUESTS


@pytest.mark.parametrize("address", [PROXY, "::1", "unix"])
async def test_a_trusted_peer_of_its_own_is_exempt(autojump_clock: MockClock, address: str) -> None:
    """D37: a trusted or Unix peer without a forwarded address is never refused or slowed."""
    async with open_house() as house:
        await fail(house, 30, address)
        await house.connect(address=address)
        assert trio.current_time() == 0.0


async def test_a_proxy_behind_a_unix_socket_is_believed(autojump_clock: MockClock) -> None:
    """D37: its forwarded addresses count."""
    async with open_house() as house:
        await fail(house, 10, "unix", headers=forwarded_for(ADDRESS))
        assert await upgrade(house, "unix", headers=forwarded_for(ADDRESS)) == TOO_MANY_REQUESTS
        assert await upgrade(house, "unix") == SWITCHING_PROTOCOLS


async def test_an_address_has_32_connections_without_hello(autojump_clock: MockClock) -> None:
    """D37: the 33rd is answered 503, until one of them said hello or left; others do not mind."""
    async with open_house() as house:
        pending = [house.plug(ADDRESS)] + [await house.open(ADDRESS) for _ in range(31)]
        assert await upgrade(house) == UNAVAILABLE
        assert await upgrade(house, NEIGHBOUR) == SWITCHING_PROTOCOLS
        await pending[1].send({"t": "hello", "token": TOKEN})
        assert (await pending[1].receive())["t"] == "ready"
        await pending[2].vanish()
        await trio.sleep(0.1)
        assert [await upgrade(house) for _ in range(3)] == [
            SWITCHING_PROTOCOLS,
            SWITCHING_PROTOCOLS,
            UNAVAILABLE,
        ]


async def test_forwarded_addresses_are_counted_apart(autojump_clock: MockClock) -> None:
    """D37: a proxy's own address has no limit, each of its clients has."""
    async with open_house(max_pending_per_address=1) as house:
        assert await upgrade(house, PROXY, headers=forwarded_for(ADDRESS)) == SWITCHING_PROTOCOLS
        assert await upgrade(house, PROXY, headers=forwarded_for(ADDRESS)) == UNAVAILABLE
        assert await upgrade(house, PROXY, headers=forwarded_for(NEIGHBOUR)) == SWITCHING_PROTOCOLS


async def test_all_addresses_share_a_limit(autojump_clock: MockClock) -> None:
    """D37: 503 for every address beyond it, exempt ones included, until a deadline frees a place."""
    async with open_house(max_pending=3) as house:
        for address in (ADDRESS, NEIGHBOUR, PROXY):
            house.plug(address)
        await trio.testing.wait_all_tasks_blocked()
        assert await upgrade(house, "198.51.100.1") == UNAVAILABLE
        assert await upgrade(house, PROXY) == UNAVAILABLE
        await trio.sleep_until(15.0)
        await trio.testing.wait_all_tasks_blocked()
        assert await upgrade(house, PROXY) == SWITCHING_PROTOCOLS


async def test_a_throttled_hello_still_holds_its_place(autojump_clock: MockClock) -> None:
    """D37: whoever waits for its turn to be judged has not said hello yet."""
    async with open_house(max_pending_per_address=1) as house:
        await house.connect("phone", address=ADDRESS)
        await fail(house, 10)
        peer = await house.open(ADDRESS)
        await peer.send({"t": "hello", "token": TOKEN})
        await trio.sleep(0.999)
        assert await upgrade(house) == UNAVAILABLE
        assert (await peer.receive())["t"] == "ready"
        assert await upgrade(house) == SWITCHING_PROTOCOLS


async def test_zero_turns_each_limit_off(autojump_clock: MockClock) -> None:
    """D37: 0 failures, 0 pending in all, 0 pending per address: no limit."""
    limits = {"throttle_failures": 0, "max_pending": 0, "max_pending_per_address": 0}
    async with open_house(**limits) as house:
        await fail(house, 15)
        assert [await upgrade(house) for _ in range(40)] == [SWITCHING_PROTOCOLS] * 40


async def test_a_refused_peer_is_told_why(autojump_clock: MockClock) -> None:
    """D37: 429 and 503 say in a line what to do, and the connection ends at once."""
    async with open_house(max_pending_per_address=1) as house:
        await fail(house, 10)
        refused = house.plug(ADDRESS)
        await refused.stream.send_all(
            b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Host: test\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a key\r\n\r\n"
        )
        answer = b"".join([data async for data in refused.stream])
        house.plug(NEIGHBOUR)
        await trio.testing.wait_all_tasks_blocked()
        crowded = b"".join([data async for data in house.plug(NEIGHBOUR).stream])
        assert trio.current_time() == 0.0
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert answer.endswith(b"wait a minute\n")
    assert crowded.startswith(b"HTTP/1.1 503 ")
    assert crowded.endswith(b"try later\n")
