"""The alerts and the dashboard of `docs/deploy`: they ask for what the server tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hermes_mobile.http import exposition
from hermes_mobile.http.lag import LoopLag
from house import open_house

DEPLOY = Path(__file__).parents[1] / "docs" / "deploy"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_PROMETHEUS = {"up": {"job": set(), "instance": set()}}
"""What Prometheus knows by itself."""
ADDED = {"job", "instance"}
"""The labels that it adds to each series."""

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool here: apt-get install prometheus"
)


def expressions() -> dict[str, str]:
    """Every expression, by what it is for."""
    asked = {rule["alert"]: rule["expr"] for rule in RULES}
    for panel in PANELS:
        for target in panel["targets"]:
            asked[f"{panel['title']} {target['refId']}"] = target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric = variable["query"]["query"].removeprefix("label_values(")
            asked[variable["name"]] = metric.rpartition(",")[0]
    return asked


EXPRESSIONS = expressions()


async def exposed() -> dict[str, dict[str, set[str]]]:
    """Every series that a new server shows: its name, its labels, their values."""
    async with open_house() as house:
        text = exposition.write(house.hub, LoopLag()).decode()
    series: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series[sample.name].update()
            for label, value in sample.labels.items():
                series[sample.name][label].add(value)
    return series


@pytest.mark.parametrize("name", EXPRESSIONS)
async def test_what_is_asked_for_is_exposed(autojump_clock, name):
    """Each metric is there under this name, with these labels, which have these values."""
    series = await exposed() | OF_PROMETHEUS
    expression = re.sub(r"\b(by|on|without|group_left) ?\([^)]*\)", "", EXPRESSIONS[name])
    asked = re.findall(r"\b((?:hermes_mobile|process)_\w+|up)\b(?:\{(.*?)\})?", expression)
    assert asked
    for metric, matchers in asked:
        assert metric in series
        for label, operator, pattern in re.findall(r'(\w+)(=~|!~|!=|=)"(.*?)"', matchers):
            if label in ADDED:
                continue
            values = {pattern} if operator in {"=", "!="} else set(pattern.split("|"))
            assert values <= series[metric][label], (metric, label)


def test_each_alert_says_what_is_wrong() -> None:
    """In a sentence for whoever is woken, with a severity; no name is used twice."""
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 10
    for rule in RULES:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"].endswith(".")
        assert "$labels.instance" in rule["annotations"]["summary"]


def test_the_dashboard_can_be_imported() -> None:
    """Each panel has an id of its own, a place of its own, a title, a unit and the chosen source."""
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert target["expr"].count('job="$job", instance=~"$instance"')


# With promtool, which comes with Prometheus

WELL: dict[str, str] = {
    "up": "1x60",
    "process_start_time_seconds": "100x60",
    "process_open_fds": "500x60",
    "process_max_fds": "65536x60",
    'hermes_mobile_build_info{version="1"}': "1x60",
    "hermes_mobile_loop_lag_seconds": "0.001x56 0.9 0.001x3",
    'hermes_mobile_turns_total{outcome="done"}': "0+30x60",
    'hermes_mobile_turns_total{outcome="failed"}': "0+1x60",
    "hermes_mobile_messages_waiting": "3x60",
    "hermes_mobile_units_dropped_total": "7x60",
    "hermes_mobile_received_failed_total": "7x60",
    'hermes_mobile_wakes_total{outcome="failed"}': "0+1x60",
    'hermes_mobile_wakes_total{outcome="done"}': "0+1x60",
    'hermes_mobile_hello_refusals_total{reason="auth_failed"}': "0+9x60",
    'hermes_mobile_hello_refusals_total{reason="throttled"}': "0x60",
    'hermes_mobile_hello_refusals_total{reason="pending"}': "7x60",
    "hermes_mobile_tasks": "2000x60",
    "hermes_mobile_connections_open": "300x60",
    'hermes_mobile_sessions{state="connected"}': "290x60",
    'hermes_mobile_sessions{state="away"}': "10x60",
}
"""The series of a server that is well and busy, over an hour: start+step x count, a value a minute."""
TROUBLE: dict[str, dict[str, str]] = {
    "HermesMobileDown": {"up": "0x60"},
    "HermesMobileRestartsOften": {"process_start_time_seconds": "100+600x60"},
    "HermesMobileLoopLags": {"hermes_mobile_loop_lag_seconds": "0.75x60"},
    "HermesMobileTurnsFail": {'hermes_mobile_turns_total{outcome="failed"}': "0+10x60"},
    "HermesMobileAgentStuck": {
        'hermes_mobile_turns_total{outcome="done"}': "7x60",
        'hermes_mobile_turns_total{outcome="failed"}': "7x60",
    },
    "HermesMobileUnitsDropped": {"hermes_mobile_units_dropped_total": "0+1x60"},
    "HermesMobileFilesNotKept": {"hermes_mobile_received_failed_total": "0+1x60"},
    "HermesMobileWakeFails": {'hermes_mobile_wakes_total{outcome="done"}': "7x60"},
    "HermesMobileTokensGuessed": {
        'hermes_mobile_hello_refusals_total{reason="throttled"}': "0+40x60"
    },
    "HermesMobileTooManyStrangers": {
        'hermes_mobile_hello_refusals_total{reason="pending"}': "0+1x60"
    },
    "HermesMobileDescriptorsShort": {"process_max_fds": "600x60"},
    "HermesMobileTasksLeak": {"hermes_mobile_tasks": "6000x60"},
}
"""What is different with a server that has one trouble."""


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def raised(trouble: dict[str, str], alerts: set[str]) -> dict[str, Any]:
    """A test for promtool: with this trouble it is these alerts that are raised, and no others."""
    return {
        "interval": "1m",
        "input_series": [
            {"series": of_one_server(name), "values": values}
            for name, values in (WELL | trouble).items()
        ],
        "promql_expr_test": [
            {
                "expr": f"count({rule['expr']})",
                "eval_time": "59m",
                "exp_samples": [{"labels": "{}", "value": 1}] if rule["alert"] in alerts else [],
            }
            for rule in RULES
        ],
    }


def of_one_server(series: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    both = ['job="hermes-mobile"', 'instance="a"', *filter(None, [labels])]
    return f"{name}{{{', '.join(both)}}}"


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_alerts() -> None:
    """`promtool check rules` takes the file as it is."""
    checked = promtool("check", "rules", DEPLOY / "alerts.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout


@needs_promtool
def test_an_alert_is_raised_by_its_trouble_alone(tmp_path) -> None:
    """A server that is well raises none, and each trouble its own."""
    assert TROUBLE.keys() == {rule["alert"] for rule in RULES}
    cases = [raised({}, set()), *(raised(each, {alert}) for alert, each in TROUBLE.items())]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [], "tests": cases}))  # JSON is YAML
    tested = promtool("test", "rules", file)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@needs_promtool
def test_promtool_can_read_the_dashboard(tmp_path) -> None:
    """Every expression of a panel parses, once Grafana has put in what is chosen."""
    chosen = {"$job": "j", "$instance": "i", "$__rate_interval": "5m"}
    rules = []
    for number, expression in enumerate(EXPRESSIONS.values()):
        for variable, value in chosen.items():
            expression = expression.replace(variable, value)  # noqa: PLW2901 - one at a time
        rules.append({"record": f"panel:{number}", "expr": expression})
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = promtool("check", "rules", file)
    assert checked.returncode == 0, checked.stdout + checked.stderr
