"""What Hermes learns of the platform before it runs."""

from __future__ import annotations

import pytest

from hermes_mobile import hermes
from hermes_mobile.hermes import targets
from hermes_mobile.hermes.delivery import deliver


@pytest.fixture
def entry(monkeypatch):
    """What is registered, in an environment without settings."""
    for name in ("MOBILE_AGENT_SOCKET", "MOBILE_AGENT_PORT", "MOBILE_HOME_DEVICE"):
        monkeypatch.delenv(name, raising=False)

    class Context:
        def register_platform(self, **entry):
            self.entry = entry

    context = Context()
    hermes.register(context)
    return context.entry


def test_the_platform_is_mobile(entry):
    """Its name, how others send to it, and where cron looks for its home."""
    assert entry["name"] == "mobile"
    assert entry["standalone_sender_fn"] is deliver
    assert entry["cron_deliver_env_var"] == "MOBILE_HOME_DEVICE"
    assert entry["check_fn"]()


def test_without_settings_it_is_off(entry):
    """Nothing says where the server is: nothing is enabled."""
    assert not entry["is_connected"](None)
    assert entry["env_enablement_fn"]() is None


@pytest.mark.parametrize("name", ["MOBILE_AGENT_SOCKET", "MOBILE_AGENT_PORT"])
def test_the_environment_enables_it(entry, monkeypatch, name):
    """Either way to the server is enough; a home device is Hermes' home channel, by its number."""
    monkeypatch.setenv(name, "8789")
    assert entry["is_connected"](None)
    assert entry["env_enablement_fn"]() == {}
    monkeypatch.setenv("MOBILE_HOME_DEVICE", "anna")
    home = {"chat_id": targets.chat_id("anna"), "name": "anna"}
    assert entry["env_enablement_fn"]() == {"home_channel": home}
