"""The server's own metrics, for what has to be back where it was after everybody left."""

from __future__ import annotations

from typing import Final
from urllib.request import urlopen

TIMEOUT_SECONDS: Final = 10
AT_REST: Final = ("tasks", "connections_open", "turns_running", "messages_waiting", "cards_open")
"""Gauges that tell a leak, without the prefix of their names; a server need not have all."""
PREFIX: Final = "hermes_mobile_"


def fetch_gauges(url: str) -> dict[str, float]:
    """The gauges of `AT_REST` at the address of a `/metrics`. *Errors*: OSError."""
    with urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the operator's own address
        return read_gauges(answer.read().decode())


def read_gauges(text: str) -> dict[str, float]:
    """The gauges of `AT_REST` in the text format of Prometheus."""
    samples = (line.split() for line in text.splitlines() if not line.startswith("#"))
    values = {words[0].removeprefix(PREFIX): words[1] for words in samples if len(words) > 1}
    return {name: float(values[name]) for name in AT_REST if name in values}
