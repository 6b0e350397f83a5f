"""Who may deliver, through real connections (D26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hermes_mobile.server.values import Token
from house import audio, chunk, delivery, open_house
from station import ELSEWHERE, courier, message, open_station

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_a_process_of_this_host_may(autojump_clock: MockClock, address: str) -> None:
    """D26: any loopback peer, with any token, while it is a device itself."""
    async with open_house() as house:
        phone = await house.connect("phone", address=ELSEWHERE)
        script = await house.connect("script", address=address)
        await script.send(delivery("d1"))
        assert await script.drain() == []
        assert await phone.receive() == message("d1")


@pytest.mark.parametrize(
    "header",
    [
        (b"X-Forwarded-For", b"198.51.100.1"),
        (b"X-Real-IP", b"198.51.100.1"),
        (b"Forwarded", b"for=198.51.100.1"),
        (b"x-forwarded-for", b""),
    ],
)
async def test_who_comes_through_a_proxy_may_not(
    autojump_clock: MockClock, header: tuple[bytes, bytes]
) -> None:
    """D26: a proxy on this host does not lend its address."""
    async with open_house() as house:
        phone = await house.connect("phone", headers=[header])
        assert await phone.refusal(delivery("d1")) == ("forbidden", False, "d1")
        assert await phone.drain() == []


async def test_who_comes_from_elsewhere_may_not(autojump_clock: MockClock) -> None:
    """D26: an ordinary app is `forbidden`, by the frame's id, and stays connected."""
    async with open_house() as house:
        phone = await house.connect("phone", address=ELSEWHERE)
        assert await phone.refusal(delivery("d1")) == ("forbidden", False, "d1")
        assert await phone.drain() == []


async def test_the_operator_can_take_it_from_this_host(autojump_clock: MockClock) -> None:
    """D26: `MOBILE_DELIVER_LOOPBACK=off` leaves it to deliver tokens."""
    async with open_station(deliver_loopback=False) as house:
        phone = await house.connect("phone")
        assert await phone.refusal(delivery("d1")) == ("forbidden", False, "d1")
        await (await courier(house)).send(delivery("d2"))
        assert await phone.receive() == message("d2")


@pytest.mark.parametrize("headers", [None, [(b"X-Forwarded-For", b"198.51.100.1")]])
async def test_a_deliver_token_may_from_anywhere(autojump_clock: MockClock, headers: Any) -> None:
    """D26: the token is enough, through a proxy too."""
    async with open_station() as house:
        phone = await house.connect("phone")
        cron = await courier(house, address=ELSEWHERE, headers=headers)
        await cron.send(delivery("d1"))
        assert await phone.receive() == message("d1")


async def test_a_courier_is_no_device(autojump_clock: MockClock) -> None:
    """D26: no session, no place on the allow-list, and whoever has its id stays connected."""
    bound = Token("bound-token", "phone")
    async with open_station(allowed_devices=frozenset({"phone"}), extra_tokens=(bound,)) as house:
        phone = await house.connect("phone", token="bound-token")
        cron = await courier(house, "phone")
        assert cron.ready["session"] == ""
        assert cron.ready["device"] == {"id": "phone", "name": "Phone"}
        nameless = await courier(house)
        assert nameless.ready["device"] == {"id": "", "name": ""}
        again = await courier(house, "phone")
        assert [await each.drain() for each in (phone, cron, nameless, again)] == [[]] * 4
        assert [session.device_id for session in house.hub.registry] == ["phone"]
        other = await courier(house, "cron")
        assert await other.refusal(delivery("d1", "cron")) == ("device_offline", False, "d1")


async def test_a_courier_may_only_deliver(autojump_clock: MockClock) -> None:
    """D26: other frames are `forbidden`, by their id; `ping` and `ack` are not, nor is the unknown."""
    async with open_station() as house:
        cron = await courier(house)
        for frame in (
            {"t": "text", "id": "m1", "text": "hi"},
            {"t": "text", "id": "m1", "text": "/stop"},
            audio("m1", "T2dnUw=="),
            chunk("m1", b"data"),
        ):
            assert await cron.refusal(frame) == ("forbidden", False, "m1")
        for frame in ({"t": "typing"}, {"t": "prompt", "prompt_id": "p1", "option_id": "once"}):
            assert await cron.refusal(frame) == ("forbidden", False, None)
        await cron.send({"t": "ack", "id": "m1"})
        await cron.send({"t": "from the future"})
        assert await cron.drain() == []
