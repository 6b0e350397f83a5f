"""Where a URL leads, and what opens a stream to it."""

import pytest

from hermes_mobile.client.link import Endpoint


@pytest.mark.parametrize(
    ("url", "endpoint", "header"),
    [
        ("ws://host:8787/ws", Endpoint("host", 8787, "/ws", secure=False), "host:8787"),
        ("wss://host/ws", Endpoint("host", 443, "/ws", secure=True), "host"),
        ("ws://host", Endpoint("host", 80, "/", secure=False), "host"),
        ("wss://host:80", Endpoint("host", 80, "/", secure=True), "host:80"),
        ("ws://[::1]:8787/ws", Endpoint("::1", 8787, "/ws", secure=False), "[::1]:8787"),
        ("ws://host/ws?via=a", Endpoint("host", 80, "/ws?via=a", secure=False), "host"),
    ],
)
def test_urls(url: str, endpoint: Endpoint, header: str) -> None:
    """The default ports are those of HTTP, and not named in the `Host` header."""
    assert Endpoint.of(url) == endpoint
    assert endpoint.header == header
