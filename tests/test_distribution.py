"""What is released: the wheel and the sdist, built here the way a release builds them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
STATIC = ROOT / "src" / "hermes_mobile" / "http" / "static"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A directory with both, the wheel made from the sdist."""
    place = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "build", "-q", "--outdir", str(place), str(ROOT)]
    subprocess.run(command, check=True)  # noqa: S603 - our own command
    return place


@pytest.fixture
def wheel(built):
    """The names of the files in the wheel."""
    (path,) = built.glob("*.whl")
    with ZipFile(path) as archive:
        return archive.namelist()


@pytest.fixture
def sdist(built):
    """The names of the files in the sdist."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return archive.getnames()


def test_the_wheel_has_the_console(wheel):
    """Every file of the console and the avatar page is in the wheel, and nothing else beside them."""
    pages = "hermes_mobile/http/static/"
    files = {str(file.relative_to(STATIC)) for file in STATIC.rglob("*") if file.is_file()}
    assert {"index.html", "console.js", "avatar/index.html"} <= files
    assert {name.removeprefix(pages) for name in wheel if name.startswith(pages)} == files


def test_the_wheel_has_the_units(wheel):
    """`hermes-mobile systemd` has what it installs, each file as the documentation shows it."""
    units = "hermes_mobile/cli/units/"
    shown = ROOT / "docs" / "deploy" / "systemd"
    files = {str(file.relative_to(shown)) for file in shown.rglob("*") if file.is_file()}
    assert "hermes-mobile.service" in files
    assert {name.removeprefix(units) for name in wheel if name.startswith(units)} == files


def test_nothing_of_node_is_released(wheel, sdist):
    """Neither has packages of Node, TypeScript, or what the tests in a browser leave behind."""
    foreign = re.compile(r"node_modules|\.tsx?$|package(-lock)?\.json$|\.npmrc$|\.png$")
    samples = "hermes_mobile/agents/samples/"
    assert [name for name in (*wheel, *sdist) if foreign.search(name) and samples not in name] == []
