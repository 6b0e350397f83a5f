"""When a session is forgotten: at once, or when what it was kept for is over (D32)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from house import House, open_house, texts

if TYPE_CHECKING:
    from trio.testing import MockClock


def known(house: House) -> set[str]:
    """The devices that the server knows."""
    return {session.device_id for session in house.hub.registry}


async def test_a_session_without_anything_is_forgotten_at_once(autojump_clock: MockClock) -> None:
    """D32: the device leaves, nothing is owed, nothing stays."""
    async with open_house() as house:
        peer = await house.connect()
        assert known(house) == {"phone"}
        await house.lose(peer)
        assert known(house) == set()


async def test_a_session_is_kept_while_its_turn_runs(autojump_clock: MockClock) -> None:
    """D32: and after it for what it said, until the device confirms that."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/think 60")
        await peer.expect("typing")
        await house.lose(peer)
        await trio.sleep(59)
        assert known(house) == {"phone"}
        await trio.sleep(10)
        peer = await house.connect()
        await peer.receive_for(2)
        await house.lose(peer)
        assert known(house) == set()


async def test_a_session_is_forgotten_when_a_silent_turn_ends(autojump_clock: MockClock) -> None:
    """D32: a turn that failed while the device was away leaves nothing to keep."""
    async with open_house() as house:
        peer = await house.connect()
        await peer.say("m1", "/fail")
        await house.lose(peer)
        assert known(house) == set()


async def test_a_session_is_forgotten_when_its_last_card_expires(autojump_clock: MockClock) -> None:
    """D34: a card asked outside a turn, that nobody saw, is the last thing kept; then nothing is."""
    async with open_house() as house:
        with trio.move_on_after(100):
            await house.hub.conversation("phone").ask("Which?", ["a"], ttl=30)
        assert trio.current_time() == 30
        assert known(house) == set()
        assert house.hub.registry.kept_bytes == 0


async def test_a_forgotten_session_stays_forgotten(autojump_clock: MockClock) -> None:
    """D32: whoever still holds it does not bring it back, nor into the books of the next one."""
    async with open_house() as house:
        old = house.hub.registry.open("phone")
        house.hub.registry.settle(old)
        await house.say("word")
        house.hub.registry.settle(old)
        assert house.hub.registry.get("phone") is not old
        assert house.hub.registry.kept_bytes == 4 * 4 + 64


async def test_looking_at_a_conversation_makes_no_session(autojump_clock: MockClock) -> None:
    """The port: names are answered, and words that were cancelled are not said."""
    async with open_house() as house:
        talk = house.hub.conversation("phone")
        assert talk.device_id == "phone"
        assert talk.session == "mobile:phone"
        assert talk.user.id == ""
        with trio.CancelScope() as scope:
            scope.cancel()
            await talk.reply("never")
        assert known(house) == set()


async def test_the_user_is_the_one_of_the_last_hello(autojump_clock: MockClock) -> None:
    """The port: who the app said it is, while the session is known."""
    async with open_house() as house:
        await house.connect(user={"id": "u-1", "name": "Eugene"})
        user = house.hub.conversation("phone").user
    assert (user.id, user.name) == ("u-1", "Eugene")


@pytest.mark.parametrize(("away", "applied"), [(99.0, True), (100.0, False)])
async def test_closed_cards_are_remembered_for_the_keeping_time(
    autojump_clock: MockClock, away: float, applied: bool
) -> None:
    """D21, D32: exactly so long a device that is away may still learn what its answer did."""
    async with open_house(keep_seconds=100.0) as house:
        peer = await house.connect()
        await peer.say("m1", "/run ls")
        card = await peer.expect("prompt")
        answer = {"t": "prompt", "prompt_id": card["id"], "option_id": "once"}
        await peer.send(answer)
        await peer.receive_for(2)
        await house.lose(peer)
        await trio.sleep(away)
        await wait_all_tasks_blocked()
        assert known(house) == ({"phone"} if applied else set())
        peer = await house.connect()
        await peer.send(answer)
        done = await peer.expect("prompt_done")
    assert done.get("option_id") == ("once" if applied else None)
    assert done.get("expired", False) is not applied


async def test_the_janitor_comes_when_it_is_due(autojump_clock: MockClock) -> None:
    """D32: the bytes are free at the very second, with nobody there to ask for them."""
    async with open_house(keep_seconds=100.0) as house:
        registry = house.hub.registry
        for device, seconds in (("first", 10), ("second", 20), ("third", 0)):
            await house.say("x" * 84, device=device)
            await trio.sleep(seconds)
        kept = []
        for moment in (99.0, 100.0, 109.0, 110.0, 129.0, 130.0):
            await trio.sleep_until(moment)
            await wait_all_tasks_blocked()
            kept.append(registry.kept_bytes)
    assert kept == [1200, 800, 800, 400, 400, 0]


async def test_what_was_dropped_is_told_however_late(autojump_clock: MockClock) -> None:
    """D32: a session that owes only its notice is kept for that."""
    async with open_house(keep_seconds=100.0) as house:
        await house.say("one", "two")
        await trio.sleep(80_000)
        assert known(house) == {"phone"}
        peer = await house.connect()
        frames = await peer.receive_for(2)
        assert [frame["message"].split()[0] for frame in frames] == ["2"]
        await house.lose(peer)
        assert known(house) == set()


async def test_a_device_that_is_back_does_not_count_as_away(autojump_clock: MockClock) -> None:
    """D32: its bytes are its connection's business, and its absence begins anew."""
    async with open_house(max_sessions=2) as house:
        for device in ("first", "second"):
            await house.say("word", device=device)
            await trio.sleep(1)
        peer = await house.connect("first")
        peer.answers_pings = False
        await peer.expect("message")
        assert house.hub.registry.kept_bytes == 4 * 4 + 64
        await house.lose(peer)
        await house.say("word", device="third")  # now `second` is away the longest
        assert known(house) == {"first", "third"}
        assert texts(await (await house.connect("first")).receive_for(0.1)) == ["word"]


async def test_the_log_tells_what_was_dropped_for_others(
    autojump_clock: MockClock, logs: list[dict[str, object]]
) -> None:
    """D32, D39: session and number, and nothing of what was said."""
    async with open_house(keep_total_bytes=100) as house:
        await house.say("a secret", "another")
    (dropped,) = [entry for entry in logs if entry["event"] == "units dropped"]
    assert (dropped["session"], dropped["units"]) == ("mobile:phone", 2)
    assert "secret" not in str(logs)
