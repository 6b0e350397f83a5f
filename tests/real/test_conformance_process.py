"""The conformance suite and our server, each as a process: what CI, and other people's CI, runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from street import PATIENCE, environment

pytestmark = pytest.mark.slow


def conform(server, *arguments, **settings):
    """Run the command as a process against a server as a process, with the same settings."""
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "hermes_mobile", "conformance", *arguments, server.url],
        env=environment(MOBILE_TOKEN=server.token, **settings),
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )


def test_our_server_on_real_sockets(serve, tmp_path):
    """Nothing differs; what was skipped is what minutes or another configuration would take."""
    settings = {
        "MOBILE_EXTRA_TOKENS": "tablet-1=a-bound-token,another-token",
        "MOBILE_DELIVER_TOKENS": "a-deliver-token",
    }
    file = tmp_path / "report.json"
    result = conform(serve(**settings), "--json", str(file), **settings)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert result.stdout.replace("\n", "").isprintable()
    skipped = {
        f"{one['group']}/{one['name']}"
        for one in json.loads(file.read_text())["results"]
        if one["outcome"] == "skipped"
    }
    assert skipped == {
        "exchanges/a device that is not on the allow-list",
        "exchanges/a generated id is not on the allow-list",
        "exchanges/a device may not deliver",
        "exchanges/a card that expires",
        "cards/a card runs out",
    }


def test_what_takes_another_configuration(serve):
    """Cards that soon run out, a peer that may not deliver, an allow-list."""
    settings = {"MOBILE_PROMPT_TTL": 2, "MOBILE_DELIVER_LOOPBACK": "off"}
    only = ["--only", "cards/a card runs out", "--only", "a device may not deliver"]
    result = conform(serve(**settings), *only, **settings)
    assert (result.returncode, result.stdout) == (0, "2 scenarios: 2 agree, 0 differ, 0 skipped\n")
    settings = {"MOBILE_ALLOWED_DEVICES": "tel-1"}
    result = conform(serve(**settings), "--only", "allow-list", **settings)
    assert (result.returncode, result.stdout) == (0, "2 scenarios: 2 agree, 0 differ, 0 skipped\n")


def test_ctrl_c_ends_it(serve):
    """130, without a word, in the middle of a run."""
    server = serve()
    descriptors = server.descriptors
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "hermes_mobile", "conformance", "--only", "timeout", server.url],
        env=environment(MOBILE_TOKEN=server.token),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while server.descriptors < descriptors + 2:  # the witness, and the first scenario
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 130
