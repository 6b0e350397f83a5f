"""The comparison's arithmetic and its table."""

import click
import pytest
from bench.cli import main
from bench.compare import Comparison, Reading, Row, table
from bench.servers import OURS
from click.testing import CliRunner

from bench import growth, page

FAST = Row("turns", "1/s", read=None)
SMALL = Row("memory", "KiB", read=None, more_is_better=False)


def comparison(row, ours, peer):
    made = Comparison()
    for server, readings in ((OURS, ours), ("picows", peer)):
        for reading in readings:
            made.add(row, server, reading)
    return made


def readings(*values):
    return [Reading(value) for value in values]


def test_more_is_better():
    """A ratio is that of the medians; above 1 means that ours does more."""
    made = comparison(FAST, readings(100, 90, 500), readings(50, 40, 60))
    assert made.ratio(FAST, "picows") == (2.0, False)


def test_less_is_better():
    """Where less is better the ratio is turned over: above 1 is still in our favour."""
    made = comparison(SMALL, readings(20), readings(30))
    assert made.ratio(SMALL, "picows") == (1.5, False)


def test_a_busy_generator_decides_nothing():
    """One run with a busy generator is enough: then the server's CPU per unit decides."""
    ours = [Reading(100, instead=10e-6), Reading(100, instead=12e-6), Reading(100, instead=10e-6)]
    peer = [Reading(100, instead=20e-6), Reading(100, instead=20e-6, busy=True)]
    assert comparison(FAST, ours, peer).ratio(FAST, "picows") == (2.0, True)


def test_the_table():
    """A row has its medians and its ratios; one that was not measured is left out."""
    made = comparison(FAST, readings(1200), [Reading(600, instead=1.0)])
    assert table(made, [FAST, SMALL], ["picows"]) == [
        ["", "hermes-mobile", "picows", "/ picows"],
        ["turns (1/s)", "1,200.0", "600.0", "2.00"],
    ]


def test_the_table_marks_what_cpu_decided():
    """A ratio that is not of the rates shown beside it says so."""
    made = comparison(FAST, [Reading(1, 1.0, busy=True)], [Reading(1, 0.5)])
    assert table(made, [FAST], ["picows"])[1][-1] == "0.50 (CPU)"


def test_growth_is_relative():
    """What a load costs is told in relation to the usual one, by medians."""
    costs = {"usual": [2e-6, 1e-6, 9e-6], "more": [5e-6, 3e-6, 1e-6]}
    assert growth.table(costs) == [["", "CPU per turn"], ["usual", "1.00"], ["more", "1.50"]]


def test_a_page_is_filled_between_its_marks(tmp_path):
    """What was between the marks is replaced, what is around them stays; twice is like once."""
    file = tmp_path / "bench.md"
    file.write_text("Before.\n<!-- growth -->\nOld.\n<!-- /growth -->\nAfter.\n")
    for _ in range(2):
        page.fill(file, "growth", [["", "a"], ["row", "1"]], "Once")
    begin, end = (
        "Before.\n<!-- growth -->\n\n|  | a |\n| --- | --- |\n| row | 1 |\n\nOnce.\n",
        (".\n\n<!-- /growth -->\nAfter.\n"),
    )
    assert file.read_text().startswith(begin)
    assert file.read_text().endswith(end)
    assert file.read_text().count("Once") == 1


def test_a_page_without_marks_is_left_alone(tmp_path):
    """A page that has no place for the table is refused."""
    file = tmp_path / "other.md"
    file.write_text("Nothing.")
    with pytest.raises(click.ClickException):
        page.fill(file, "growth", [["", "a"]], "Once")


@pytest.mark.parametrize("arguments", [(), ("--start", "--url", "ws://127.0.0.1:1/ws")])
def test_one_server_is_needed(arguments):
    """A server is named or started, not both and not neither: status 2."""
    assert CliRunner().invoke(main, ["turns", *arguments]).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [("--rate", "fast"), ("--devices", "one"), ("--connections", "0")]
)
def test_wrong_options(arguments):
    """What cannot be meant is refused before anything is connected: status 2."""
    url = ("--url", "ws://127.0.0.1:1/ws")
    assert CliRunner().invoke(main, ["turns", *url, *arguments]).exit_code == 2
