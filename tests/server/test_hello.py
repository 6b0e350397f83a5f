"""The handshake, through real connections: who is let in, as whom, and whom that pushes out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from hermes_mobile.agents import Agent, Turn, User
from hermes_mobile.server.values import Token
from house import TOKEN, House, Peer, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock


DEVICE = {"id": "phone", "name": "Phone"}


async def refused_frame(peer: Peer, code: str) -> dict[str, Any]:
    """The fatal error that `peer` gets as its first frame; the close says the same in its reason."""
    error = await peer.receive()
    assert error is not None
    assert (error["t"], error["code"], error["fatal"]) == ("error", code, True)
    assert await peer.wait_closed() == (1008, code)
    return error


async def refused(house: House, code: str, **hello: Any) -> str:
    """The message with which a hello of these fields is refused."""
    peer = await house.open()
    await peer.send({"t": "hello", **hello})
    return (await refused_frame(peer, code))["message"]


def padded_hello(size: int) -> str:
    """A valid hello of exactly `size` bytes."""
    hello = {"t": "hello", "token": TOKEN, "device": DEVICE, "padding": ""}
    hello["padding"] = "x" * (size - len(json.dumps(hello)))
    return json.dumps(hello)


class Recorder(Agent):
    """Notes what it is given, and from whom, and says nothing."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.users: list[User] = []

    async def handle(self, turn: Turn) -> None:
        self.texts.append(turn.input.text)
        self.users.append(turn.user)


# The first frame


async def test_a_first_frame_of_64_kib_is_read(autojump_clock: MockClock) -> None:
    """D6: 65,536 bytes are within the limit."""
    async with open_house() as house:
        peer = await house.open()
        await peer.send(padded_hello(65_536))
        assert (await peer.receive())["t"] == "ready"


async def test_a_first_frame_above_64_kib_is_too_big(autojump_clock: MockClock) -> None:
    """D6: one byte more is fatal `too_big`, and the message names the limit."""
    async with open_house() as house:
        peer = await house.open()
        await peer.send(padded_hello(65_537))
        error = await refused_frame(peer, "too_big")
    assert "65536" in error["message"]


async def test_the_first_frame_is_refused_before_it_is_complete(autojump_clock: MockClock) -> None:
    """D3, D6: fragments beyond the limit are not waited for to end."""
    async with open_house() as house:
        peer = await house.open()
        for _ in range(3):
            await peer.send_event(BytesMessage(b"x" * 30_000, message_finished=False))
        await refused_frame(peer, "too_big")
    assert trio.current_time() == 0.0


@pytest.mark.parametrize(
    "first",
    [
        {"t": "text", "id": "m1", "text": "hi"},
        {"t": "ping"},
        {"t": "from the future"},
        {"token": TOKEN},
        {"t": None, "token": TOKEN},
        "{",
        "[]",
        "null",
        '{"t":"hello","token":NaN}',
        b"\xff\xfe",
    ],
)
async def test_anything_but_hello_first_is_fatal(autojump_clock: MockClock, first: Any) -> None:
    """D6: another type, an unknown one, broken JSON, no object: fatal `bad_frame`."""
    async with open_house() as house:
        peer = await house.open()
        await peer.send(first)
        await refused_frame(peer, "bad_frame")


async def test_a_binary_hello_in_fragments_is_a_hello(autojump_clock: MockClock) -> None:
    """D2: binary is a frame too, however it is fragmented; D14: so is `HELLO`."""
    hello = json.dumps({"t": " HELLO ", "token": TOKEN, "device": DEVICE, "v": "whatever"}).encode()
    async with open_house() as house:
        peer = await house.open()
        for byte in hello[:-1]:
            await peer.send_event(BytesMessage(bytes([byte]), message_finished=False))
        await peer.send_event(BytesMessage(hello[-1:]))
        assert (await peer.receive())["session"] == "mobile:phone"


async def test_hello_has_15_s_from_the_upgrade(autojump_clock: MockClock) -> None:
    """D4, D6: the timeout counts from the upgrade, whenever that was, and says what it is."""
    async with open_house() as house:
        peer = house.plug()
        await trio.sleep(14.0)
        await peer.upgrade()
        error = await refused_frame(peer, "bad_frame")
        assert trio.current_time() == 29.0
    assert "hello timeout" in error["message"]


async def test_nothing_moves_the_hello_timeout(autojump_clock: MockClock) -> None:
    """D4: neither fragments nor pings buy time."""
    async with open_house() as house:
        peer = await house.open()
        for _ in range(14):
            await trio.sleep(1.0)
            await peer.send_event(TextMessage(" ", message_finished=False))
            await peer.send_event(Ping(b"alive"))
        await refused_frame(peer, "bad_frame")
        assert trio.current_time() == 15.0


async def test_a_hello_in_time_is_in_time(autojump_clock: MockClock) -> None:
    """D6: a moment before the timeout is soon enough."""
    async with open_house() as house:
        peer = await house.open()
        await trio.sleep(14.999)
        await peer.send({"t": "hello", "token": TOKEN, "device": DEVICE})
        assert (await peer.receive())["t"] == "ready"


async def test_a_peer_that_leaves_before_hello_is_no_fault(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D37: whoever leaves early, in words or without, is logged once, and holds no place."""
    async with open_house(max_pending=2) as house:
        silent, polite = await house.open(), await house.open()
        await silent.vanish()
        await polite.send_event(CloseConnection(1000))
        assert await polite.wait_closed() == (1000, "")
        await trio.sleep(0.1)
        await house.connect()
    ends = [entry["end"] for entry in logs if entry["event"] == "connection"]
    assert sorted(ends[:2]) == ["lost", "peer left"]


async def test_a_second_hello_is_refused_and_changes_nothing(autojump_clock: MockClock) -> None:
    """D6: `bad_frame`, not fatal, and the device stays who it was."""
    async with open_house() as house:
        peer = await house.connect("phone")
        await peer.send({"t": "hello", "token": TOKEN, "device": {"id": "tablet"}})
        error = await peer.receive()
        assert (error["code"], error["fatal"]) == ("bad_frame", False)
        await peer.send({"t": "ping", "ts": 1})
        assert await peer.receive() == {"t": "pong", "ts": 1}
        assert house.hub.registry.get("tablet") is None
        assert house.hub.registry.get("phone").connection is not None


# The token


@pytest.mark.parametrize(
    "token", [None, "", 7, True, [TOKEN], {"token": TOKEN}, "wrong", TOKEN + " "]
)
async def test_a_token_that_is_no_valid_one_fails(autojump_clock: MockClock, token: Any) -> None:
    """D7: missing, empty, not a string, unknown: fatal `auth_failed`."""
    async with open_house() as house:
        message = await refused(house, "auth_failed", token=token, device=DEVICE)
    assert message.startswith("token:")


async def test_checks_come_in_their_order(autojump_clock: MockClock) -> None:
    """D7: shape, token, allow-list, binding, taken id: a hello wrong in all fails at the first."""
    settings = {
        "extra_tokens": (Token("other-token"), Token("bound-token", "bound")),
        "allowed_devices": frozenset({"phone", "bound"}),
    }
    async with open_house(**settings) as house:
        await house.connect("phone")
        await house.connect("bound", token="bound-token")
        code, message = "bad_frame", "device.id: no control characters"
        assert await refused(house, code, token="wrong", device={"id": "a\0b"}) == message
        code, message = "auth_failed", "token: not valid"
        assert await refused(house, code, token="wrong", device={"id": "stranger"}) == message
        message = "device.id: not allowed here"
        assert await refused(house, code, token="bound-token", device={"id": "x"}) == message
        code, message = "forbidden", "device.id: the token is bound to another device"
        assert await refused(house, code, token="bound-token", device=DEVICE) == message
        message = "device.id: bound to another token"
        assert await refused(house, code, token=TOKEN, device={"id": "bound"}) == message
        message = "device.id: taken by a device that is connected"
        assert await refused(house, code, token="other-token", device=DEVICE) == message


async def test_a_bound_token_connects_as_its_device_only(autojump_clock: MockClock) -> None:
    """D8: another id, and no id at all, are `forbidden`."""
    async with open_house(extra_tokens=(Token("bound-token", "phone"),)) as house:
        await refused(house, "forbidden", token="bound-token", device={"id": "tablet"})
        await refused(house, "forbidden", token="bound-token")
        peer = await house.connect("phone", token="bound-token")
    assert peer.ready["session"] == "mobile:phone"


async def test_a_bound_id_takes_its_own_tokens_only(autojump_clock: MockClock) -> None:
    """D8: the app token is `forbidden` there; each of several bound ones is right, and owns it (D10)."""
    bound = (Token("old-token", "phone"), Token("new=token", "phone"))
    async with open_house(extra_tokens=bound) as house:
        await refused(house, "forbidden", token=TOKEN, device=DEVICE)
        old = await house.connect("phone", token="old-token")
        new = await house.connect("phone", token="new=token")
        assert new.ready["t"] == "ready"
        assert await old.wait_closed() == (4001, "replaced")


async def test_a_bare_extra_token_admits_any_device(autojump_clock: MockClock) -> None:
    """D8: it is one more unbound token."""
    async with open_house(extra_tokens=(Token("spare-token"),)) as house:
        peer = await house.connect("tablet", token="spare-token")
    assert peer.ready["session"] == "mobile:tablet"


async def test_the_allow_list_admits_its_devices_only(autojump_clock: MockClock) -> None:
    """D9: another id, and a device without one, are `auth_failed`."""
    async with open_house(allowed_devices=frozenset({"phone"})) as house:
        await refused(house, "auth_failed", token=TOKEN, device={"id": "tablet"})
        await refused(house, "auth_failed", token=TOKEN)
        peer = await house.connect("phone")
    assert peer.ready["t"] == "ready"


# Whose session it is


async def test_between_unbound_tokens_the_live_one_holds_the_id(autojump_clock: MockClock) -> None:
    """D10: the other one is `forbidden`, and the device that is there notices nothing."""
    async with open_house(extra_tokens=(Token("other-token"),)) as house:
        first = await house.connect("phone")
        await refused(house, "forbidden", token="other-token", device=DEVICE)
        await first.send({"t": "ping", "ts": 1})
        assert await first.receive() == {"t": "pong", "ts": 1}


async def test_a_session_passes_on_once_its_connection_is_gone(autojump_clock: MockClock) -> None:
    """D10: the next unbound token gets the id and all that is kept, and then holds it itself."""
    async with open_house(extra_tokens=(Token("other-token"),)) as house:
        first = await house.connect("phone")
        await first.say("m1", "/think 5")
        await first.expect("typing")
        await first.vanish()
        await trio.sleep(10.0)
        second = await house.connect("phone", token="other-token")
        assert (await second.receive())["text"] == "Thought for 5 s."
        await refused(house, "forbidden", token=TOKEN, device=DEVICE)


async def test_the_same_device_and_token_replace_the_connection(autojump_clock: MockClock) -> None:
    """D11: the old one is closed with 4001 `replaced`, without an error frame."""
    async with open_house() as house:
        old = await house.connect("phone")
        new = await house.connect("phone")
        assert new.ready["session"] == "mobile:phone"
        assert await old.receive() is None
        assert old.closed == (4001, "replaced")
        await new.send({"t": "ping"})
        assert await new.receive() == {"t": "pong"}


async def test_ready_does_not_wait_for_the_old_peer(autojump_clock: MockClock) -> None:
    """D11: an old peer that neither reads nor closes costs the new one no time at all."""
    async with open_house() as house:
        stuck = await house.connect("phone")
        await stuck.say("m1", "/file 8000000")
        await trio.sleep(1.0)
        before = trio.current_time()
        new = await house.connect("phone")
        assert new.ready["t"] == "ready"
        assert trio.current_time() == before
        assert [(await new.expect("media"))["part"] for _ in range(3)] == [0, 1, 2]


async def test_frames_of_a_replaced_connection_are_discarded(autojump_clock: MockClock) -> None:
    """D11: what the old connection sends after the new one's `ready` reaches nobody."""
    agent = Recorder()
    async with open_house(agent) as house:
        old = await house.connect("phone")
        new = await house.connect("phone")
        for number in range(10):
            await old.say(f"old-{number}", "late")
        await new.say("new", "in time")
        assert await old.wait_closed() == (4001, "replaced")
        await new.receive_for(1.0)
    assert agent.texts == ["in time"]


async def test_the_last_of_many_reconnections_stays(autojump_clock: MockClock) -> None:
    """D11: each pushes out the one before, and the session has one connection, the last."""
    async with open_house() as house:
        peers = [await house.connect("phone") for _ in range(5)]
        ends = [await peer.wait_closed() for peer in peers[:-1]]
        await peers[-1].say("m1", "still here")
        assert (await peers[-1].expect("message"))["text"] == "still here"
    assert ends == [(4001, "replaced")] * 4


# Names


@pytest.mark.parametrize(
    ("given", "id"),
    [
        ("  phone\n", "phone"),
        (7, "7"),
        (-(2**53), "-9007199254740992"),
        ("d" * 121, "d" * 120),
        ("📱" * 121, "📱" * 120),
        ("a=b, c", "a=b, c"),
    ],
)
async def test_a_device_id_is_trimmed_text(autojump_clock: MockClock, given: Any, id: str) -> None:
    """D12: a string, or an integer within 2^53, trimmed and cut to 120 code points."""
    async with open_house() as house:
        peer = await house.open()
        await peer.send({"t": "hello", "token": TOKEN, "device": {"id": given, "name": 3}})
        ready = await peer.receive()
    assert ready["session"] == f"mobile:{id}"
    assert ready["device"] == {"id": id, "name": "3"}


@pytest.mark.parametrize(
    "given", [True, 1.5, 2**53 + 1, ["phone"], {"id": "phone"}, "a\nb", "\x7f"]
)
async def test_what_no_device_id_can_be_is_fatal(autojump_clock: MockClock, given: Any) -> None:
    """D12: other numbers, arrays, objects, booleans, control characters: `bad_frame`."""
    async with open_house() as house:
        message = await refused(house, "bad_frame", token=TOKEN, device={"id": given})
    assert message.startswith("device.id:")


@pytest.mark.parametrize("device", [None, {}, {"id": None}, {"id": ""}, {"id": "  "}])
async def test_a_device_without_id_gets_one(autojump_clock: MockClock, device: Any) -> None:
    """D12: an empty id, and `null`, count as absent: the server makes up `dev-<hex>`."""
    async with open_house() as house:
        peer = await house.open()
        await peer.send({"t": "hello", "token": TOKEN, "device": device, "user": None})
        ready = await peer.receive()
    assert ready["device"]["id"].startswith("dev-")
    int(ready["device"]["id"].removeprefix("dev-"), 16)
    assert ready["session"] == "mobile:" + ready["device"]["id"]


async def test_the_agent_sees_the_user_of_the_last_hello(autojump_clock: MockClock) -> None:
    """D12: `user` is who the app says, trimmed, and a reconnection may say another one."""
    agent = Recorder()
    async with open_house(agent) as house:
        for user in ({"id": 7, "name": " Ada "}, {"id": "u-2"}):
            peer = await house.connect("phone", user=user)
            await peer.say(f"m-{user['id']}", "hi")
            await peer.expect("typing", stop=True)
    assert agent.users == [User("7", "Ada"), User("u-2", "")]
