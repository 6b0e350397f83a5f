"""What holds of the agent link however an agent asks, a phone takes, and a person stops."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.agents import Answer, TextInput
from hermes_mobile.agents.link import LinkAgent
from hermes_mobile.agents.link.messages import Hello
from hermes_mobile.agents.link.talk import REQUESTS_OPEN
from hermes_mobile.testing import FakeTurn
from link import MemoryLine

DEVICES = ("a", "b")


class SlowConversation(FakeTurn):
    """Says something only when there is room."""

    def __init__(self, device_id: str) -> None:
        super().__init__(TextInput("m", "text"), device_id=device_id)
        self.room = trio.Semaphore(0)

    async def reply(self, text: str) -> str:
        await self.room.acquire()
        return await super().reply(text)

    async def ask(self, question: str, choices: object = (), *, ttl: object = None) -> Answer:
        await self.room.acquire()
        return Answer("other", question)


class Conversations:
    """One slow conversation with each device, outside of turns."""

    connected_devices = ()

    def __init__(self) -> None:
        self.with_device = {device: SlowConversation(device) for device in DEVICES}

    def conversation(self, device_id: str) -> SlowConversation:
        return self.with_device[device_id]


class Scene:
    """An agent that is linked, a turn that it works on, and everything that came of it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.line = MemoryLine()
        self.agent = LinkAgent(60)
        self.conversations = Conversations()
        self.turn = SlowConversation("phone")
        self.scope = trio.CancelScope()
        self.turn_id = ""
        self.asked: list[tuple[str, str]] = []
        """Place and id of every request, in their order."""
        self.heard: list[dict[str, Any]] = []

    async def begin(self) -> None:
        self._nursery.start_soon(self.agent.serve, self.line, Hello(), self.conversations)
        self._nursery.start_soon(self._work)
        assert (await self.line.hear.receive())["t"] == "ready"
        self.turn_id = (await self.line.hear.receive())["turn"]

    async def _work(self) -> None:
        with self.scope:
            await self.agent.handle(self.turn)

    async def do(self, step: tuple[str, str, int]) -> None:
        """One step of any of the three."""
        match step:
            case "say", place, count:
                for _ in range(count):
                    self._request(place, t="reply")
            case "ask", place, count:
                for _ in range(count):
                    self._request(place, t="ask", kind="clarify")
            case "end", _, _:
                end = json.dumps({"t": "end", "turn": self.turn_id})
                self.line.say.send_nowait(end.encode())
            case "room", place, count:
                conversation = self.conversations.with_device.get(place, self.turn)
                for _ in range(count):
                    conversation.room.release()
            case "hear", _, count:
                await self.listen(count)
            case "stop", _, _:
                self.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

    def _request(self, place: str, **fields: str) -> None:
        request = str(len(self.asked))
        self.asked.append((place, request))
        where = {"turn": self.turn_id} if place == "turn" else {"device": place}
        self.line.say.send_nowait(
            json.dumps({"id": request, "text": request, **where, **fields}).encode()
        )

    async def listen(self, count: float = inf) -> None:
        """Hear as many messages as there are, at most `count`."""
        with trio.move_on_after(1):
            while len(self.heard) < count or count == inf:
                self.heard.append(await self.line.hear.receive())


@asynccontextmanager
async def scene():
    async with trio.open_nursery() as nursery:
        made = Scene(nursery)
        await made.begin()
        yield made
        nursery.cancel_scope.cancel()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from(("turn", *DEVICES)), st.integers(1, 20)),
        st.tuples(st.just("ask"), st.sampled_from(("turn", *DEVICES)), st.integers(1, 3)),
        st.tuples(st.just("room"), st.sampled_from(("turn", *DEVICES)), st.integers(1, 20)),
        st.tuples(st.just("hear"), st.just(""), st.integers(1, 60)),
        st.tuples(st.sampled_from(("stop", "end")), st.just(""), st.just(0)),
    ),
    max_size=12,
)


@given(steps)
def test_each_request_has_one_answer_and_its_place_an_order(
    doing: list[tuple[str, str, int]],
) -> None:
    """Every request gets exactly one answer; what is said in a place keeps its order, and is bounded."""

    async def play() -> None:
        async with scene() as played:
            for step in doing:
                await played.do(step)
                check_bounds(played)
            for conversation in (played.turn, *played.conversations.with_device.values()):
                for _ in range(1000):
                    conversation.room.release()
            await played.listen()
            check(played)
            assert played.agent._peer._bytes == 0

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


def check_bounds(played: Scene) -> None:
    """Nothing waits beyond the bound, whoever does not hear or take."""
    assert played.agent.talks == [] or len(played.agent.talks[0]._open) <= REQUESTS_OPEN


def check(played: Scene) -> None:
    answers = [message for message in played.heard if message["t"] in {"done", "error"}]
    assert Counter(each["id"] for each in answers) == Counter(
        request for _, request in played.asked
    )
    replies = {each["id"] for each in answers if "option" not in each}
    done = {each["id"] for each in answers if each["t"] == "done"}
    assert {each["code"] for each in answers if each["t"] == "error"} <= {"busy", "turn_over"}
    by_place: dict[str, list[str]] = defaultdict(list)
    for place, request in played.asked:
        if request in done and request in replies:
            by_place[place].append(request)
    for place, ids in by_place.items():
        conversation = played.conversations.with_device.get(place, played.turn)
        said = [record.text for record in conversation.said]
        assert [request for request in said if request in done] == ids
        assert len(said) - len(ids) <= (place == "turn")
