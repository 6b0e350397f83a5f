"""`docs/commands.md` lists every command with its options, statuses, and examples that are right."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from hermes_mobile.cli import INTERRUPTED, main
from hermes_mobile.cli.conformance import SOMETHING_DIFFERS
from hermes_mobile.cli.conventions import ConfigurationError
from hermes_mobile.cli.remote import DeviceOfflineError, NoServerError, RefusalError

PAGE = (Path(__file__).parents[1] / "docs" / "commands.md").read_text()
COMMON = {"--help", "--version"}


def section(name: str) -> str:
    return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]


def commands_of(name: str) -> list[click.Command]:
    """The command, and those below it where it is a group."""
    command = main.commands[name]
    return [command, *(command.commands.values() if isinstance(command, click.Group) else ())]


def examples(name: str) -> list[list[str]]:
    """The arguments of every example under a heading; pipes and variables are the shell's."""
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```", section(name), re.DOTALL | re.MULTILINE))
    return [
        shlex.split(line)
        for line in re.findall(r"(?:^|[| ])hermes-mobile (.*)$", lines, re.MULTILINE)
    ]


def test_every_command_has_its_section():
    """In the table at the top, and under a heading, in the same order."""
    listed = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \|", PAGE, re.MULTILINE)
    headings = re.findall(r"^## ([\w-]+)$", PAGE, re.MULTILINE)
    assert listed == headings
    assert set(listed) == set(main.commands)


@pytest.mark.parametrize("name", main.commands)
def test_every_option_is_listed(name):
    """Those that a command has, and no others."""
    first_cells = re.findall(r"^\| (`(?:--|[A-Z]).*?`) \|", section(name), re.MULTILINE)
    listed = {option.split()[0] for cell in first_cells for option in re.findall(r"`(.+?)`", cell)}
    has = {
        parameter.opts[0]
        if isinstance(parameter, click.Option)
        else parameter.make_metavar(click.Context(main)).strip("[]").partition("|")[0]
        for command in commands_of(name)
        for parameter in command.params
    }
    assert listed == has - COMMON


@pytest.mark.parametrize("name", main.commands)
def test_the_examples_parse(name, tmp_path, monkeypatch):
    """Each is of the command, and its options and arguments are ones that it takes."""
    monkeypatch.chdir(tmp_path)
    for file in ("token", "chart.png"):
        Path(file).touch()
    for command, *arguments in examples(name):
        context = click.Context(main)
        assert main.commands[command].make_context(command, arguments, parent=context)
    assert examples(name)


def test_the_statuses():
    """The table has every status that a command ends with."""
    statuses = {int(cell) for cell in re.findall(r"^  \| (\d+) \|", PAGE, re.MULTILINE)}
    errors = (DeviceOfflineError, RefusalError, NoServerError, ConfigurationError, click.UsageError)
    assert statuses == {0, SOMETHING_DIFFERS, INTERRUPTED, *(each.exit_code for each in errors)}
