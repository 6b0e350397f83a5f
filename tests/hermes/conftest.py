"""Hermes' gateway beside a server of ours, with a model that does as it is told.

Most tests share one of each, and have a device of their own: so they share no conversation.
"""

from __future__ import annotations

import pytest

from hermes.gateway import install
from hermes.stage import Stage


@pytest.fixture(scope="session")
def hermes_bin():
    """Where the commands of a Hermes without anything of ours are."""
    return install() / "bin"


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A stage for tests that leave it as they find it."""
    stage = Stage(tmp_path_factory.mktemp("hermes"))
    stage.start()
    yield stage
    stage.close()


@pytest.fixture
def stage(tmp_path):
    """A stage of one's own, where nothing runs yet."""
    stage = Stage(tmp_path)
    yield stage
    stage.close()
