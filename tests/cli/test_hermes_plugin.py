"""`hermes-plugin`: what it writes, and what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import hermes_mobile
from hermes_mobile.cli import main

PLUGIN = Path(hermes_mobile.__file__).parent / "hermes"


def run(*arguments, **environ):
    return CliRunner().invoke(main, ["hermes-plugin", *map(str, arguments)], env=environ)


def files_below(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("told", ["option", "environment"])
def test_install_writes_one_directory(tmp_path, told):
    """The plugin whole, below Hermes' home, and nothing else; it says what to configure."""
    if told == "option":
        result = run("install", "--hermes-home", tmp_path)
    else:
        result = run("install", HERMES_HOME=str(tmp_path))
    assert result.exit_code == 0, result.output
    ours = {name for name in files_below(PLUGIN) if "__pycache__" not in name}
    assert files_below(tmp_path) == {f"plugins/mobile/{name}" for name in ours}
    assert {"plugin.yaml", "__init__.py", "adapter.py"} <= ours
    for needed in ("- mobile", "MOBILE_AGENT_SOCKET=", str(tmp_path / "config.yaml")):
        assert needed in result.output


def test_install_replaces_what_it_installed(tmp_path):
    """An upgrade leaves nothing of the version before."""
    place = tmp_path / "plugins" / "mobile"
    run("install", "--hermes-home", tmp_path)
    (place / "old.py").touch()
    assert run("install", "--hermes-home", tmp_path).exit_code == 0
    assert not (place / "old.py").exists()


def test_install_spares_what_is_not_its_own(tmp_path):
    """A directory of that name with something else in it: one line, exit status 78."""
    place = tmp_path / "plugins" / "mobile"
    place.mkdir(parents=True)
    (place / "plugin.yaml").write_text("name: another\n")
    result = run("install", "--hermes-home", tmp_path)
    assert (result.exit_code, len(result.output.splitlines())) == (78, 1)
    assert "move it away" in result.output
    assert files_below(place) == {"plugin.yaml"}


def test_install_without_a_hermes(tmp_path):
    """No home of Hermes: one line that names it, exit status 78; a wrong option is wrong usage."""
    result = run("install", HERMES_HOME=str(tmp_path / "none"))
    assert (result.exit_code, len(result.output.splitlines())) == (78, 1)
    assert str(tmp_path / "none") in result.output
    assert run("install", "--hermes-home", tmp_path / "none").exit_code == 2


def test_install_where_nothing_can_be_written(tmp_path):
    """What the system says is told in one line, exit status 78."""
    (tmp_path / "plugins").touch()
    result = run("install", "--hermes-home", tmp_path)
    assert (result.exit_code, len(result.output.splitlines())) == (78, 1)


def test_the_manifest_has_our_version():
    """What Hermes lists is the version that this is."""
    manifest = (PLUGIN / "plugin.yaml").read_text()
    assert re.findall(r"^version: (.*)$", manifest, re.MULTILINE) == [hermes_mobile.__version__]


def test_the_page_has_the_lines_that_are_printed(tmp_path):
    """docs/hermes.md and the command tell to configure the same."""
    page = (Path(__file__).parents[2] / "docs" / "hermes.md").read_text()
    [yaml] = re.findall(r"^```yaml\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    assert yaml in run("install", "--hermes-home", tmp_path).output


def test_the_configuration_of_the_page_is_right(tmp_path):
    """The server's file of docs/hermes.md, as the shell would write it, passes `check`."""
    page = (Path(__file__).parents[2] / "docs" / "hermes.md").read_text()
    [toml] = re.findall(r"server.toml <<END\n(.*?)^END", page, re.DOTALL | re.MULTILINE)
    made = iter(("the-token-of-the-app", "the-token-that-delivers"))
    toml = re.sub(r"\$\(.*? token\)", lambda _: next(made), toml)
    config = tmp_path / "server.toml"
    config.write_text(toml.replace("$HOME", str(tmp_path)))
    (tmp_path / ".config" / "hermes-mobile").mkdir(parents=True)
    result = CliRunner().invoke(main, ["check", "--config", str(config)], env={})
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output


def test_chat_id_is_a_number():
    """What Hermes calls a chat is one line, of digits."""
    result = run("chat-id", "anna-iphone")
    assert re.fullmatch(r"\d+\n", result.output)
