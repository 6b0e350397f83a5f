"""Hermes Agent speaks unasked: cron, and `hermes send` from a shell."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import trio

from hermes.stage import HOME_DEVICE
from hermes_mobile.hermes import targets

pytestmark = pytest.mark.slow


async def run(stage, *arguments):
    return await trio.to_thread.run_sync(stage.gateway.run, *arguments)


def make_due(jobs):
    """Let every job be due now: the gateway looks as it starts, and then once a minute."""
    stored = json.loads(jobs.read_text())
    for job in stored["jobs"]:
        job["next_run_at"] = datetime.now(UTC).isoformat()
    jobs.write_text(json.dumps(stored))


async def prepare_cron(stage, *devices):
    """Jobs that speak as soon as the gateway runs."""
    scripts = stage.gateway.home / "scripts"
    scripts.mkdir()
    (scripts / "remind.sh").write_text("echo Water the flowers")
    for device in devices:
        job = ("--no-agent", "--script", "remind.sh", "--deliver", device, "every 1h")
        created = await run(stage, "cron", "create", *job)
        assert created.returncode == 0, created.stderr
    make_due(stage.gateway.home / "cron" / "jobs.json")


async def test_cron_reaches_a_device_that_is_away(stage):
    """D32: what a job says is the agent's speech, kept for a device that connects later."""
    stage.gateway.install_plugin()
    await prepare_cron(stage, "mobile:sleeper", "mobile")
    stage.start()
    async with stage.phone(HOME_DEVICE) as home:
        assert await home.reply() == "Water the flowers"
    async with stage.phone("sleeper") as phone:
        assert await phone.reply() == "Water the flowers"


async def test_send_reaches_the_device_that_is_named(shared):
    """By number, by the name in an alias, or home; the other device hears nothing of it."""
    aliases = shared.gateway.home / "channel_aliases.json"
    aliases.write_text(json.dumps({"mobile": {targets.chat_id("left-phone"): "Lefty"}}))
    number = targets.chat_id("right-phone")
    async with (
        shared.phone("left-phone") as left,
        shared.phone("right-phone") as right,
        shared.phone(HOME_DEVICE) as home,
    ):
        for target, text in (("mobile:lefty", "L"), (f"mobile:{number}", "R"), ("mobile", "H")):
            sent = await run(shared, "send", "--to", target, text)
            assert sent.returncode == 0, sent.stdout + sent.stderr
        assert [await left.reply(), await right.reply(), await home.reply()] == ["L", "R", "H"]
        for phone in (left, right, home):
            await phone.caller.send_frame({"t": "ping", "ts": 1})
            frames = await phone.caller.receive_until("pong")
            assert [frame for frame in frames if frame["t"] == "message"] == []


async def test_a_name_is_not_completed_to_another_device(stage):
    """Hermes has met anna-iphone, not anna: what is for anna goes to her, or nowhere."""
    stage.start()
    async with stage.phone("anna-iphone") as phone:
        await phone.say("Hello")
        await phone.until_said("echo")
    await trio.to_thread.run_sync(stage.gateway.stop)
    await prepare_cron(stage, "mobile:anna")
    stage.gateway.start()
    async with stage.phone("anna") as anna:
        assert await anna.reply() == "Water the flowers"
    for target in ("mobile:anna", "mobile:anna-iphone"):
        assert (await run(stage, "send", "--to", target, "A secret")).returncode == 1
    listed = (await run(stage, "send", "--list", "mobile")).stdout
    assert targets.chat_name("anna-iphone") in listed


async def test_send_with_a_file(shared):
    """MEDIA: in the text goes along as a file."""
    path = shared.gateway.place / "list.txt"
    path.write_text("milk")
    target = f"mobile:{targets.chat_id('send-file')}"
    async with shared.phone("send-file") as phone:
        sent = await run(shared, "send", "--to", target, f"Shopping MEDIA:{path}")
        assert sent.returncode == 0, sent.stdout + sent.stderr
        assert await phone.reply() == "Shopping"
        frame, data = await phone.file()
        assert (frame["filename"], data) == ("list.txt", b"milk")


async def test_a_message_for_one_device_never_goes_to_another(stage):
    """Hermes sends what it cannot read home; so nothing is sent home while it may misread."""
    aliases = stage.gateway.home / "channel_aliases.json"
    aliases.write_text(json.dumps({"mobile": {"anna-iphone": "Anna"}}))
    stage.start_server()
    stage.gateway.install_plugin()
    async with stage.phone(HOME_DEVICE) as home:
        for target in ("mobile:anna", "mobile:anna-iphone", "mobile:nobody"):
            sent = await run(stage, "send", "--to", target, "A secret for Anna")
            assert sent.returncode == 1, target
        aliases.unlink()
        assert (await run(stage, "send", "--to", "mobile", "For all")).returncode == 0
        assert await home.reply() == "For all"


async def test_a_phone_makes_itself_home(stage):
    """`/sethome` counts for what is sent home from then on, over a restart of the gateway, too."""
    stage.start()
    async with stage.phone("nomad") as nomad, stage.phone(HOME_DEVICE) as home:
        await nomad.say("/sethome")
        await nomad.turn_ended()
        assert (await run(stage, "send", "--to", "mobile", "Moved")).returncode == 0
        await nomad.until_said("Moved")
        await trio.to_thread.run_sync(stage.gateway.stop)
        await prepare_cron(stage, "mobile")
        stage.gateway.start()
        await nomad.until_said("Water the flowers")
        await home.caller.send_frame({"t": "ping", "ts": 1})
        frames = await home.caller.receive_until("pong")
        assert [frame for frame in frames if frame["t"] == "message"] == []
        aliases = stage.gateway.home / "channel_aliases.json"
        aliases.write_text(json.dumps({"mobile": {"anna-iphone": "Anna"}}))
        assert (await run(stage, "send", "--to", "mobile:anna", "A secret")).returncode == 1


async def test_send_without_a_server(stage):
    """One line says where it was looked for."""
    stage.gateway.install_plugin()
    sent = await run(stage, "send", "--to", "mobile", "Anyone?")
    assert sent.returncode == 1
    assert f"no hermes-mobile server at ws://127.0.0.1:{stage.port}/ws" in sent.stdout + sent.stderr
