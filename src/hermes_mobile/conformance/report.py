"""What a run came to: a table for people, JUnit XML and JSON for machines."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from hermes_mobile import __version__
from hermes_mobile.conformance.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hermes_mobile.conformance.run import Verdict


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """What differs, then how many agree, then what was skipped and why."""
    differing = [verdict for verdict in verdicts if verdict.outcome is Outcome.DIFFERS]
    width = max((len(", ".join(verdict.scenario.rules)) for verdict in differing), default=0)
    for verdict in differing:
        rules = ", ".join(verdict.scenario.rules)
        yield f"differs  {rules:{width}}  {verdict.scenario}"
        yield f"  expected  {verdict.expected}"
        yield f"  got       {verdict.got}"
        yield ""
    counts = Counter(verdict.outcome for verdict in verdicts)
    yield (
        f"{len(verdicts)} scenarios: {counts[Outcome.AGREES]} agree, "
        f"{counts[Outcome.DIFFERS]} differ, {counts[Outcome.SKIPPED]} skipped"
    )
    reasons = Counter(verdict.reason for verdict in verdicts if verdict.reason)
    for reason, count in reasons.most_common():
        yield f"  {count} skipped: {reason}"


def as_json(url: str, verdicts: Sequence[Verdict]) -> str:
    """One object; docs/conformance.md describes it."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    report: dict[str, Any] = {
        "version": __version__,
        "url": url,
        "summary": {outcome: counts[outcome] for outcome in Outcome},
        "results": [
            {
                "group": verdict.scenario.group,
                "name": verdict.scenario.name,
                "rules": verdict.scenario.rules,
                "reference": verdict.scenario.reference,
                "outcome": verdict.outcome,
                "expected": verdict.expected,
                "got": verdict.got,
                "reason": verdict.reason,
                "seconds": round(verdict.seconds, 3),
            }
            for verdict in verdicts
        ],
    }
    return json.dumps(report, indent=1) + "\n"


def as_junit(url: str, verdicts: Sequence[Verdict]) -> str:
    """One suite: a difference is a failure, and what was skipped is skipped."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    totals = {
        "name": f"hermes-mobile conformance {url}",
        "tests": f"{len(verdicts)}",
        "failures": f"{counts[Outcome.DIFFERS]}",
        "errors": "0",
        "skipped": f"{counts[Outcome.SKIPPED]}",
        "time": f"{sum(verdict.seconds for verdict in verdicts):.3f}",
    }
    suite = ET.Element("testsuite", totals)
    for verdict in verdicts:
        scenario = verdict.scenario
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"conformance.{scenario.group}",
            name=scenario.name,
            time=f"{verdict.seconds:.3f}",
        )
        if verdict.outcome is Outcome.DIFFERS:
            message = f"expected {verdict.expected}, got {verdict.got}"
            failure = ET.SubElement(case, "failure", message=message)
            failure.text = ", ".join(scenario.rules)
        elif verdict.outcome is Outcome.SKIPPED:
            ET.SubElement(case, "skipped", message=verdict.reason)
    ET.indent(suite, " ")
    return ET.tostring(suite, encoding="unicode", xml_declaration=False) + "\n"
