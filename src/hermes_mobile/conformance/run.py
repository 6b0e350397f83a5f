"""A run: find out what can be played here, play it, and keep the verdicts."""

from __future__ import annotations

import re
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import trio
from attrs import frozen

from hermes_mobile.conformance import playback, shapes
from hermes_mobile.conformance.difference import Difference, Frame, contains
from hermes_mobile.conformance.scenario import NEEDS, Scenario, Skip, declared_in
from hermes_mobile.conformance.scenarios import (
    cards,
    delivery,
    downloads,
    handshake,
    repeats,
    replies,
    returning,
    transport,
    turns,
    uploads,
)
from hermes_mobile.conformance.shapes import Shapes
from hermes_mobile.conformance.stage import open_stage
from hermes_mobile.conformance.websocket import NoServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hermes_mobile.conformance.connection import Connection
    from hermes_mobile.conformance.stage import Stage
    from hermes_mobile.conformance.target import Target

MODULES: Final = (
    *(handshake, transport, turns, replies, downloads),
    *(uploads, cards, repeats, delivery, returning),
)
DEMO_COMMANDS: Final = frozenset(
    {
        *("/long", "/stream", "/think", "/run", "/confirm", "/ask", "/fail", "/file", "/link"),
        *("/image", "/voice", "/video", "/document", "/animation"),
    }
)
SETTLE_SECONDS: Final = 1.5
"""In which a server confirms what it kept for a device; ours asks 1 s after the last write."""
SCENARIO_SECONDS: Final = 60.0
"""For one scenario, beside the time that it lets pass: a bound for what no other bound ends."""


class Outcome(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    SKIPPED = "skipped"


@frozen
class Verdict:
    """What came of one scenario; a skipped one says why in `reason`."""

    scenario: Scenario
    outcome: Outcome
    seconds: float
    expected: str = ""
    got: str = ""
    reason: str = ""


class RefusedError(Exception):
    """The server does not take the token."""


def catalogue() -> list[Scenario]:
    """All there is, in the order in which it is told."""
    return [
        *playback.of_all_vectors(),
        *(scenario for module in MODULES for scenario in declared_in(module)),
        *shapes.of_all_frames(),
    ]


async def run(
    target: Target,
    scenarios: Sequence[Scenario],
    *,
    jobs: int,
    told: Callable[[Verdict], None],
) -> list[Verdict]:
    """Play `scenarios`, `jobs` at a time; their verdicts in the same order. `told` gets each at once.

    One device stays connected all the while: an address with a live session is slowed down for its
    failures, never shut out (D37).

    *Errors*: NoServerError, RefusedError.
    """
    heard = Shapes()
    async with open_stage(target, heard) as stage:
        able = await find_out(stage)
        verdicts: dict[Scenario, Verdict] = {}
        bound_device = trio.Lock()

        async def work(scenarios: Iterator[Scenario]) -> None:
            for scenario in scenarios:
                async with bound_device if "bound" in scenario.needs else nullcontext():
                    verdicts[scenario] = await judge(scenario, target, heard, able)
                told(verdicts[scenario])

        first = iter([scenario for scenario in scenarios if not scenario.comes_last])
        async with trio.open_nursery() as nursery:
            for _ in range(jobs):
                nursery.start_soon(work, first)
        await work(iter([scenario for scenario in scenarios if scenario.comes_last]))
    return [verdicts[scenario] for scenario in scenarios]


async def judge(scenario: Scenario, target: Target, heard: Shapes, able: frozenset[str]) -> Verdict:
    """Play one scenario. Whatever goes wrong in it is a difference: the server is what varies."""
    started = trio.current_time()

    def verdict(outcome: Outcome, **why: str) -> Verdict:
        return Verdict(scenario, outcome, trio.current_time() - started, **why)

    if missing := sorted(scenario.needs - able):
        return verdict(Outcome.SKIPPED, reason=NEEDS[missing[0]])
    limit = SCENARIO_SECONDS + target.patience
    try:
        with trio.fail_after(limit):
            async with open_stage(target, heard, able) as stage:
                if "bound" in scenario.needs:
                    await settle_bound_device(stage)
                await scenario.play(stage)
    except Skip as skip:
        return verdict(Outcome.SKIPPED, reason=str(skip))
    except Difference as difference:
        return verdict(Outcome.DIFFERS, expected=difference.expected, got=difference.got)
    except NoServerError as error:
        return verdict(Outcome.DIFFERS, expected="a connection", got=str(error))
    except trio.TooSlowError:
        return verdict(Outcome.DIFFERS, expected=f"an end within {limit:g} s", got="none")
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        # A field of a wrong type trips the scenario; `shapes` has it word for word.
        got = f"something that cannot be worked with: {type(error).__name__}"
        return verdict(Outcome.DIFFERS, expected="frames of the right shape", got=got)
    return verdict(Outcome.AGREES)


async def find_out(stage: Stage) -> frozenset[str]:
    """Which of the `NEEDS` are met. *Errors*: NoServerError, RefusedError."""
    target = stage.target
    able = {"time"}
    if target.allow_list:
        await stage.open()  # that there is a server
        return frozenset(able | {"allowed"})
    try:
        witness = await join_as_witness(stage)
        asked = await stage.join("asked", receipts=True)
    except Difference as difference:
        raise NoServerError(f"hello is answered with {difference.got}") from difference
    able |= {"devices"} | set(told_of(target))
    if contains(asked.ready, {"capabilities": {"receipts": True}}):
        able.add("receipts")
    able.add("may deliver" if await may_deliver(witness, stage) else "remote")
    if await is_demo_agent(witness):
        able.add("demo")
    return frozenset(able)


async def join_as_witness(stage: Stage) -> Connection:
    """The device that stays. *Errors*: Difference, RefusedError."""
    witness = await stage.hello("witness")
    first = await witness.receive("ready")
    if contains(first, {"t": "error"}) and isinstance(first, Frame):
        raise RefusedError(f"the server refuses the token: {first['code']}")
    if not contains(first, {"t": "ready"}):
        raise Difference("ready", first)
    return witness


def told_of(target: Target) -> Iterable[str]:
    """What whoever plays knows of how the server is set up."""
    if target.other_token:
        yield "other"
    if target.bound_token:
        yield "bound"
    if target.deliver_token and not target.home_device:
        yield "deliver"


async def may_deliver(witness: Connection, stage: Stage) -> bool:
    """Deliver to nobody, and see whether that was allowed (D26)."""
    nobody = f"mobile:{stage.device('nobody')}"
    await witness.send({"t": "deliver", "id": "d1", "target": nobody, "text": "is anybody there?"})
    try:
        answer = (await witness.receive_until("error"))[-1]
    except Difference:
        return False
    return bool(answer["code"] == "device_offline")


async def is_demo_agent(witness: Connection) -> bool:
    """Ask for help, as only the demo agent gives it, and say something that it echoes."""
    try:
        await witness.say("/help")
        if not set(re.findall(r"^/\w+", await witness.reply(), re.MULTILINE)) >= DEMO_COMMANDS:
            return False
        await witness.say("is this an echo?")
        return await witness.reply() == "is this an echo?"
    except Difference:
        return False


async def settle_bound_device(stage: Stage) -> None:
    """Take what the one device that cannot be new was left with, and confirm it (D32)."""
    target = stage.target
    hello = {"t": "hello", "token": target.bound_token, "device": {"id": target.bound_device}}
    connection = await stage.connect(hello)
    await connection.expect("ready")
    with trio.move_on_after(SETTLE_SECONDS):
        await connection.was_pinged.wait()
    await connection.leave()
