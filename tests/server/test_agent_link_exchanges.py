"""The agent link as data: the exchanges of `agent-link-exchanges.json`, against the server."""

import json
from typing import Any

import pytest
import trio
import trio.testing

from hermes_mobile.agents.link import LinkAgent
from hermes_mobile.conformance.vectors import read, spell_out
from house import NEVER, House, Peer, open_house
from link import WAIT, Dialler

TOKEN = "the-token-of-the-agent"
TOKENS = {"$token": TOKEN, "$wrong": "none-of-the-servers"}
ON_APPS = {"shown", "shown_nothing"}


class Stage:
    """Everybody of an exchange: agents `a` and `b`, and apps by their devices."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.agents: dict[str, Dialler] = {}
        self.apps: dict[str, Peer] = {}
        self.names: dict[str, str] = {}

    async def play(self, step: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - one case per step
        step = dict(step)
        who = step.pop("on", "tel-1" if ON_APPS & step.keys() else "a")
        match step:
            case {"dial": hello}:
                self.agents[who] = Dialler(self.house)
                await self.agents[who].send(self.filled(hello))
            case {"agent": message}:
                raw = f"{message}\n".encode() if isinstance(message, str) else None
                await self.agents[who].send(raw or self.filled(message))
            case {"told": expected}:
                self.match(await self.hear(who, expected["t"]), expected)
            case {"told_both": expected}:
                heard = [await self.hear(who, "") for _ in expected]
                heard.sort(key=lambda message: [message["t"] != each["t"] for each in expected])
                for message, each in zip(heard, expected, strict=True):
                    self.match(message, each)
            case {"break": True}:
                await self.agents[who].crash()
            case {"closed": True}:
                assert await self.agents[who].rest() == []
            case {"connect": device}:
                self.apps[device] = await self.house.connect(device)
            case {"leave": device}:
                await self.house.lose(self.apps.pop(device))
            case {"app": frame}:
                await self.apps["tel-1"].send(self.filled(frame))
                await trio.testing.wait_all_tasks_blocked()
            case {"shown": expected}:
                self.match(await self.see(who), expected)
            case {"shown_nothing": True}:
                frames = await self.apps[who].drain()
                assert [frame for frame in frames if frame["t"] not in {"avatar", "typing"}] == []
            case {"pass": seconds}:
                await trio.sleep(seconds)
                await trio.testing.wait_all_tasks_blocked()
            case {"stop": True}:
                await self.house.stop()
            case _:
                raise AssertionError(step)

    async def hear(self, who: str, wanted: str) -> dict[str, Any]:
        """The next message to an agent; of devices only where that is wanted."""
        while True:
            message = await self.agents[who].receive()
            assert message is not None, f"closed before {wanted}"
            if message["t"] != "device" or (wanted == "device" and message["device"] != "tel-1"):
                return message

    async def see(self, who: str) -> dict[str, Any]:
        """The next frame to an app that is more than a passing state."""
        while True:
            frame = await self.apps[who].receive()
            assert frame is not None
            if frame["t"] not in {"avatar", "typing"}:
                return frame

    def filled(self, value: Any) -> Any:
        match value:
            case {"$name": name}:
                return self.names[name]
            case dict():
                return {key: self.filled(inner) for key, inner in value.items()}
            case _:
                return value

    def match(self, actual: Any, expected: Any) -> None:
        """`actual` has at least what is expected; a name takes what stands where it is new."""
        match expected:
            case {"$name": name}:
                assert self.names.setdefault(name, actual) == actual
            case dict():
                for key, inner in expected.items():
                    assert key in actual, (key, actual)
                    self.match(actual[key], inner)
            case list():
                assert len(actual) == len(expected)
                for one, other in zip(actual, expected, strict=True):
                    self.match(one, other)
            case _:
                assert actual == expected


@pytest.mark.parametrize(
    "exchange", read("agent-link-exchanges.json"), ids=lambda exchange: exchange["name"]
)
async def test_exchange(exchange: dict[str, Any], autojump_clock: trio.testing.MockClock) -> None:
    """The server does what the exchange says, and has nothing more to say in the end."""
    token = TOKEN if "token" in exchange.get("needs", ()) else None
    async with open_house(
        LinkAgent(WAIT), agent_token=token, shutdown_grace=1, ping_interval=NEVER
    ) as house:
        stage = Stage(house)
        stage.apps["tel-1"] = await house.connect("tel-1")
        for step in json.loads(json.dumps(spell_out(exchange["steps"], TOKENS))):
            await stage.play(step)
