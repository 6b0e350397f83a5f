"""Hermes Agent itself, through its gateway and ours: talking, being interrupted, being stopped."""

from __future__ import annotations

import pytest
import trio

from hermes.stage import free_port

pytestmark = pytest.mark.slow


async def test_a_text_is_answered(shared):
    """What a person writes comes to the model, and what it says comes back, in a turn that ends."""
    async with shared.phone("texts") as phone:
        await phone.say("Good morning")
        await phone.caller.expect("avatar", state="thinking")
        assert await phone.reply() == "echo: Good morning"
        await phone.turn_ended()


async def test_a_reply_grows_before_the_eyes(shared):
    """A long answer comes as states of one message, each with more of it, and the last one is whole."""
    async with shared.phone("streams") as phone:
        await phone.say("stream 40")
        states = await phone.states()
        assert states[-1] == " ".join(f"word{number}" for number in range(40))
        assert len(states) > 5
        assert all(states[-1].startswith(state) for state in states)


async def test_stop_stops_hermes(shared):
    """D27: /stop ends Hermes' work and is told once; the next message is answered as ever."""
    async with shared.phone("stops") as phone:
        await phone.say("hold")
        await trio.to_thread.run_sync(shared.model.held.wait, 30)
        await phone.say("/stop")
        assert await phone.until_said("Stopped") == "Stopped: 1 running, 0 waiting."
        shared.model.release()
        await phone.say("And now?")
        assert await phone.until_said("echo") == "echo: And now?"
        await phone.turn_ended()


async def test_stop_with_a_word_is_hermes_own(shared):
    """It reaches Hermes as any command, also where no turn of the server's runs."""
    async with shared.phone("stops-itself") as phone:
        await phone.say("hold")
        await trio.to_thread.run_sync(shared.model.held.wait, 30)
        await phone.say("/stop now")
        assert "topped" in await phone.until_said("topped")
        shared.model.release()
        await phone.say("And now?")
        assert await phone.until_said("echo") == "echo: And now?"


async def test_a_message_during_a_turn_interrupts_it(shared):
    """As Hermes treats them: the first answer is cut short, the second message is answered."""
    async with shared.phone("interrupts") as phone:
        await phone.say("hold")
        await trio.to_thread.run_sync(shared.model.held.wait, 30)
        await phone.say("Never mind")
        await phone.until_said("Interrupting current task")
        shared.model.release()
        assert await phone.until_said("echo") == "echo: Never mind"


async def test_each_device_has_a_conversation_of_its_own(shared):
    """What one device says is no part of what the model is told for another."""
    async with shared.phone("first") as first, shared.phone("second") as second:
        await first.say("My name is Anna")
        await first.until_said("echo: My name is Anna")
        await second.say("Who am I?")
        await second.until_said("echo: Who am I?")
    told = next(
        request for request in reversed(shared.model.requests) if "Who am I?" in str(request)
    )
    assert "Anna" not in str(told["messages"])


async def test_commands_are_hermes_own(shared):
    """/help is answered by Hermes, whole, and its turn ends though no model was asked."""
    async with shared.phone("commands") as phone:
        await phone.say("/help")
        assert "/new" in await phone.reply()
        await phone.turn_ended()


async def test_the_link_by_a_port(stage):
    """Where no file can be shared: a port of the loopback address, and a token."""
    del stage.settings["MOBILE_AGENT_SOCKET"], stage.gateway.settings["MOBILE_AGENT_SOCKET"]
    port = free_port()
    for settings in (stage.settings, stage.gateway.settings):
        settings |= {"MOBILE_AGENT_PORT": port, "MOBILE_AGENT_TOKEN": "a-token-of-the-link"}
    stage.start()
    async with stage.phone("phone") as phone:
        await phone.say("Good morning")
        assert await phone.reply() == "echo: Good morning"


async def test_a_gateway_with_a_wrong_token(stage):
    """It has nothing to do, and ends; its log says why it was not let in."""
    stage.settings["MOBILE_AGENT_TOKEN"] = "a-token-of-the-link"
    stage.gateway.settings["MOBILE_AGENT_TOKEN"] = "another"
    stage.start()
    await trio.to_thread.run_sync(stage.gateway.wait)
    assert "says auth_failed: token" in stage.gateway.log
