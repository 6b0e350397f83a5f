"""The Python client on real sockets: servers that restart, links that die, and TLS."""

from __future__ import annotations

import hashlib
import signal
import ssl
from contextlib import asynccontextmanager

import pytest
import trio

from hermes_mobile.client import (
    AccessDeniedError,
    Device,
    Message,
    Ready,
    ReplacedError,
    TransportError,
    open_client,
)
from hermes_mobile.client.link import Endpoint
from journal import events_until
from street import PATIENCE, TOKEN

pytestmark = pytest.mark.slow

MIB = 1 << 20


def connect(server, device="phone", **options):
    options.setdefault("max_backoff", 0.1)
    return open_client(server.url, token=TOKEN, device=Device(device), **options)


class Relay:
    """A network between a client and a server, which can swallow everything, or break."""

    def __init__(self, port: int, listener) -> None:
        self._port = port
        self._silent = trio.Event()
        self._bytes_left = float("inf")
        self.connections = 0
        endpoint = getattr(listener, "transport_listener", listener).socket.getsockname()
        scheme = "ws" if isinstance(listener, trio.SocketListener) else "wss"
        self.url = f"{scheme}://127.0.0.1:{endpoint[1]}/ws"

    def silence(self) -> None:
        """Nothing more passes on the connections that there are, in either direction."""
        self._silent.set()
        self._silent = trio.Event()

    def cut_after(self, count: int) -> None:
        """Break the connection when so many bytes more came from the app."""
        self._bytes_left = count

    async def serve(self, app) -> None:
        self.connections += 1
        try:
            async with (
                app,
                await trio.open_tcp_stream("127.0.0.1", self._port) as server,
                trio.open_nursery() as nursery,
            ):
                scope = nursery.cancel_scope
                nursery.start_soon(self._pass_on, app, server, scope, self._silent, True)
                nursery.start_soon(self._pass_on, server, app, scope, self._silent, False)
        except* (trio.BrokenResourceError, OSError):
            pass

    async def _pass_on(self, source, sink, both, silent, from_app) -> None:
        while data := await source.receive_some():
            if silent.is_set():
                continue
            if from_app:
                data = data[: int(min(self._bytes_left, len(data)))]
                self._bytes_left -= len(data)
            await sink.send_all(data)
            if not self._bytes_left:
                self._bytes_left = float("inf")
                break
        both.cancel()


@asynccontextmanager
async def open_relay(server, context: ssl.SSLContext | None = None):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    if context is not None:
        listener = trio.SSLListener(listener, context, https_compatible=True)
    relay = Relay(server.port, listener)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, relay.serve, [listener])
        yield relay
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_a_server_restarts(serve, end):
    """T2: the client is there again by itself, whether it was told (1001) or not."""
    server = serve()
    async with connect(server) as client:
        assert (await client.ask("before")).text == "before"
        await events_until(client, Ready)
        server.terminate(end)
        server.wait()
        serve(MOBILE_PORT=server.port)
        with trio.fail_after(PATIENCE):
            await events_until(client, Ready)
            assert (await client.ask("after")).text == "after"


async def test_a_message_into_a_dead_server_reaches_the_next_one(serve):
    """T9: it was sent, not accepted, and is sent again."""
    server = serve()
    async with connect(server) as client:
        await client.wait_ready()
        server.terminate(signal.SIGSTOP)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(client.send_text, "hello")
            await trio.sleep(0.1)
            server.terminate(signal.SIGKILL)
            server.wait()
            serve(MOBILE_PORT=server.port)
        with trio.fail_after(PATIENCE):
            assert (await events_until(client, Message))[-1].text == "hello"


async def test_the_newer_instance_has_the_device(serve):
    """T4: the older one stops, and does not come back."""
    server = serve()
    async with connect(server) as older:
        await older.wait_ready()
        async with connect(server) as newer:
            with pytest.raises(ReplacedError):
                await events_until(older, Message)
            assert (await newer.ask("mine")).text == "mine"
            await trio.sleep(0.5)
            assert (older.state, newer.state) == ("failed", "connected")


async def test_a_refusal_is_final_on_tcp(serve):
    """T3: one attempt, and no more."""
    server = serve()
    async with (
        open_relay(server) as relay,
        open_client(relay.url, token="wrong", device=Device("phone"), max_backoff=0.01) as client,
    ):
        with pytest.raises(AccessDeniedError):
            await client.wait_ready()
        await trio.sleep(0.5)
        assert relay.connections == 1


async def test_no_server():
    """Without `retry` it is an error that names the address."""
    async with open_client(
        "ws://127.0.0.1:1/ws", token="t", device=Device("phone"), retry=False
    ) as client:
        with pytest.raises(TransportError, match=r"127\.0\.0\.1"):
            await client.wait_ready()


async def test_an_upload_is_cut_in_the_middle(serve):
    """T9, D17: it goes again, whole, and the agent gets the file once."""
    server = serve()
    data = bytes(range(256)) * (6 * MIB // 256)
    async with open_relay(server) as relay, connect(relay) as client:
        await client.wait_ready()
        relay.cut_after(5 * MIB)
        with trio.fail_after(PATIENCE):
            await client.send_document(data, filename="a.bin")
            described = (await events_until(client, Message))[-1].text
            assert hashlib.sha256(data).hexdigest() in described
            assert (await client.ask("And no second time?")).messages == ("And no second time?",)
        assert relay.connections == 2


async def test_a_link_dies_in_silence(serve):
    """T5, T9, D32: what was sent into it arrives, and what was said into it does."""
    server = serve()
    async with (
        open_relay(server) as relay,
        connect(relay, keep_alive=0.5, keep_alive_timeout=0.5) as client,
    ):
        await client.send_text("/think 0.5")
        relay.silence()
        with trio.fail_after(PATIENCE):
            await client.send_text("hello")
            said = [(await events_until(client, Message))[-1].text for _ in range(2)]
        assert said == ["Thought for 0.5 s.", "hello"]
        assert relay.connections == 2


async def test_tls(serve):
    """`wss`: with a certificate that counts, and not with another."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with open_relay(serve(), context) as relay:
        assert Endpoint.of(relay.url).secure
        async with connect(relay, ssl_context=trusting) as client:
            assert (await client.ask("in private")).text == "in private"
        async with connect(relay, retry=False) as client:
            with pytest.raises(TransportError, match=r"the certificate is not accepted: [a-z]"):
                await client.wait_ready()
