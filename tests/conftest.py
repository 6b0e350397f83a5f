"""What every test stands on: deterministic property tests, and no log output."""

import pytest
import structlog
from hypothesis import settings

settings.register_profile("house", derandomize=True, deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def logs():
    """What the code under test logged, as a list of dictionaries."""
    with structlog.testing.capture_logs() as captured:
        yield captured
