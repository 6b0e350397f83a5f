"""Every scenario and every peer once, for real and as little as can be: nothing is timed here."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench.scenarios import SCENARIOS
from bench.servers import OURS, PEERS

ROOT = Path(__file__).parents[2]
PATIENCE = 120
UNITLESS = {"idle", "soak"}

pytestmark = pytest.mark.slow


def bench(*arguments):
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_works(name, tmp_path):
    """A scenario gets something done on a server of its own, without an error, and draws it."""
    done = bench(name, "--start", "--tiny", "--json", "-", "--plot", str(tmp_path))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [window["errors"] for window in told["windows"] if window["errors"]] == []
    series = [each for window in told["windows"] for each in window["latencies"].values()]
    assert sum(each["count"] for each in series) > 0 or name in UNITLESS
    assert list(tmp_path.glob(f"{name}-*.png"))


def test_an_open_loop_with_several_processes():
    """Between them, two processes send what is due: 50 texts in a second."""
    arguments = ("--start", "--tiny", "--rate", "50", "--processes", "2", "--json", "-")
    done = bench("turns", *arguments)
    assert done.returncode == 0, done.stderr
    [window] = json.loads(done.stdout)["windows"]
    assert window["latencies"]["turn"]["count"] == 50
    assert window["errors"] == {}


def test_a_server_that_is_not_there():
    """Nobody can connect: that is told by code."""
    done = bench("turns", "--url", "ws://127.0.0.1:1/ws", "--tiny", "--json", "-")
    [window] = json.loads(done.stdout)["windows"]
    assert window["errors"] == {"ConnectionRefusedError": 5}


def test_every_peer_is_compared(tmp_path):
    """Each peer echoes, takes files and sends files; the table goes into a page."""
    page, readings = tmp_path / "page.md", tmp_path / "readings.json"
    page.write_text("<!-- comparison -->\n<!-- /comparison -->\n")
    rows = [f"--only={name}" for name in ("turns-50x1", "upload", "download")]
    files = ("--markdown", str(page), "--json", str(readings))
    done = bench("compare", "--repeats", "1", "--seconds", "0.3", *rows, *files)
    assert done.returncode == 0, done.stderr
    told = json.loads(readings.read_text())["readings"]
    assert [set(taken) for taken in told.values()] == [{OURS, *PEERS}] * 5
    assert "errors" not in done.stderr
    assert len(re.findall(r"^\| ", page.read_text(), re.MULTILINE)) == 2 + 5
