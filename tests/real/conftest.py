"""Servers as processes of their own; each one ends with its test, by its own process id."""

import pytest

from street import ServerProcess


@pytest.fixture
def serve(tmp_path_factory):
    """Start `hermes-mobile serve` with arguments, and with settings for its environment."""
    servers = []

    def start(*arguments, **settings):
        directory = tmp_path_factory.mktemp("server")
        servers.append(ServerProcess(directory, *arguments, **settings))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
