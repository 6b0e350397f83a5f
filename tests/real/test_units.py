"""The unit files as systemd's own tools see them: what only a booted systemd can show is not here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ANALYZE = Path("/usr/bin/systemd-analyze")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ANALYZE.exists(), reason="no systemd here: apt-get install systemd"),
]
PAGE = Path(__file__).parents[2] / "docs" / "deploy" / "README.md"
ROWS = {"base": (), "`direct.conf`": ("direct",), "`acp.conf`": ("acp",), "both": ("direct", "acp")}
"""The rows of the page's table of scores, and the drop-ins that each is about."""


@pytest.fixture(params=ROWS)
def units(request, tmp_path):
    """A directory of the units that `hermes-mobile systemd` installs, and the row that it is for."""
    options = [option for name in ROWS[request.param] for option in ("--drop-in", name)]
    install = ["systemd", "--install", "--root", str(tmp_path), *options]
    run(sys.executable, "-m", "hermes_mobile", *install)
    return tmp_path / "etc" / "systemd" / "system", request.param


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"SYSTEMD_COLORS": "0", "SYSTEMD_EMOJI": "0", "LC_ALL": "C.UTF-8"}
    return subprocess.run(  # noqa: S603 - our own command, and systemd's
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    )


def test_systemd_has_nothing_to_say_against_the_units(units):
    """`systemd-analyze verify` prints nothing: each key, value and program is right."""
    directory, _ = units
    files = sorted(str(path) for path in directory.iterdir() if path.is_file())
    verified = run(str(ANALYZE), "verify", *files)
    assert (verified.stdout, verified.stderr) == ("", "")


def test_the_sandbox_is_as_tight_as_it_says(units):
    """`systemd-analyze security` scores the service at most as the page says of each drop-in."""
    directory, row = units
    service = directory / "hermes-mobile.service"
    report = run(str(ANALYZE), "security", "--offline=true", "--no-pager", str(service))
    *_, score = report.stdout.split("exposure level for hermes-mobile.service: ")
    (told,) = re.findall(rf"^\| {row} \| (\d+\.\d) \|", PAGE.read_text(), re.MULTILINE)
    assert float(score.split()[0]) <= float(told)
    assert float(told) <= (1.0 if row == "base" else 1.2)
