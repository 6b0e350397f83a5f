"""The testing kit does what it promises to those who test with it."""

from __future__ import annotations

import pytest
import trio

from hermes_mobile.client import Device, Message, OfflineError
from hermes_mobile.protocol.frames import Ping, Text
from hermes_mobile.testing import FakeTurn, open_script, open_server
from journal import events_until


async def test_an_hour_costs_nothing(autojump_clock):
    """The demo agent, a client, and a virtual clock."""
    async with open_server() as server, server.open_client("phone") as client:
        assert (await client.ask("/think 3600")).text == "Thought for 3600 s."
        assert trio.current_time() >= 3600


async def test_settings_are_the_servers(autojump_clock):
    """By their names in lower case."""
    async with (
        open_server(token="secret", allowed_devices=frozenset({"tablet"})) as server,
        server.open_client(Device("tablet", "Tablet")) as client,
    ):
        assert (await client.wait_ready()).device == Device("tablet", "Tablet")


async def test_the_server_stops_as_on_sigterm(autojump_clock):
    """D35: in words, and the client goes on trying."""
    async with open_server() as server, server.open_client() as client:
        await client.wait_ready()
        server.reachable = False
        await server.stop()
        await trio.sleep(1)
        assert client.state == "reconnecting"
        with pytest.raises(OfflineError):
            await client.send_text("hello")


async def test_agents_may_speak_first(autojump_clock):
    """What is said to a device outside a turn reaches its client."""
    async with open_server() as server, server.open_client("phone") as client:
        await server.conversation("phone").reply("Good morning.")
        assert (await events_until(client, Message))[-1].text == "Good morning."


async def test_a_script_plays_the_server(autojump_clock):
    """It expects frames, and is told what came instead."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome(receipts=False)
        await client.send_text("hello", id="m1")
        assert await connection.expect(Text) == Text("m1", "hello")
        await client.send_typing()
        with pytest.raises(AssertionError, match="Ping was expected, not UserTyping"):
            await connection.expect(Ping)


async def test_a_script_hears_the_end(autojump_clock):
    """EOFError, and the close code."""
    async with open_script() as script:
        async with script.open_client() as client:
            connection = await script.welcome()
            await client.wait_ready()
        with pytest.raises(EOFError):
            await connection.receive()
        assert await connection.wait_closed() == 1000


async def test_what_a_test_raises_comes_out_as_it_is(autojump_clock):
    """So that `pytest.raises` sees it around a whole server."""
    for opened in (open_server, open_script):
        with pytest.raises(ZeroDivisionError):
            async with opened() as network, network.open_client():
                raise ZeroDivisionError


async def test_fake_turns_are_still_here():
    """The kit for agents is where it was."""
    turn = FakeTurn("hello")
    await turn.reply("hello")
    assert len(turn.said) == 1
