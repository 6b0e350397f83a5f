"""A reload: what is read anew, for whom it holds, and who is told to go."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import evolve
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.server.devices import Devices
from hermes_mobile.server.loading import load_settings
from hermes_mobile.server.reload import compare, reload
from hermes_mobile.server.settings import VARIABLES, Settings
from hermes_mobile.server.units import MessageUnit
from hermes_mobile.server.values import Token, networks
from house import TOKEN, chunk, delivery, faults, open_house, texts
from store import FakeStore

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from trio.testing import MockClock

    from house import House

OTHER = "other-secret-token"
WITHDRAWN = (1008, "auth_failed")


def change(house: House, **settings: Any) -> int:
    """Apply these `settings` beside those in force; returns how many connections are closed."""
    house.hub.apply(evolve(house.hub.settings, **settings))
    return house.hub.close_withdrawn()


# Who is told to go


async def test_a_withdrawn_token_closes_its_connections() -> None:
    """A fatal `auth_failed`, then 1008; the token does not come back in, another one does."""
    async with open_house() as house:
        phone = await house.connect("phone")
        assert change(house, token=OTHER) == 1
        error = await phone.expect("error")
        assert (error["code"], error["fatal"]) == ("auth_failed", True)
        assert await phone.wait_closed() == WITHDRAWN
        assert (await house.connect("phone")).ready["code"] == "auth_failed"
        assert (await house.connect("phone", token=OTHER)).ready["t"] == "ready"


@pytest.mark.parametrize(
    ("withdrawal", "code"),
    [
        ({"allowed_devices": frozenset({"phone"})}, "auth_failed"),
        ({"token": "for-others"}, "auth_failed"),
        ({"token": "for-others", "deliver_tokens": frozenset({TOKEN})}, "auth_failed"),
        ({"extra_tokens": (Token(OTHER, "phone"), Token("its own", "tablet"))}, "forbidden"),
        (
            {"token": None, "extra_tokens": (Token(OTHER, "phone"), Token(TOKEN, "kitchen"))},
            "forbidden",
        ),
    ],
    ids=["not on the list", "token gone", "token only delivers", "id bound", "token bound"],
)
async def test_whatever_would_not_be_granted_today_is_withdrawn(
    withdrawal: dict[str, Any], code: str, logs: list[dict[str, Any]]
) -> None:
    """D7 to D9: a live connection is judged as its hello would be; another one notices nothing."""
    async with open_house(extra_tokens=(Token(OTHER, "phone"),)) as house:
        phone = await house.connect("phone", token=OTHER)
        tablet = await house.connect("tablet")
        assert change(house, **withdrawal) == 1
        assert await tablet.wait_closed() == (1008, code)
        assert await phone.drain() == []
    assert faults(logs) == []


async def test_a_courier_goes_with_its_token() -> None:
    """D26: it is no device, so neither the allow-list nor a binding concerns it."""
    couriers = frozenset({"a-courier", "its-colleague"})
    async with open_house(deliver_tokens=couriers) as house:
        first = await house.connect("cron", token="a-courier")
        second = await house.connect("cron", token="its-colleague")
        assert change(house, allowed_devices=frozenset({"phone"})) == 0
        assert change(house, deliver_tokens=frozenset({"its-colleague"})) == 1
        assert await first.wait_closed() == WITHDRAWN
        assert await second.drain() == []


async def test_a_device_without_an_id_goes_when_there_is_a_list() -> None:
    """D9: a generated id is never on the list."""
    async with open_house() as house:
        nameless = await house.connect(None)
        assert change(house, allowed_devices=frozenset({"phone"})) == 1
        assert await nameless.wait_closed() == WITHDRAWN


async def test_nothing_more_is_told_to_who_was_withdrawn() -> None:
    """What waits for the device is for its next connection, not for the one that lost its right."""
    async with open_house() as house:
        phone = await house.connect("phone")
        house.hub.registry.open("phone").say(MessageUnit("u1", trio.current_time(), "in line"))
        change(house, token=OTHER)
        assert texts(await phone.receive_until("error")) == []
        assert await phone.wait_closed() == WITHDRAWN
        phone = await house.connect("phone", token=OTHER)
        assert (await phone.expect("message"))["text"] == "in line"


async def test_old_and_new_token_side_by_side(autojump_clock: MockClock) -> None:
    """Rotation: the app changes over to the new token with all that it is owed; then the old goes."""
    async with open_house() as house:
        phone = await house.connect("phone")
        await phone.say("m1", "/think 5")
        await phone.expect("typing")
        assert change(house, extra_tokens=(Token(OTHER),)) == 0
        await house.lose(phone)
        phone = await house.connect("phone", token=OTHER)
        assert change(house, token=OTHER, extra_tokens=()) == 0
        assert (await phone.expect("message"))["text"] == "Thought for 5 s."


async def test_a_hello_is_judged_by_what_holds_when_it_is_said() -> None:
    """An open WebSocket that has not said hello has no right to lose, and none from before."""
    async with open_house() as house:
        early = await house.open()
        assert change(house, token=OTHER) == 0
        assert (await early.refusal({"t": "hello", "token": TOKEN}))[:2] == ("auth_failed", True)


# What everybody else notices: nothing


async def test_work_goes_on_through_a_reload(autojump_clock: MockClock) -> None:
    """A running turn, an open card, a half upload and a queue go on as if nothing had been."""
    async with open_house() as house:
        thinking = await house.connect("thinking")
        await thinking.say("m1", "/think 5")
        await thinking.say("m2", "and then")
        asked = await house.connect("asked")
        await asked.say("m1", "/run ls")
        card = await asked.expect("prompt")
        sending = await house.connect("sending")
        await sending.send(chunk("f1", b"one", 0, 2))
        await sending.drain()
        assert change(house, prompt_ttl=1.0, queue_messages=1, keep_units=1, typing_idle=9.0) == 0
        await trio.sleep(2)
        await asked.send({"t": "prompt", "prompt_id": card["id"], "option_id": "once"})
        assert (await asked.expect("message"))["text"] == "Applied: once"
        await sending.send(chunk("f1", b"two", 1, 2))
        assert "size: 6 bytes" in (await sending.expect("message"))["text"]
        said = await thinking.receive_until("message", text="and then")
        assert texts(said) == ["Thought for 5 s.", "and then"]


# For whom the other settings hold


async def test_durations_hold_for_what_begins(autojump_clock: MockClock) -> None:
    """A card that is asked has the new time; so has the next fall to idle, of a device known before."""
    async with open_house(typing_idle=3.0) as house:
        phone = await house.connect("phone")
        change(house, prompt_ttl=7.0, typing_idle=20.0)
        await phone.say("m1", "/run ls")
        assert (await phone.expect("prompt"))["timeout_seconds"] == 7
        await phone.expect("typing", stop=True)
        ended = trio.current_time()
        await phone.expect("avatar", state="idle")
        assert trio.current_time() == ended + 20


async def test_the_time_for_hello_holds_for_new_connections(autojump_clock: MockClock) -> None:
    """D4: from a fixed moment, which a reload does not move either."""
    async with open_house(hello_timeout=15.0) as house:
        before = await house.open()
        change(house, hello_timeout=2.0)
        after = await house.open()
        await after.wait_closed()
        assert trio.current_time() == 2
        await before.wait_closed()
        assert trio.current_time() == 15


async def test_fewer_units_are_kept_at_once() -> None:
    """D32: a device that is away is told of what the new bounds left no place for."""
    async with open_house() as house:
        await house.lose(await house.connect("phone"))
        await house.say("one", "two", "three")
        change(house, keep_units=2)
        phone = await house.connect("phone")
        frames = await phone.receive_until("error")
        assert texts(frames) == ["two", "three"]
        assert frames[-1]["message"].startswith("1 messages could not be kept")


async def test_units_are_kept_for_the_new_time(autojump_clock: MockClock) -> None:
    """D32: also those that were kept before; the janitor comes for them in time."""
    async with open_house(keep_seconds=3600.0) as house:
        await house.lose(await house.connect("phone"))
        await house.say("one")
        change(house, keep_seconds=60.0)
        await trio.sleep(60)
        await wait_all_tasks_blocked()
        assert house.hub.metrics.units_dropped == 1


async def test_the_home_device_moves() -> None:
    """D25: a delivery without a target goes to the one that holds now."""
    async with open_house(home_device="phone") as house:
        phone, tablet, cron = [await house.connect(name) for name in ("phone", "tablet", "cron")]
        change(house, home_device="tablet")
        await cron.send(delivery("d1", None))
        assert (await tablet.expect("message"))["id"] == "d1"
        assert await phone.drain() == []


async def test_the_throttle_counts_to_the_new_limit() -> None:
    """D37: with the failures counted so far; 0 forgets them."""
    async with open_house(throttle_failures=10, trusted_proxies=()) as house:
        for _ in range(2):
            await house.connect("phone", token="wrong", address="192.0.2.1")
        change(house, throttle_failures=3)
        await house.connect("phone", token="wrong", address="192.0.2.1")
        refused = house.plug("192.0.2.1")
        await refused.upgrade()
        assert refused.http_status == 429
        change(house, throttle_failures=0)
        assert (await house.connect("phone", address="192.0.2.1")).ready["t"] == "ready"


async def test_the_limit_of_pending_hellos_moves() -> None:
    """D37: who waits already keeps its place, and counts."""
    async with open_house(max_pending=10) as house:
        waiting = [await house.open() for _ in range(3)]
        change(house, max_pending=3)
        refused = house.plug()
        await refused.upgrade()
        assert refused.http_status == 503
        for peer in waiting:
            await peer.send({"t": "hello", "token": TOKEN})
            assert (await peer.receive())["t"] == "ready"


async def test_a_proxy_is_trusted_from_now_on() -> None:
    """D37: the forwarded address of the next connection counts."""
    async with open_house(trusted_proxies=(), throttle_failures=1) as house:
        change(house, trusted_proxies=networks("10.0.0.1"))
        forwarded = [(b"X-Forwarded-For", b"192.0.2.7")]
        await house.connect("phone", token="wrong", address="10.0.0.1", headers=forwarded)
        assert house.hub.throttle.refuse_upgrade("192.0.2.7", trio.current_time())
        assert not house.hub.throttle.refuse_upgrade("10.0.0.1", trio.current_time())


# Where settings are read from


def reload_from(house: House, config: Path, text: str, **environ: str) -> Awaitable[bool]:
    config.write_text(text)
    return reload(house.hub, lambda made: load_settings(config, environ, made))


async def test_the_file_and_what_it_names_are_read_again(
    tmp_path: Path, logs: list[dict[str, Any]]
) -> None:
    """The TOML file, and the file of a secret; the log names what changed, and shows no value."""
    config, secret = tmp_path / "mobile.toml", tmp_path / "token"
    text = f'token_file = "{secret}"\nhome_device = "%s"\n'
    secret.write_text(TOKEN)
    config.write_text(text % "tablet")
    async with open_house() as house:
        house.hub.apply(load_settings(config, {}))
        phone = await house.connect("phone")
        secret.write_text(OTHER)
        assert await reload_from(house, config, text % "kitchen")
        assert await phone.wait_closed() == WITHDRAWN
        assert house.hub.settings.token == OTHER
        assert house.hub.settings.home_device == "kitchen"
    (told,) = [entry for entry in logs if entry["event"] == "reloaded"]
    assert told == {
        "event": "reloaded",
        "log_level": "info",
        "applied": ["MOBILE_TOKEN", "MOBILE_HOME_DEVICE"],
        "need_restart": [],
        "not_read_again": [],
        "closed": 1,
    }
    assert "kitchen" not in str(logs)


async def test_a_token_that_is_still_the_agents_is_no_devices(
    tmp_path: Path, logs: list[dict[str, Any]]
) -> None:
    """D8: the agent's new one is for the next start, and until then the old one has one role, too."""
    async with open_house(agent_token=OTHER) as house:
        text = f'token = "{OTHER}"\nagent_token = "the-next-one-of-it"\n'
        assert not await reload_from(house, tmp_path / "c", text)
        assert house.hub.settings.token == TOKEN
    (fault,) = faults(logs)
    assert "must give each token one role" in fault["problem"]


async def test_a_file_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    """Who is cancelled meanwhile goes on at once: a server that is to stop, for one."""
    may_go_on = threading.Event()
    async with open_house() as house:
        with trio.move_on_after(0.05) as waiting:
            await reload(house.hub, lambda _: may_go_on.wait(5) and house.hub.settings)
        assert waiting.cancelled_caught
    may_go_on.set()


async def test_what_needs_a_restart_is_named_and_stays(
    tmp_path: Path, logs: list[dict[str, Any]]
) -> None:
    """Where it listens, for one; what else changed is applied all the same."""
    async with open_house() as house:
        before = house.hub.settings
        text = f'token = "{TOKEN}"\nport = 9\nstate_dir = "/elsewhere"\nprompt_ttl = 60\n'
        assert await reload_from(house, tmp_path / "c", text)
        assert house.hub.settings == evolve(before, prompt_ttl=60.0)
    (told,) = [entry for entry in logs if entry["event"] == "reloaded"]
    assert told["applied"] == ["MOBILE_PROMPT_TTL"]
    assert told["need_restart"] == ["MOBILE_PORT", "MOBILE_ADMIN_SOCKET", "MOBILE_STATE_DIR"]


async def test_what_cannot_be_read_again_is_named(
    tmp_path: Path, logs: list[dict[str, Any]]
) -> None:
    """The environment and systemd's credentials are as they were when the process was started."""
    (tmp_path / "mobile_deliver_tokens").write_text(OTHER)
    environ = {
        "MOBILE_TOKEN": TOKEN,
        "MOBILE_PROMPT_TTL": "60",
        "CREDENTIALS_DIRECTORY": str(tmp_path),
    }
    async with open_house() as house:
        assert await reload_from(house, tmp_path / "c", "prompt_ttl = 10", **environ)
        assert house.hub.settings.prompt_ttl == 60
    (told,) = [entry for entry in logs if entry["event"] == "reloaded"]
    assert told["not_read_again"] == ["MOBILE_TOKEN", "MOBILE_DELIVER_TOKENS", "MOBILE_PROMPT_TTL"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prompt_ttl = 60\nport = ", "not TOML"),
        ("prompt_ttl = 60\nhome_device = ''\ntyping_idle = 0", "MOBILE_TYPING_IDLE must be"),
        ("prompt_ttl = 60\ntoken = 'secret secret'", "MOBILE_TOKEN must be"),
        ("prompt_ttl = 60\ndeliver_tokens = 'secret'\ntoken = 'secret'", "one role"),
        ("prompt_ttl = 60", "MOBILE_TOKEN must be set: one is made up at the start only"),
    ],
)
async def test_a_broken_file_changes_nothing(
    tmp_path: Path, logs: list[dict[str, Any]], text: str, problem: str
) -> None:
    """A reload happens whole or not at all; the log says in one line what is wrong."""
    async with open_house() as house:
        phone = await house.connect("phone")
        before = house.hub.settings
        assert not await reload_from(house, tmp_path / "c", text)
        assert house.hub.settings is before
        assert await phone.drain() == []
    (fault,) = faults(logs)
    assert (fault["event"], fault["log_level"]) == ("reload refused", "error")
    assert problem in fault["problem"]
    assert "\n" not in fault["problem"]
    assert "secret" not in str(fault)


async def test_a_likely_mistake_is_warned_about_as_at_the_start(
    tmp_path: Path, logs: list[dict[str, Any]]
) -> None:
    """D9: what `check` would warn about."""
    text = f'token = "{TOKEN}"\nallowed_devices = ["a"]\nhome_device = "b"\n'
    async with open_house() as house:
        assert await reload_from(house, tmp_path / "c", text + "throttle_failures = 0")
    warnings = [fault["warning"] for fault in faults(logs)]
    assert any("lacks b" in warning for warning in warnings)
    assert any("guessed" in warning for warning in warnings)


async def test_a_token_that_was_made_up_survives(tmp_path: Path) -> None:
    """D36: as long as none is configured; then that one takes its place."""
    async with open_house() as house:
        house.hub.apply(load_settings(None, {}))
        made = house.hub.settings.token
        phone = await house.connect("phone", token=made)
        assert await reload_from(house, tmp_path / "c", "prompt_ttl = 60")
        assert (house.hub.settings.token, house.hub.settings.token_made) == (made, True)
        assert await phone.drain() == []
        assert await reload_from(house, tmp_path / "c", f'token = "{OTHER}"')
        assert await phone.wait_closed() == WITHDRAWN
        assert not house.hub.settings.token_made


def test_every_setting_is_applied_or_needs_a_restart() -> None:
    """Whatever is found different is named in one of the two lists, and treated as it says."""
    before = Settings(token=TOKEN)
    for variable, attribute in VARIABLES.items():
        name = attribute.name
        found = evolve(before, **{name: object()})
        changed = compare(before, found)
        assert [variable] == changed.applied + changed.need_restart
        kept = getattr(changed.settings, name) == getattr(before, name)
        assert kept == (variable in changed.need_restart)


async def test_the_access_file_is_read_again(tmp_path: Path) -> None:
    """What is not in it any more is withdrawn; a damaged one changes nothing at all."""
    devices = Devices(store=FakeStore())
    async with open_house(devices=devices) as house:
        phone = await house.connect("phone", token=await devices.pair("phone"))
        tablet = await house.connect("tablet", token=await devices.pair("tablet"))
        devices._store.known = [each for each in devices if each.id == "phone"]
        assert await reload_from(house, tmp_path / "mobile.toml", f'token = "{TOKEN}"')
        assert devices.get("tablet").tokens == ()
        assert await tablet.wait_closed() == WITHDRAWN
        devices._store.failure = "the file is damaged"
        assert not await reload_from(house, tmp_path / "mobile.toml", f'token = "{OTHER}"')
        assert house.hub.settings.token == TOKEN
        assert await phone.drain() == []
