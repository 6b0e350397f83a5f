"""`docs/agent-link.md`: its messages are those of the code, and so are its codes and numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hermes_mobile.agents.link import peer, talk
from hermes_mobile.agents.link.codec import MOST_TURNS, VERSION, decode
from hermes_mobile.agents.link.messages import Code, Farewell, Hello, Unknown
from hermes_mobile.conformance.vectors import read
from hermes_mobile.protocol.cards import APPROVAL_OPTIONS, CONFIRMATION_OPTIONS
from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.protocol.frames import CardKind, MediaIn, MediaOut
from hermes_mobile.protocol.limits import (
    HELLO_TIMEOUT,
    MAX_FRAME_BYTES,
    MAX_ID_CHARS,
    MAX_MEDIA_BYTES,
    MAX_NAME_CHARS,
    MIB,
)
from hermes_mobile.server import turn
from hermes_mobile.server.agent_line import CLOSE_CODES
from hermes_mobile.server.settings import Settings

PAGE = (Path(__file__).parents[1] / "docs" / "agent-link.md").read_text()
WORDS = " ".join(PAGE.split())
EXAMPLES = [
    json.loads(message)
    for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for message in re.split(r"\n(?=\{)", block.strip())
] + [json.loads(message) for message in re.findall(r'`(\{"t": .*?\})`', PAGE)]


def vectors_of(name: str, part: str) -> list[dict[str, Any]]:
    return [vector[part] for vector in read(name) if part in vector]


TO_AGENT: dict[str, set[str]] = {}
"""The fields of each message of the server."""
for wire in vectors_of("agent-link-to-agent.json", "wire"):
    TO_AGENT.setdefault(wire["t"], set()).update(wire)


def rows(heading: str) -> dict[str, list[str]]:
    """The table below a row of headings, by what stands in backquotes in its first cell."""
    table = PAGE.split(f"| {heading} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return {row.split("`")[1]: row.split(" | ") for row in table}


@pytest.mark.parametrize("example", EXAMPLES, ids=json.dumps)
def test_examples_are_messages(example):
    """What an agent says is taken, and what it is told has the fields that the server writes."""
    if example["t"] in TO_AGENT:
        assert set(example) <= TO_AGENT[example["t"]]
    else:
        assert not isinstance(decode(json.dumps(example)), Unknown)


def test_every_message_is_told():
    """Those of the agent, and those to it."""
    said = {each["type"] for each in vectors_of("agent-link-from-agent.json", "expect")}
    for t in (said - {"unknown"}) | set(TO_AGENT):
        assert f'"t": "{t}"' in PAGE or f"| `{t}` |" in PAGE, t


def test_every_code_is_told():
    """Why a request is refused, and why the link ends, with how a WebSocket is closed."""
    assert set(rows("`code` | means | the agent")) == set(Code)
    farewells = rows("`code` | why | dial again? | WebSocket close")
    assert set(farewells) == set(Farewell)
    for farewell in Farewell:
        close = CLOSE_CODES.get(farewell, CloseCode.REFUSED)
        assert farewells[farewell][-1].startswith(str(int(close))), farewell


def test_every_kind_is_told():
    """Of cards with their options, and of files in both directions."""
    cards = rows("`kind` | fields | `option` in `done`")
    assert set(cards) == set(CardKind)
    for kind, options in (
        (CardKind.EXEC_APPROVAL, APPROVAL_OPTIONS),
        (CardKind.SLASH_CONFIRM, CONFIRMATION_OPTIONS),
    ):
        assert ", ".join(f"`{option.id}`" for option in options) in cards[kind][1]
    for kinds in (MediaIn, MediaOut):
        assert {f"`{kind}`" for kind in kinds} <= set(re.findall(r"`\w+`", PAGE))


@pytest.mark.parametrize(
    "told",
    [
        f"at most 16 MiB ({MAX_FRAME_BYTES:,} bytes)",
        f"at most 8 MiB ({MAX_MEDIA_BYTES:,} bytes)",
        f"within {HELLO_TIMEOUT:g} s",
        f"nothing for {Settings().write_timeout:g} s (`MOBILE_WRITE_TIMEOUT`)",
        f"`MOBILE_AGENT_WAIT` ({Settings().agent_wait:g} s)",
        f"`MOBILE_PROMPT_TTL` ({Settings().prompt_ttl:g})",
        f"at most {MAX_NAME_CHARS} characters",
        f"at most {MAX_ID_CHARS} characters",
        f"1 to {MOST_TURNS:,}, by default {Hello().turns}",
        f"| `v` | required | {VERSION} |",
        f"At most {talk.STREAMS_OPEN} open ones",
        f"up to {talk.REQUESTS_OPEN} requests of one turn",
        f"requests of {peer.BYTES_OPEN // MIB} MiB together",
        f"up to {talk.CARDS_OPEN} cards may be open in each, and {peer.CARDS_OPEN_IN_ALL:,} in all",
        f"more than {peer.TALKS_OPEN:,} devices at once",
        f"at most {turn.MAX_WORDS_CHARS:,} characters in all, and {turn.MAX_CHOICES} choices",
    ],
)
def test_numbers(told):
    """Each limit of the page is the one that holds."""
    assert told in WORDS
