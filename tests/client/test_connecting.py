"""A client's connections: made, lost, made again, refused, replaced, left (T1 to T4)."""

from __future__ import annotations

import re
import socket

import pytest
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Event, TextMessage

from hermes_mobile.client import (
    AccessDeniedError,
    ConnectionState,
    Device,
    Error,
    OfflineError,
    Ready,
    ReplacedError,
    StateChanged,
    TransportError,
    User,
    open_client,
)
from hermes_mobile.protocol.frames import Hello, Message, Text
from hermes_mobile.testing import open_script, open_server
from journal import events_until

CONNECTING = StateChanged(ConnectionState.CONNECTING)
CONNECTED = StateChanged(ConnectionState.CONNECTED)
FAILED = StateChanged(ConnectionState.FAILED)
LOST = Error("transport", "the connection was lost")


def reconnecting(attempt: int, pause: float) -> StateChanged:
    return StateChanged(ConnectionState.RECONNECTING, attempt, pause)


async def test_the_first_frame_tells_who_is_there(autojump_clock):
    """D6, T9: token, device, user, and the wish for receipts."""
    device, user = Device("phone", "Phone", "android", "1.0.0"), User("u-1", "Eugene")
    async with open_script() as script, script.open_client(device, token="secret", user=user):
        connection = await script.accept()
        assert connection.hello == Hello("secret", device, user, receipts=True)


async def test_states_of_a_life(autojump_clock):
    """Connecting, connected, and idle again; `session` is what `ready` said."""
    async with open_server() as server:
        async with server.open_client("phone") as client:
            assert (client.ready, client.session) == (False, None)
            ready = await client.wait_ready()
            assert (client.state, client.ready, client.session) == ("connected", True, ready)
            assert (ready.session, ready.device) == ("mobile:phone", Device("phone", "Phone"))
            assert await events_until(client, Ready) == [CONNECTING, CONNECTED, ready]
        assert (client.state, client.ready) == ("idle", False)
        with pytest.raises(OfflineError):
            await client.send_text("too late")


async def test_what_is_sent_before_ready_is_held(autojump_clock):
    """T1: it goes out after `ready`, in order, however many attempts that takes."""
    async with open_script() as script, script.open_client() as client:
        script.reachable = False
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(client.send_text, f"text {number}")
                await trio.sleep(1)
            script.reachable = True
            connection = await script.welcome(receipts=False)
            texts = [(await connection.expect(Text)).text for _ in range(3)]
            assert texts == ["text 0", "text 1", "text 2"]


async def test_too_much_to_hold_is_offline(autojump_clock):
    """T1: the sixty-fifth frame, at once; a file of a hundred chunks does not fit at all."""
    async with open_script() as script, script.open_client() as client:
        script.reachable = False
        with pytest.raises(OfflineError, match="too much"):
            await client.send_document(bytes(100), chunk_bytes=1)
        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(client.send_text, "held")
            await trio.sleep(100)
            with pytest.raises(OfflineError, match="too much"):
                await client.send_text("not held")
            nursery.cancel_scope.cancel()


async def test_what_is_held_is_offline_when_the_client_is_closed(autojump_clock):
    """T1: whoever waits outside of the block is told."""
    errors = []

    async def send(client) -> None:
        try:
            await client.send_text("held")
        except OfflineError as error:
            errors.append(str(error))

    async with open_script() as script, trio.open_nursery() as outside:
        script.reachable = False
        async with script.open_client() as client:
            outside.start_soon(send, client)
            await trio.sleep(1)
    assert errors == ["the client was closed"]


async def test_while_reconnecting_sends_are_offline_at_once(autojump_clock):
    """T1: whatever is sent."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await client.wait_ready()
        script.reachable = False
        connection.stream.cut()
        await events_until(client, reconnecting(1, 0.5))
        started = trio.current_time()
        with pytest.raises(OfflineError, match="there is no connection") as caught:
            await client.send_text("hello")
        assert (caught.value.code, caught.value.fatal) == ("offline", False)
        for send in (client.send_typing, client.ping):
            with pytest.raises(OfflineError):
                await send()
        assert trio.current_time() == started


async def test_attempts_follow_each_other_with_growing_pauses(autojump_clock):
    """T2: to the moment; each failure is told; the jitter is injected."""
    async with (
        open_script() as script,
        script.open_client(random=lambda: 0.5, max_backoff=3.0) as client,
    ):
        script.reachable = False
        trouble = Error("transport", "cannot connect: the server is not reachable")
        expected = [CONNECTING]
        for attempt, pause in enumerate((0.25, 0.5, 1.0, 1.5, 1.5), 1):
            expected += [trouble, reconnecting(attempt, pause)]
        assert await events_until(client, expected[-1]) == expected
        assert trio.current_time() == 0.25 + 0.5 + 1.0 + 1.5
        script.reachable = True
        await script.welcome()
        await client.wait_ready()
        assert trio.current_time() == 0.25 + 0.5 + 1.0 + 1.5 + 1.5


@pytest.mark.parametrize(("lived", "after"), [(9.9, (2, 1.0)), (10.0, (1, 0.5))])
async def test_only_a_good_connection_resets_the_pauses(autojump_clock, lived, after):
    """T2: ten seconds of life after `ready`."""
    async with open_script() as script, script.open_client() as client:
        (await script.welcome()).stream.cut()
        connection = await script.welcome()
        await client.wait_ready()
        await events_until(client, reconnecting(1, 0.5))
        await trio.sleep(lived)
        connection.stream.cut()
        events = await events_until(client, reconnecting(*after))
        assert events[-2:] == [LOST, reconnecting(*after)]


@pytest.mark.parametrize(
    ("code", "reason", "trouble"),
    [
        (1000, "", "the server closed the connection: 1000"),
        (1001, "shutdown", "the server closed the connection: 1001 shutdown"),
        (1011, "internal_error", "the server closed the connection: 1011 internal_error"),
        (1013, "", "the server closed the connection: 1013"),
    ],
)
async def test_every_other_close_reconnects(autojump_clock, code, reason, trouble):
    """T4: only 1008 and 4001 are final."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        await connection.close(code, reason)
        events = await events_until(client, reconnecting(1, 0.5))
        assert events[-2] == Error("transport", trouble)
        await script.welcome()
        await events_until(client, CONNECTED)


async def test_a_refusal_is_final(autojump_clock):
    """T3: the server's error first, `failed`, then `auth_failed`; nothing retries."""
    async with open_server() as server, server.open_client(token="wrong") as client:
        with pytest.raises(AccessDeniedError) as caught:
            await client.wait_ready()
        assert (caught.value.code, caught.value.reason) == ("auth_failed", "auth_failed")
        assert caught.value.fatal
        await trio.sleep(3600)
        assert len(server.streams) == 1
        with pytest.raises(AccessDeniedError):
            await client.send_text("hello")
        *before, server_said, failed, final = await events_until(client, FAILED, and_one_more=True)
        assert before == [CONNECTING]
        assert (server_said.code, server_said.fatal) == ("auth_failed", True)
        assert failed == FAILED
        assert final == Error("auth_failed", "the server refuses this app: auth_failed", fatal=True)
        with pytest.raises(AccessDeniedError):
            await anext(client)


async def test_a_refusal_names_the_servers_reason(autojump_clock):
    """T3: `forbidden` on a connection that was working, too; what was under way fails with it."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                with pytest.raises(AccessDeniedError) as caught:
                    await client.send_text("hello")
                assert caught.value.reason == "forbidden"

            await connection.expect(Text)
            await connection.close(1008, "forbidden")
        assert client.state == "failed"


async def test_another_instance_takes_over(autojump_clock):
    """T4: the older one stays away, and says why."""
    async with open_server() as server, server.open_client("phone") as older:
        await older.wait_ready()
        async with server.open_client("phone") as newer:
            with pytest.raises(ReplacedError):
                await events_until(older, Message)
            await trio.sleep(3600)
            assert (older.state, newer.state) == ("failed", "connected")
            with pytest.raises(ReplacedError) as caught:
                await older.wait_ready()
            assert (caught.value.code, caught.value.fatal) == ("replaced", True)


async def test_without_retry_the_first_trouble_is_final(autojump_clock):
    """A script wants to know: a server that is not there, or goes, ends the client."""
    async with open_script() as script:
        script.reachable = False
        async with script.open_client(retry=False) as client:
            with pytest.raises(TransportError, match="not reachable"):
                await client.send_text("hello")
        script.reachable = True
        async with script.open_client(retry=False) as client:
            connection = await script.welcome()
            await client.wait_ready()
            connection.stream.cut()
            with pytest.raises(TransportError, match="the connection was lost"):
                await events_until(client, Message)
            assert client.state == "failed"


async def test_an_attempt_has_its_time(autojump_clock):
    """`open_timeout`: the stream, the upgrade and `ready` together; then the next attempt."""

    async def never(_endpoint):
        await trio.sleep_forever()

    async with open_script() as script:
        async with script.open_client(open_timeout=7.0, open_stream=never) as client:
            events = await events_until(client, reconnecting(1, 0.5))
            assert events[-2] == Error("transport", "no answer in 7 s")
            assert trio.current_time() == 7.0
        started = trio.current_time()
        async with script.open_client(open_timeout=7.0) as client:
            await script.arrival()
            await events_until(client, reconnecting(1, 0.5))
            assert trio.current_time() == started + 7.0
            await script.accept()
            await events_until(client, reconnecting(2, 1.0))
            assert trio.current_time() == started + 7.0 + 0.5 + 7.0
            await script.welcome()
            await trio.sleep(20)
            assert client.ready


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (b"", "the connection was lost"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "the server answered HTTP 404"),
        (
            b"HTTP/1.1 429 Too Many\r\nContent-Length: 5\r\n\r\nlater",
            "the server answered HTTP 429",
        ),
        (b"HTTP/1.1 503 Full\r\nContent-Length: 50\r\n\r\nl", "the server answered HTTP 503"),
        (b"SSH-2.0-server\r\n", "the server does not speak WebSocket"),
    ],
)
async def test_a_server_that_speaks_something_else(autojump_clock, answer, trouble):
    """T2: whatever it says instead of the upgrade is an attempt that failed, at once."""
    async with open_script() as script, script.open_client() as client:
        arrival = await script.arrival()
        await arrival.receive_some()
        await arrival.send_all(answer)
        await arrival.send_eof()
        events = await events_until(client, reconnecting(1, 0.5))
        assert events[-2] == Error("transport", trouble)
        assert trio.current_time() == 0


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example"])
async def test_a_name_that_leads_nowhere(host):
    """Whatever is wrong with it, it is an attempt that failed."""
    device = Device("phone")
    async with open_client(f"ws://{host}/ws", token="t", device=device, retry=False) as client:
        with pytest.raises(TransportError, match="cannot connect"):
            await client.wait_ready()


async def test_a_port_that_nobody_listens_on():
    """It is said which, and why, in words for a person."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        url = f"ws://127.0.0.1:{port}/ws"
        async with open_client(url, token="t", device=Device("phone"), retry=False) as client:
            with pytest.raises(TransportError) as caught:
                await client.wait_ready()
    assert caught.value.message == f"cannot connect: 127.0.0.1, port {port}: Connection refused"


async def test_a_server_without_tls(nursery):
    """It is said that there is none, in words and not in OpenSSL's code."""

    async def answer(stream):
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, answer, [listener])
    url = f"wss://127.0.0.1:{listener.socket.getsockname()[1]}/ws"
    async with open_client(url, token="t", device=Device("phone"), retry=False) as client:
        with pytest.raises(TransportError) as caught:
            await client.wait_ready()
    assert re.fullmatch(r"cannot connect: no TLS: [a-z0-9 ]+", caught.value.message)


async def test_ready_counts_once(autojump_clock):
    """T7: a server that says it again starts nothing anew."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome(receipts=False)
        await connection.welcome()
        await connection.send(Message("r1", "hello"))
        assert await events_until(client, Message) == [
            CONNECTING,
            CONNECTED,
            client.session,
            Message("r1", "hello"),
        ]
        await client.send_text("once")
        await connection.expect(Text)


async def test_leaving_closes_in_words(autojump_clock):
    """The server hears 1000, and the socket is closed."""
    async with open_script() as script:
        async with script.open_client() as client:
            connection = await script.welcome()
            await client.wait_ready()
        assert await connection.wait_closed() == 1000
        assert closed(script)


async def test_leaving_waits_two_seconds_for_a_server_that_does_not_answer(autojump_clock):
    """A peer that is silent does not keep the block from ending."""
    async with open_script() as script:
        async with script.open_client() as client:
            await script.welcome()
            await client.wait_ready()
            started = trio.current_time()
            script.streams[-1].silence()
        assert trio.current_time() == started + 2.0
        assert closed(script)


async def test_a_ping_while_closing_does_no_harm(autojump_clock):
    """The library's own task fails of it, and the connection has ended in any case."""
    async with open_script() as script:
        async with script.open_client() as client, trio.open_nursery() as tasks:
            arrival = await script.arrival()
            websocket = WSConnection(ConnectionType.SERVER)

            async def receive() -> list[Event]:
                websocket.receive_data(await arrival.receive_some())
                return list(websocket.events())

            await receive()
            await arrival.send_all(websocket.send(AcceptConnection()))
            await receive()
            ready = TextMessage('{"t":"ready","session":"mobile:phone"}')
            await arrival.send_all(websocket.send(ready))
            await client.wait_ready()

            @tasks.start_soon
            async def _() -> None:
                (close,) = await receive()
                assert isinstance(close, CloseConnection)
                await arrival.send_all(b"\x89\x00")

            tasks.start_soon(client._engine.leave)
        assert trio.current_time() == 0
        assert closed(script)


async def test_the_socket_is_closed_when_the_server_ends_first(autojump_clock):
    """Whatever the library does, the stream is the client's."""
    async with open_script() as script, script.open_client() as client:
        connection = await script.welcome()
        script.reachable = False
        await connection.close(1001, "shutdown")
        await events_until(client, reconnecting(2, 1.0))
        assert closed(script)


@pytest.mark.parametrize("moment", ["opening", "upgrading", "hello", "pausing", "connected"])
async def test_cancelling_closes_the_socket(autojump_clock, moment):
    """Whenever it is: no socket is left, and nothing goes on."""
    async with open_script() as script:
        with trio.CancelScope() as scope:
            script.reachable = moment != "pausing"
            async with script.open_client() as client:
                if moment == "connected":
                    await script.welcome()
                    await client.wait_ready()
                elif moment == "hello":
                    await script.accept()
                elif moment != "opening":
                    await trio.sleep(0.1)
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert client.state == "idle"
        assert closed(script)


async def test_what_the_block_raises_comes_out_as_it_is(autojump_clock):
    """No exception group, though tasks run beside it."""
    async with open_server() as server:
        try:
            async with server.open_client() as client:
                await client.wait_ready()
                1 / 0  # noqa: B018
        except ZeroDivisionError:
            assert closed(server)


@pytest.mark.parametrize(
    "url", ["http://host/ws", "ws://", "host:8787", "", "ws://user:secret@host/ws"]
)
async def test_an_address_that_is_none(autojump_clock, url):
    """A mistake, told at once and without what it holds."""
    with pytest.raises(ValueError, match="url: ") as caught:
        async with open_client(url, token="t", device=Device("phone")):
            pass
    assert "secret" not in str(caught.value)


def closed(network) -> bool:
    """Whether the app's end of every connection is closed."""
    return all(stream.closed for stream in network.streams)
