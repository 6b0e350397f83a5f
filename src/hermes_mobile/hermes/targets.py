"""How Hermes calls a device, and how it is kept from calling the wrong one.

`hermes send --to mobile:NAME` looks NAME up, and then reads what it found as if a person had written
it. There, an id of a platform that Hermes does not know by heart has to be a number: with any other,
the message goes to the home device, and the sender is told that all is well. So a device's id, spelled
as a number, is its chat's id: nothing has to be kept to get from one to the other.

A name is looked up by its beginning, too: what is meant for `anna` would go to `anna-phone`, where Hermes
has only met that one. So the names that it keeps begin with the number.
"""

from __future__ import annotations

import os
from typing import Any

_MARK = b"mob:"
"""What the bytes of such a number begin with."""


_MAX_DIGITS = 2_000
"""More than any device's id makes."""


class MisreadError(Exception):
    """Hermes may have meant another device; the message says what to do."""


def chat_id(device: str) -> str:
    """The number that is Hermes' id of the chat with `device`."""
    return str(int.from_bytes(_MARK + device.encode()))


def chat_name(device: str) -> str:
    """What Hermes lists the chat with `device` as; not the beginning of it is any device's id."""
    return f"{chat_id(device)} {device}"


def device_id(chat: str) -> str:
    """The device of a chat; a target that is no such number is a device's id itself, as cron has it."""
    if not (chat.isascii() and chat.isdigit() and len(chat) <= _MAX_DIGITS):
        return chat
    number = int(chat)
    spelled = number.to_bytes((number.bit_length() + 7) // 8)
    if not spelled.startswith(_MARK):
        return chat
    try:
        return spelled.removeprefix(_MARK).decode()
    except UnicodeDecodeError:
        return chat


def home_device() -> str:
    """The device that the environment calls home; `/sethome` writes its chat's id there."""
    return device_id(os.environ.get("MOBILE_HOME_DEVICE", ""))


def is_home(device: str, config: Any) -> bool:
    """Whether what Hermes cannot place would go to `device`; `config` is the platform's."""
    channel = getattr(config, "home_channel", None)
    known = "" if channel is None else device_id(str(channel.chat_id))
    return device in {home_device(), known}


def check_home() -> None:
    """Make sure that a message for the home device is for the home device.

    Errors: MisreadError while Hermes knows a chat of ours by an id that it would not read back.
    """
    from gateway.channel_directory import load_directory

    for entry in load_directory().get("platforms", {}).get("mobile", ()):
        if not str(entry.get("id", "")).isdigit():
            raise MisreadError(
                f"channel_aliases.json: {entry.get('id')!r} is no chat id of mobile, and what is sent "
                f"to it would go to the home device; `hermes-mobile hermes-plugin chat-id` tells it"
            )
