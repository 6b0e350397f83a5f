"""The figures as Prometheus reads them: which series there are, and where each number comes from."""

from __future__ import annotations

import re
from pathlib import Path

import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from hermes_mobile.http import exposition
from hermes_mobile.http.lag import LoopLag
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.protocol.frames import CardKind
from hermes_mobile.server.hub import Hub
from house import chunk, open_house

DOCS = Path(__file__).parents[2] / "docs" / "http.md"


def scrape(hub: Hub, lag: LoopLag | None = None) -> dict[str, float]:
    """Every series of ours by its name and labels, without the common prefix."""
    text = exposition.write(hub, lag or LoopLag()).decode()
    return {
        re.sub(r"^hermes_mobile_", "", line.rpartition(" ")[0]): float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("hermes_mobile_")
    }


async def test_a_new_server_shows_every_series_at_zero(autojump_clock):
    """What has not happened yet can be alerted on: only the build and the tasks are not zero."""
    async with open_house() as house:
        series = scrape(house.hub)
    assert {name for name, value in series.items() if value} == {
        *(name for name in series if name.startswith("build_info")),
        "tasks",
    }
    assert {f'errors_total{{code="{code}"}}' for code in ErrorCode} <= series.keys()
    assert 'cards_total{kind="clarify",outcome="choice"}' in series
    assert 'cards_total{kind="slash_confirm",outcome="session"}' not in series


async def test_prometheus_can_read_it(autojump_clock):
    """The text parses, each family once, and the process shows its memory beside our figures."""
    async with open_house() as house:
        text = exposition.write(house.hub, LoopLag()).decode()
    names = [family.name for family in text_string_to_metric_families(text)]
    assert len(names) == len(set(names))
    assert "process_resident_memory_bytes" in names


async def test_how_things_stand_is_looked_up(autojump_clock):
    """Connections, sessions, turns, queues and cards are counted at the moment of asking."""
    async with open_house() as house:
        peer = await house.connect("phone")
        away = await house.connect("tablet")
        await away.say("m1", "/think 100")
        await away.expect("typing")
        await house.lose(away)
        await peer.say("m1", "/run make")
        await peer.expect("prompt")
        await peer.say("m2", "later")
        await peer.say("m3", "later still")
        await peer.send({"t": "ping"})
        await peer.expect("pong")
        series = scrape(house.hub)
        mailbox = house.hub.registry.get("phone").mailbox
        assert series["connections_open"] == 1
        assert series["connections_total"] == 2
        assert series['sessions{state="connected"}'] == 1
        assert series['sessions{state="away"}'] == 1
        assert series["turns_running"] == 2
        assert series["messages_waiting"] == 2
        assert series["cards_open"] == 1
        assert series["units_kept"] == len(mailbox) == 1
        assert series["units_kept_bytes"] == mailbox.bytes
        connection = house.hub.registry.get("phone").connection
        assert series["outbox_frames"] == connection.outbox.frames
        assert series["outbox_bytes"] == connection.outbox.bytes


async def test_files_that_are_kept_are_counted(tmp_path):
    """How many, and their bytes."""
    async with open_house(state_dir=tmp_path) as house:
        peer = await house.connect("phone")
        for file in ("f1", "f2"):
            await peer.send(chunk(file, b"12345"))
            await peer.expect("message")
        series = scrape(house.hub)
    assert (series["received_files"], series["received_bytes"]) == (2, 10)


async def test_tasks_that_live_are_counted(autojump_clock):
    """A connection's tasks come and go with it."""
    async with open_house() as house:
        await trio.testing.wait_all_tasks_blocked()
        before = scrape(house.hub)["tasks"]
        peer = await house.connect("phone")
        assert scrape(house.hub)["tasks"] > before
        await house.lose(peer)
        assert scrape(house.hub)["tasks"] == before


async def test_counters_keep_their_labels_apart(autojump_clock):
    """Each counter lands in its own series; errors count as frames, and by their code."""
    async with open_house() as house:
        metrics = house.hub.metrics
        metrics.sent(ErrorCode.TOO_BIG, 100)
        metrics.sent(ErrorCode.BAD_FRAME, 50)
        metrics.sent("message", 7)
        metrics.received(None, "{")
        metrics.card_answered(CardKind.CLARIFY, "c7")
        metrics.upload_completed(9)
        metrics.uploads_refused = 3
        metrics.units_confirmed = 4
        metrics.units_dropped = 5
        metrics.received_failed = 7
        metrics.wakes["failed"] = 8
        metrics.hello_refusals["timeout"] = 6
        lag = LoopLag()
        lag.last, lag.most = 0.25, 0.5
        series = scrape(house.hub, lag)
    changed = {name: value for name, value in series.items() if value and "build" not in name}
    del changed["tasks"]
    assert changed == {
        'frames_total{direction="out",type="error"}': 2,
        'frame_bytes_total{direction="out",type="error"}': 150,
        'frames_total{direction="out",type="message"}': 1,
        'frame_bytes_total{direction="out",type="message"}': 7,
        'frames_total{direction="in",type="invalid"}': 1,
        'frame_bytes_total{direction="in",type="invalid"}': 1,
        'errors_total{code="too_big"}': 1,
        'errors_total{code="bad_frame"}': 1,
        'cards_total{kind="clarify",outcome="choice"}': 1,
        'uploads_total{outcome="completed"}': 1,
        'uploads_total{outcome="refused"}': 3,
        "upload_bytes_total": 9,
        "received_failed_total": 7,
        'wakes_total{outcome="failed"}': 8,
        "units_confirmed_total": 4,
        "units_dropped_total": 5,
        'hello_refusals_total{reason="timeout"}': 6,
        "loop_lag_seconds": 0.25,
        "loop_lag_max_seconds": 0.5,
    }


async def test_the_histogram_is_cumulative(autojump_clock):
    """A bucket counts all turns up to its bound."""
    async with open_house() as house:
        for seconds in (0.01, 0.02, 3.0, 4000.0):
            house.hub.metrics.turn_ended("done", seconds)
        series = scrape(house.hub)
    assert series['turn_seconds_bucket{le="0.01"}'] == 1
    assert series['turn_seconds_bucket{le="0.05"}'] == 2
    assert series['turn_seconds_bucket{le="5.0"}'] == 3
    assert series['turn_seconds_bucket{le="1800.0"}'] == 3
    assert series['turn_seconds_bucket{le="+Inf"}'] == 4
    assert series["turn_seconds_count"] == 4
    assert series["turn_seconds_sum"] == 4003.03
    assert series['turns_total{outcome="done"}'] == 4


async def test_nothing_tells_who_said_what(autojump_clock):
    """D39: no device, token or text is in the figures, and a peer cannot add a series."""
    async with open_house() as house:
        before = scrape(house.hub).keys()
        peer = await house.connect("secret-device")
        await peer.send({"t": "made-up", "id": "secret-id"})
        await peer.say("m1", "/ask secret-question | secret-choice")
        card = await peer.expect("prompt")
        await peer.send({"t": "prompt", "prompt_id": card["id"], "option_id": "secret-option"})
        await peer.say("m2", "secret-answer")
        await peer.expect("message")
        series = scrape(house.hub)
    assert series.keys() == before
    assert "secret" not in "".join(series)
    assert series['frames_total{direction="in",type="unknown"}'] == 1


async def test_the_page_for_operators_lists_every_metric(autojump_clock):
    """`docs/http.md` has each name with its labels, and no other."""
    async with open_house() as house:
        text = exposition.write(house.hub, LoopLag()).decode()
    shown: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("hermes_mobile_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            shown[name] = labels
    rows = re.findall(r"^\| `(hermes_mobile_\w+)` \| (.*?) \|", DOCS.read_text(), re.MULTILINE)
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == shown
