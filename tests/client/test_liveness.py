"""A connection that falls silent (T5), and what it took with it (T9, D32)."""

from __future__ import annotations

from functools import partial

import trio

from cast import Recorder
from hermes_mobile.agents import TextInput
from hermes_mobile.client import ConnectionState, Error, Message, Ready, StateChanged
from hermes_mobile.protocol.frames import Ping
from hermes_mobile.protocol.limits import MIB
from hermes_mobile.testing import open_script, open_server
from journal import events_until


async def test_silence_is_asked_about_and_then_given_up(autojump_clock):
    """T5: a ping after 25 s, another connection 45 s later, to the moment."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await connection.expect(Ping)
        assert trio.current_time() == 25.0
        events = await events_until(client, Error)
        assert trio.current_time() == 70.0
        assert events[-1] == Error("transport", "the server fell silent")
        await script.welcome()
        assert trio.current_time() == 70.5


async def test_the_times_can_be_set(autojump_clock):
    """T5: `keep_alive` and `keep_alive_timeout`; 0 turns it off."""
    async with open_script() as script:
        async with script.open_client(keep_alive=5.0, keep_alive_timeout=3.0) as client:
            await script.welcome()
            await events_until(client, Error)
            assert trio.current_time() == 8.0
        async with script.open_client(keep_alive=0.0) as client:
            await script.welcome()
            await trio.sleep(3600)
            assert client.ready


async def test_a_pong_keeps_the_connection(autojump_clock):
    """T5: and so does anything else; the real server answers for an hour."""
    async with open_server() as server, server.open_client() as client:
        await client.wait_ready()
        await trio.sleep(3600)
        assert client.ready
        assert len(server.streams) == 1


async def test_a_slow_upload_is_no_silence(autojump_clock):
    """T5: the pong waits behind it for minutes, while its bytes move."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.wait_ready()
        server.streams[0].bytes_per_second = 10_000
        await client.send_document(bytes(2 * MIB))
        assert trio.current_time() > 270
        assert len(agent.inputs[0].data) == 2 * MIB
        assert len(server.streams) == 1


async def test_a_death_in_silence_loses_nothing(autojump_clock):
    """T9, D32: neither the message that was sent into it, nor what the agent said into it."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.wait_ready()
        server.streams[0].silence()
        async with trio.open_nursery() as tasks:
            tasks.start_soon(partial(client.send_text, "hello", id="m1"))
            await server.conversation().reply("Are you there?")
        events = await events_until(client, Message)
        events += await events_until(client, Message)
        said = [event.text for event in events if isinstance(event, Message)]
        assert said == ["Are you there?", "noted"]
        assert agent.inputs == [TextInput("m1", "hello")]
        assert len(server.streams) == 2


async def test_a_receipt_that_died_is_no_loss(autojump_clock):
    """T9, D19: the message had arrived; sent again, it is accepted again and not taken twice."""
    agent = Recorder()
    async with open_server(agent) as server, server.open_client() as client:
        await client.wait_ready()
        server.streams[0].deafen()
        await client.send_text("hello", id="m1")
        assert agent.ids == ["m1"]
        assert [e.text for e in await events_until(client, Message) if isinstance(e, Message)] == [
            "noted"
        ]


async def test_an_app_that_is_behind_is_not_taken_for_a_dead_server(autojump_clock):
    """T5: whoever reads no further hears nothing, which is no silence of the server's."""
    async with open_script() as script, script.open_client(keep_alive=5.0) as client:
        connection = await script.welcome()
        await events_until(client, Ready)
        for number in range(1_100):
            await connection.send(Message(f"r{number}", ""))
        await trio.sleep(3600)
        assert client.ready
        for _ in range(1_100):
            assert isinstance(await anext(client), Message)


async def test_old_connections_say_nothing(autojump_clock):
    """T5: what is left in one that was given up never reaches the app."""
    async with open_script() as script, script.open_client() as client:
        old = await script.welcome()
        await events_until(client, StateChanged(ConnectionState.RECONNECTING, 1, 0.5))
        new = await script.welcome()
        await new.send(Message("r2", "new"))
        events = await events_until(client, Message)
        assert [event.id for event in events if isinstance(event, Message)] == ["r2"]
        assert old.stream.closed
