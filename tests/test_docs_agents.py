"""`docs/agents.md`: its agent is loaded and works, its test passes, its tables are complete."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import get_args

import pytest
from click import Context

from hermes_mobile.agents import Input, Turn, load_agent
from hermes_mobile.cli import main
from hermes_mobile.client import Message, PromptCard
from hermes_mobile.testing import open_server

PAGE = (Path(__file__).parents[1] / "docs" / "agents.md").read_text()
AGENT, TEST = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
ACP = PAGE.split("\n## A program that speaks ACP\n")[1]


def first_cells(text: str) -> str:
    """The first column of the tables in a text."""
    return "\n".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The page's module, where it is found."""
    (tmp_path / "notes.py").write_text(AGENT)
    monkeypatch.syspath_prepend(tmp_path)
    yield "notes:Notes"
    sys.modules.pop("notes", None)


async def test_the_agent_works(notes, autojump_clock):
    """In the real server: what it is told it keeps, for each device, and asks before it forgets."""
    async with (
        open_server(load_agent(notes)) as server,
        server.open_client("phone") as phone,
        server.open_client("tablet") as tablet,
    ):
        assert await said(phone, "milk") == "Noted. Notes: 1."
        assert await said(phone, "bread") == "Noted. Notes: 2."
        assert await said(tablet, "tea") == "Noted. Notes: 1."
        await phone.send_text("/clear")
        async for event in phone:
            if isinstance(event, PromptCard):
                await phone.answer_prompt(event.id, "once")
            if isinstance(event, Message):
                assert event.text == "Notes: 0."
                break


async def said(client, text):
    await client.send_text(text)
    async for event in client:
        if isinstance(event, Message):
            return event.text
    raise AssertionError


async def test_its_test_passes(notes, autojump_clock):
    """The page's test, as it stands, finds what the page says."""
    namespace = {}
    exec(TEST, namespace)  # noqa: S102 - our own page
    [test] = [value for name, value in namespace.items() if name.startswith("test_")]
    await test()


def test_the_example_is_short():
    """20 lines, beside those that are empty or say what the file is."""
    lines = [line for line in AGENT.splitlines() if line and not line.startswith('"""')]
    assert len(lines) <= 20


def test_the_tables_have_all_of_the_port():
    """Every input, and everything that a turn may do."""
    cells = first_cells(PAGE.split("\n## A program")[0])
    inputs = {each.__name__ for each in get_args(Input)}
    assert inputs == set(re.findall(r"`(\w+Input)`", cells))
    methods = {name for name in dir(Turn) if not name.startswith("_")}
    assert methods - {"device_id", "session", "user", "input"} == set(
        re.findall(r"`(?:await |async with )(\w+)", cells)
    )


def test_the_settings_of_acp():
    """The table has those that an ACP agent has."""
    assert re.findall(r"`(MOBILE_\w+)`", first_cells(ACP)) == [
        "MOBILE_AGENT_COMMAND",
        "MOBILE_AGENT_DIR",
        "MOBILE_STATE_DIR",
    ]


def test_the_commands_parse():
    """Each command of the page is one that `hermes-mobile` takes."""
    lines = re.findall(r"hermes-mobile (serve .*)$", PAGE, re.MULTILINE)
    for line in lines:
        command, *arguments = shlex.split(line)
        assert main.commands[command].make_context(command, arguments, parent=Context(main))
    assert len(lines) == 3
