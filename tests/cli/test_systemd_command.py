"""`hermes-mobile systemd`: the unit files of this installation, printed and installed."""

from __future__ import annotations

import errno
import os
import sys
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_mobile.cli import main, systemd

UNITS = "etc/systemd/system"
SERVICE = f"{UNITS}/hermes-mobile.service"
SETTINGS = "etc/hermes-mobile/hermes-mobile.toml"
SECRETS = "etc/hermes-mobile/credentials"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command, installed in a place that a service can see."""
    scripts = tmp_path / "bin"
    scripts.mkdir()
    (scripts / "hermes-mobile").touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(scripts))
    monkeypatch.setattr(sys, "prefix", "/opt/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")

    def invoke(*arguments: str):
        return CliRunner().invoke(main, ["systemd", *arguments])

    return invoke


@pytest.fixture
def install(run, tmp_path):
    """Install below a directory that this returns the files of, by path, with what was said."""
    root = tmp_path / "root"

    def into_root(*arguments: str):
        result = run("--install", "--root", str(root), *arguments)
        assert result.exit_code == 0, result.output
        files = {
            str(path.relative_to(root)): path.read_text()
            for path in root.rglob("*")
            if path.is_file()
        }
        return files, result.stdout

    into_root.root = root
    return into_root


def test_the_units_are_printed_with_their_paths(run, tmp_path):
    """The service starts the command from where it is; nothing is written."""
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"# /{SERVICE}\n" in result.stdout
    assert f"\nExecStart={tmp_path}/bin/hermes-mobile serve\n" in result.stdout
    assert "/opt/hermes-mobile" not in result.stdout
    assert f"# /{SETTINGS}\n" in result.stdout


def test_without_a_script_the_module_is_started(run, tmp_path):
    """As with `python -m hermes_mobile`, by the same Python."""
    (tmp_path / "bin" / "hermes-mobile").unlink()
    assert f"\nExecStart={sys.executable} -m hermes_mobile serve\n" in run().stdout


def test_the_units_are_installed(install, tmp_path):
    """With every socket, and the steps that are left to do; a drop-in only if one asks for it."""
    files, said = install()
    assert set(files) == {
        SERVICE,
        *(f"{UNITS}/hermes-mobile{name}.socket" for name in ("", "-http", "-deliver", "-agent")),
        SETTINGS,
    }
    for path in files:
        assert f"written    {install.root / path}\n" in said
    assert f"{tmp_path}/bin/hermes-mobile token > /etc/hermes-mobile/credentials/token" in said
    (enable,) = [line for line in said.splitlines() if "systemctl enable --now" in line]
    units = {Path(path).name for path in files if path.startswith(UNITS)}
    assert set(enable.split()[3:]) == units - {"hermes-mobile-agent.socket"}
    assert (install.root / SERVICE).stat().st_mode & 0o777 == 0o644
    assert (install.root / SECRETS).stat().st_mode & 0o777 == 0o700
    assert f"written    {install.root / SECRETS}/\n" in said


def test_drop_ins_are_installed_beside_their_units(install):
    """`direct` opens the service and the socket, `acp` the service alone."""
    files, _ = install("--drop-in", "direct", "--drop-in", "acp")
    assert {path for path in files if path.endswith(".conf")} == {
        f"{UNITS}/hermes-mobile.service.d/acp.conf",
        f"{UNITS}/hermes-mobile.service.d/direct.conf",
        f"{UNITS}/hermes-mobile.socket.d/direct.conf",
    }


def test_what_was_changed_is_kept_and_named(install):
    """A second time nothing is written; `--replace` overwrites units, never the settings."""
    first, _ = install()
    again, said = install()
    assert again == first
    assert "written" not in said
    (install.root / SERVICE).write_text("changed")
    (install.root / SETTINGS).write_text("agent = 'mine:Agent'")
    kept, said = install()
    assert (kept[SERVICE], kept[SETTINGS]) == ("changed", "agent = 'mine:Agent'")
    assert f"kept       {install.root / SERVICE}  (it differs from this version's)\n" in said
    replaced, said = install("--replace")
    assert replaced == first | {SETTINGS: "agent = 'mine:Agent'"}
    assert f"replaced   {install.root / SERVICE}\n" in said


def test_a_file_that_cannot_be_written(run, tmp_path):
    """One line that names it, and 78."""
    (tmp_path / "etc").touch()
    result = run("--install", "--root", str(tmp_path))
    assert result.exit_code == 78
    assert result.stderr.startswith(f"Error: {tmp_path}/{UNITS}/hermes-mobile")
    assert len(result.stderr.splitlines()) == 1


def test_a_directory_that_cannot_be_made(run, monkeypatch, tmp_path):
    """The same: here the disk is full once the files are written."""
    mkdir = Path.mkdir

    def refuse_the_last(directory: Path, *how, **more) -> None:
        if directory.name == "credentials":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mkdir(directory, *how, **more)

    monkeypatch.setattr(Path, "mkdir", refuse_the_last)
    result = run("--install", "--root", str(tmp_path))
    assert result.exit_code == 78
    assert result.stderr == f"Error: {tmp_path / SECRETS} cannot be made: No space left on device\n"


def test_a_file_that_is_no_text(install, run):
    """What somebody put there is not read as ours, and not overwritten."""
    install()
    (install.root / SERVICE).write_bytes(b"\xff")
    result = run("--install", "--root", str(install.root), "--replace")
    assert result.exit_code == 78
    assert result.stderr.endswith("hermes-mobile.service cannot be written: it is no text\n")


@pytest.mark.parametrize("hidden", systemd.HIDDEN)
def test_an_installation_that_the_service_cannot_see(run, monkeypatch, hidden):
    """The sandbox hides people's homes and has a /tmp of its own: it is said before it fails."""
    place = f"{hidden}/venv"
    monkeypatch.setattr(sys, "prefix", place)
    result = run()
    assert result.exit_code == 0
    assert result.stderr == f"Warning: the service cannot see {place}: install it below /opt\n"


def test_a_path_that_no_unit_file_can_hold(run, monkeypatch):
    """With a space, a quote or a %, which mean something there."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    result = run()
    assert result.exit_code == 78
    assert "a unit file cannot start /opt/my python/bin/python" in result.stderr
