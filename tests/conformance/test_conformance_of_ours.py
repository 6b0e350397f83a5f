"""Our own server is held to every scenario of the conformance suite, on virtual time."""

from __future__ import annotations

import pytest
from attrs import frozen
from trio.testing import MockClock

from hermes_mobile.conformance.run import Outcome, catalogue, judge, run
from hermes_mobile.conformance.scenario import NEEDS
from hermes_mobile.conformance.shapes import Shapes
from hermes_mobile.conformance.target import Target
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES
from hermes_mobile.server.values import Token
from house import TOKEN, House, open_house

SETTINGS = {
    "extra_tokens": (Token("bound-token", "tablet-1"), Token("other-token")),
    "deliver_tokens": frozenset({"deliver-token"}),
}
TOLD = {
    "other_token": "other-token",
    "bound_token": "bound-token",
    "bound_device": "tablet-1",
    "deliver_token": "deliver-token",
}
OTHER_SETTINGS = {"allowed", "remote"}
"""What takes a server that is set up in another way."""


@frozen
class Plug:
    """A server in this process."""

    house: House
    host: str = "test"
    path: str = "/ws"

    async def __call__(self):
        return self.house.plug().stream


@pytest.fixture
def clock(monkeypatch):
    """Virtual time, of which a worker thread that hashes a large file would know nothing."""
    monkeypatch.setattr("hermes_mobile.agents.demo.HASHED_INLINE_BYTES", MAX_MEDIA_BYTES)
    return MockClock(autojump_threshold=0)


def target(house, **fields):
    return Target(dial=Plug(house), token=TOKEN, patience=1000.0, **fields)


def scenarios():
    return [
        pytest.param(scenario, id=str(scenario))
        for scenario in catalogue()
        if not (scenario.comes_last or scenario.needs & OTHER_SETTINGS)
    ]


def differing(verdicts):
    return [verdict for verdict in verdicts if verdict.outcome is Outcome.DIFFERS]


def outcomes(verdicts):
    return {str(verdict.scenario): verdict.outcome for verdict in verdicts}


@pytest.mark.parametrize("scenario", scenarios())
async def test_our_server_agrees(scenario, clock):
    """Each scenario, the ones that take minutes included, finds what the protocol says."""
    heard = Shapes()
    async with open_house(**SETTINGS) as house:
        able = frozenset(NEEDS) - OTHER_SETTINGS
        verdict = await judge(scenario, target(house, **TOLD), heard, able)
    assert (verdict.expected, verdict.got, verdict.reason) == ("", "", "")
    assert verdict.outcome is Outcome.AGREES
    assert heard.faults == {}


async def test_a_run_finds_out_what_can_be_played(clock):
    """Without other tokens, only what needs one is skipped; a loopback peer may deliver (D26)."""
    chosen = [
        scenario
        for scenario in catalogue()
        if scenario.group in {"exchanges", "delivery", "shapes"} and "MiB" not in scenario.name
    ]
    told = []
    async with open_house() as house:
        verdicts = await run(target(house), chosen, jobs=4, told=told.append)
    assert differing(verdicts) == []
    assert [verdict.scenario for verdict in verdicts] == chosen
    assert set(map(id, told)) == set(map(id, verdicts))
    skipped = {verdict.reason for verdict in verdicts if verdict.outcome is Outcome.SKIPPED}
    missing = {"other", "bound", "deliver", "allowed", "remote"}
    assert skipped == {NEEDS[need] for need in missing}
    assert outcomes(verdicts)["delivery/a text and a file arrive"] is Outcome.AGREES


async def test_a_peer_without_the_right_to_deliver(clock):
    """D26: it is refused, and what needs the right is skipped."""
    chosen = [scenario for scenario in catalogue() if scenario.group in {"exchanges", "delivery"}]
    chosen = [scenario for scenario in chosen if "deliver" in scenario.name]
    async with open_house(deliver_loopback=False) as house:
        verdicts = await run(target(house), chosen, jobs=4, told=lambda _: None)
    played = [name for name, outcome in outcomes(verdicts).items() if outcome is Outcome.AGREES]
    assert played == ["exchanges/a device may not deliver"]


async def test_an_allow_list(clock):
    """D9: strangers are refused, and no device is made up to find out more."""
    async with open_house(allowed_devices=frozenset({"tel-1"})) as house:
        verdicts = await run(
            target(house, allow_list=True), catalogue(), jobs=4, told=lambda _: None
        )
    assert differing(verdicts) == []
    played = {name for name, outcome in outcomes(verdicts).items() if outcome is Outcome.AGREES}
    assert {name for name in played if not name.startswith("shapes/")} == {
        "exchanges/a device that is not on the allow-list",
        "exchanges/a generated id is not on the allow-list",
    }
