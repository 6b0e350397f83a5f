"""What the operator is told where passed sockets and settings do not go together."""

from __future__ import annotations

import socket

import pytest

from hermes_mobile.server.listeners import passed_warnings
from hermes_mobile.server.loading import load_settings

TOKEN = "a-token-of-the-operator"


@pytest.fixture
def warn():
    """The warnings for sockets on addresses by name, and settings from the environment."""
    sockets = []

    def warnings(passed: dict[str, str], **environ: str) -> list[str]:
        opened = {}
        for name, host in passed.items():
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            sockets.append(socket.create_server((host, 0), family=family))
            opened[name] = sockets[-1:]
        settings = load_settings(None, {"MOBILE_TOKEN": TOKEN} | environ)
        return list(passed_warnings(settings, opened))

    yield warnings
    for sock in sockets:
        sock.close()


def test_passed_sockets_that_fit(warn):
    """Nothing is said of defaults that do not count then, or of sockets that are no port."""
    assert warn({}) == warn({"ws": "127.0.0.1", "http": "::1"}) == []
    with socket.socket(socket.AF_UNIX) as sock:
        settings = load_settings(None, {"MOBILE_TOKEN": TOKEN})
        assert list(passed_warnings(settings, {"ws": [sock]})) == []


def test_a_port_that_has_no_effect(warn):
    """Where a port was set and a socket of another one came, the socket counts; also against `off`."""
    passed = {"ws": "127.0.0.1", "http": "127.0.0.1"}
    assert warn(passed, MOBILE_PORT="1", MOBILE_HTTP_PORT="off") == [
        "MOBILE_PORT has no effect: the socket ws was passed in",
        "MOBILE_HTTP_PORT has no effect: the socket http was passed in",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - the case
def test_a_passed_socket_that_others_reach(warn, host):
    """It is the exposure that MOBILE_HOST would be warned of, and then that warning is enough."""
    (warning,) = warn({"ws": host})
    assert warning.startswith("the passed socket ws is unencrypted and open to other machines")
    assert warn({"ws": host}, MOBILE_HOST=host) == []
    assert warn({"http": host}) == []
