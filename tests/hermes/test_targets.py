"""Chat ids: a device's id as a number, and the guard before the home device."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.hermes import targets


@given(st.text(min_size=1, max_size=120))
def test_a_chat_id_is_a_number_that_tells_the_device(device):
    """Hermes reads digits back as they are; nothing is kept to get from them to the device."""
    chat = targets.chat_id(device)
    assert chat.isdecimal()
    assert targets.device_id(chat) == device


def test_no_name_begins_with_the_id_of_a_device():
    """Hermes completes names: a device's must not be what another one's id is completed to."""
    name = targets.chat_name("anna-iphone")
    assert name.endswith(" anna-iphone")
    assert name.startswith(targets.chat_id("anna-iphone"))


@pytest.mark.parametrize("target", ["anna-iphone", "", "8123456789", "0", "9" * 3_000, "²", "-5"])
def test_what_is_no_chat_id_is_a_device(target):
    """Cron has plain ids of devices, some of which are numbers."""
    assert targets.device_id(target) == target


def test_a_number_that_spells_no_text_is_a_device():
    """The mark alone makes no chat id."""
    target = str(int.from_bytes(b"mob:\xff\xfe"))
    assert targets.device_id(target) == target


@pytest.fixture
def directory(monkeypatch):
    """What Hermes' directory of chats has for us."""
    entries = []
    module = ModuleType("gateway.channel_directory")
    module.load_directory = lambda: {"platforms": {"mobile": entries}}
    monkeypatch.setitem(sys.modules, "gateway", ModuleType("gateway"))
    monkeypatch.setitem(sys.modules, "gateway.channel_directory", module)
    return entries


def test_home_is_safe_while_all_chats_are_numbers(directory):
    """Nothing in the directory can be taken for the home device."""
    targets.check_home()
    directory.append({"id": targets.chat_id("anna"), "name": "anna"})
    targets.check_home()


def test_home_is_not_safe_beside_a_chat_that_is_no_number(directory):
    """Hermes would send what is meant for it to the home device; the error names it."""
    directory.append({"id": "anna", "name": "Anna"})
    with pytest.raises(targets.MisreadError, match=r"channel_aliases.json: 'anna'"):
        targets.check_home()


@pytest.mark.parametrize("home", ["anna", targets.chat_id("anna")])
def test_home_is_a_device_or_its_chat(monkeypatch, home):
    """A person writes the device's id, and `/sethome` its chat's: it is the same device."""
    monkeypatch.setenv("MOBILE_HOME_DEVICE", home)
    assert targets.home_device() == "anna"
    assert targets.is_home("anna", None)
    assert not targets.is_home("anna-iphone", None)


def test_home_is_what_hermes_was_configured_with(monkeypatch):
    """A home channel of config.yaml is as much a home as that of the environment."""
    monkeypatch.delenv("MOBILE_HOME_DEVICE", raising=False)
    config = SimpleNamespace(home_channel=SimpleNamespace(chat_id=targets.chat_id("anna")))
    assert targets.is_home("anna", config)
    assert not targets.is_home("anna-iphone", config)
    assert not targets.is_home("anna", SimpleNamespace(home_channel=None))
