"""Either side restarts or dies, and people notice no more than they must."""

from __future__ import annotations

import signal

import pytest
import trio

pytestmark = pytest.mark.slow

PATIENCE = 40.0


async def stop_gateway(stage, by):
    await trio.to_thread.run_sync(stage.gateway.stop, by)


async def held(stage):
    """Wait until the model holds an answer back."""
    assert await trio.to_thread.run_sync(stage.model.held.wait, PATIENCE)


@pytest.fixture
def running(stage):
    stage.start()
    return stage


async def test_a_message_waits_for_a_gateway_that_restarts(running):
    """The phone stays connected; what it says meanwhile is answered when Hermes is back."""
    async with running.phone("phone") as phone:
        await phone.say("Hello")
        await phone.until_said("echo: Hello")
        await stop_gateway(running, signal.SIGTERM)
        await phone.say("Are you there?")
        running.gateway.start()
        assert await phone.until_said("echo: Are you there?")
        await phone.turn_ended()


async def test_a_gateway_that_dies_in_a_turn(running):
    """That message fails with `internal_error` when it is back, and can be sent again."""
    async with running.phone("phone") as phone:
        message = await phone.say("hold")
        await held(running)
        await stop_gateway(running, signal.SIGKILL)
        running.model.release()
        running.gateway.start()
        error = await phone.caller.expect("error")
        assert (error["code"], error["id"], error["fatal"]) == ("internal_error", message, False)
        await phone.caller.say(message, "And again")
        assert await phone.until_said("echo: And again")


async def test_a_gateway_that_stops_in_a_turn(running):
    """Hermes says that it stops, and picks the conversation up by itself when it is back."""
    async with running.phone("phone") as phone:
        await phone.say("hold")
        await held(running)
        await stop_gateway(running, signal.SIGTERM)
        await phone.until_said("Gateway shutting down")
        running.model.release()
        running.gateway.start()
        await phone.say("Hello again")
        assert await phone.until_said("echo: Hello again")


async def test_a_gateway_that_dies_with_a_card_open(running):
    """The card is withdrawn: nobody waits for its answer, and nothing runs."""
    directory = running.gateway.place / "survivor"
    directory.mkdir()
    async with running.phone("phone") as phone:
        message = await phone.say(f"run rm -rf {directory}")
        card = await phone.card("exec_approval")
        await stop_gateway(running, signal.SIGKILL)
        running.gateway.start()
        assert (await phone.ended(card))["expired"]
        assert (await phone.caller.expect("error"))["id"] == message
        await phone.say("Hello")
        await phone.until_said("echo: Hello")
        assert directory.exists()


async def test_a_server_that_dies_with_a_card_open(running):
    """Hermes asks again, and the answer to the new card counts."""
    directory = running.gateway.place / "allowed"
    directory.mkdir()
    async with running.phone("phone") as phone:
        await phone.say(f"run rm -rf {directory}")
        await phone.card("exec_approval")
        running.stop_server(signal.SIGKILL)
    running.start_server()
    async with running.phone("phone") as phone:
        await phone.answer(await phone.card("exec_approval"), option_id="once")
        await phone.until_said("done")
        assert not directory.exists()


async def test_a_server_that_dies_in_a_turn(running):
    """Hermes goes on, and what it says then comes to the device."""
    async with running.phone("phone") as phone:
        await phone.say("hold")
        await held(running)
        running.stop_server(signal.SIGKILL)
    running.start_server()
    async with running.phone("phone") as phone:
        running.model.release()
        assert "have thought" in await phone.until_said("thought")
        await phone.say("Hello")
        assert await phone.until_said("echo: Hello")


async def test_a_server_that_stops_in_a_turn(running):
    """D35: the message is given back to be sent again, and Hermes stops working on it."""
    async with running.phone("phone") as phone:
        message = await phone.say("hold")
        await held(running)
        await trio.to_thread.run_sync(running.stop_server, signal.SIGTERM)
        assert (await phone.caller.expect("error"))["id"] == message
    running.start_server()
    running.model.release()
    async with running.phone("phone") as phone:
        await phone.caller.say(message, "Once more")
        assert await phone.until_said("echo") == "echo: Once more"
