"""How the server under test is reached: TLS with a certificate that is checked."""

from __future__ import annotations

import ssl
from contextlib import suppress

import pytest
import trio
import trustme

from hermes_mobile.conformance.shapes import Shapes
from hermes_mobile.conformance.stage import open_stage
from hermes_mobile.conformance.target import Address, Target
from hermes_mobile.conformance.websocket import NoServerError


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
async def port(nursery, authority):
    """A TLS server that says what it heard first, behind a greeting."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def answer(stream):
        with suppress(trio.BrokenResourceError):
            await stream.send_all(b"heard " + await stream.receive_some())

    listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, answer, listeners)
    return listeners[0].transport_listener.socket.getsockname()[1]


async def test_a_certificate_of_an_authority_that_is_trusted(
    port, authority, tmp_path, monkeypatch
):
    """wss: the name and the chain are checked, against what the machine trusts."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with await Address.parse(f"wss://localhost:{port}/ws")() as stream:
        await stream.send_all(b"hello")
        assert await stream.receive_some() == b"heard hello"


async def test_a_certificate_that_nobody_vouches_for(port):
    """wss: it is refused in words, and nothing is sent."""
    target = Target(dial=Address.parse(f"wss://localhost:{port}/ws"), token="secret")
    with pytest.raises(NoServerError, match="certificate verify failed"):
        async with open_stage(target, Shapes()) as stage:
            await stage.open()
