"""The promise (D32): what the agent says reaches the app, in order, or the app is told how much did not.

Hypothesis writes a life: an agent that speaks, and a phone that comes, goes, hangs and comes back. It
is lived in virtual time over real sockets, then a well-behaved app connects and everything is counted.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from math import inf
from typing import Any

import pytest
import trio
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked
from wsproto.events import CloseConnection
from wsproto.utilities import LocalProtocolError

from hermes_mobile.agents import Agent, OutgoingFile, ReplyStream, TextInput, Turn
from hermes_mobile.protocol.frames import MediaOut
from hermes_mobile.protocol.slicing import pieces
from hermes_mobile.server.units import NoticeUnit
from house import open_house
from screen import App, Line

BOUNDS = {
    "keep_units": 6,
    "keep_bytes": 60_000,
    "keep_seconds": 100.0,
    "outbox_frames": 8,
    "outbox_bytes": 60_000,
    "media_chunk_bytes": 4096,
}
"""Small, so that every bound is met within a few steps."""
STOPPED = ("Nothing to stop.", "Stopped: ")
"""How the answers to `/stop` begin."""


class Echo(Agent):
    """Answers with what it was sent, and takes note of what it said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def handle(self, turn: Turn) -> None:
        assert isinstance(turn.input, TextInput)
        await turn.reply(turn.input.text)
        self.said.append(turn.input.text)


class World:
    """A phone, the server, and an agent with one mouth."""

    def __init__(self, house: Any, agent: Echo, nursery: trio.Nursery) -> None:
        self.house = house
        self.agent = agent
        self.nursery = nursery
        self.app = App()
        self.line: Line | None = None
        self.talk = house.hub.conversation("phone")
        self.said: list[str | bytes] = []
        """The units that the agent made, in order."""
        self.asked: dict[str, bool] = {}
        """The cards that were asked, and whether they ended."""
        self.jobs, self._work = trio.open_memory_channel[Any](1000)
        self.owed = 0
        """Units that are not confirmed at the end."""
        self.stops = 0
        self._stream: ReplyStream | None = None
        self._streamed = ""
        self._places: list[int] = []
        """Where its pieces stand in what was said."""
        self._streams = AsyncExitStack()
        self._names = 0
        nursery.start_soon(self._speak)

    def name(self) -> str:
        self._names += 1
        return f"u{self._names}"

    def words(self, chars: int) -> str:
        """Text of which no two parts are alike."""
        name = self.name()
        return " ".join(f"{name}.{number}" for number in range(chars // 4 + 1))[:chars]

    @property
    def session(self) -> Any:
        return self.house.hub.registry.get("phone")

    # The agent

    async def _speak(self) -> None:
        async for job in self._work:
            await job()

    async def reply(self, text: str) -> None:
        await self.talk.reply(text)
        self.said.append(text)

    async def send_file(self, data: bytes) -> None:
        await self.talk.send_file(OutgoingFile(MediaOut.DOCUMENT, data))
        self.said.append(data)

    async def grow(self, text: str) -> None:
        if self._stream is None:
            self._stream = await self._streams.enter_async_context(self.talk.stream())
            self._streamed = ""
            self._places = []
        self._streamed += text
        await self._stream.append(text)
        self._note_pieces()

    async def end_stream(self) -> None:
        self._stream = None
        await self._streams.aclose()

    def _note_pieces(self) -> None:
        """A stream is the same units as a reply of its text would be, were each piece a reply."""
        for number, piece in enumerate(pieces(self._streamed)):
            if number == len(self._places):
                self._places.append(len(self.said))
                self.said.append(piece)
            else:
                self.said[self._places[number]] = piece

    async def ask(self, text: str, ttl: float) -> None:
        self.asked[text] = False
        await self.talk.ask_confirmation(text, ttl=ttl)
        self.asked[text] = True

    # The phone

    async def connect(self, *, reads: bool, answers_pings: bool) -> None:
        peer = await self.house.connect("phone")
        peer.answers_pings = answers_pings
        if self.line is not None:
            self.line.read(inf)  # the old instance goes on by itself, and nobody sees it any more
        self.line = Line(peer, self.session.connection, inf if reads else 0)
        self.nursery.start_soon(self._listen, self.line)

    async def _listen(self, line: Line) -> None:
        try:
            while (frame := await line.peer.receive()) is not None:
                if self.line is line:
                    self.app.take(frame, line)
        except (trio.BrokenResourceError, trio.ClosedResourceError, LocalProtocolError):
            return  # also where a ping is looked at when the Close behind it was read already

    async def send(self, frame: dict[str, Any]) -> None:
        if self.line is not None:
            with suppress(trio.BrokenResourceError, LocalProtocolError):
                await self.line.peer.send(frame)

    async def settle(self) -> None:
        """Let everything happen that happens at once, and take note of what is confirmed."""
        await wait_all_tasks_blocked()
        line = self.line
        if line is None or self.session is None or self.session.connection is not line.connection:
            return
        if line.notice and not any(isinstance(unit, NoticeUnit) for unit in self.session.mailbox):
            self.app.told += line.notice
            line.notice = 0
        if line.peer.answers_pings and line.peer.pings:
            last = line.peer.pings[-1][0]
            self.app.confirmed |= {unit for unit, at in line.finished.items() if at + 1 <= last}

    async def end(self) -> None:
        """Say the last words, and let a good app hear everything."""
        await Connect().do(self)
        self.jobs.send_nowait(self.end_stream)
        await trio.sleep(10)
        await self.settle()
        self.owed = len(self.session.mailbox)

    def check(self) -> None:
        app = self.app
        assert not self._work.statistics().current_buffer_used, "the agent waits for ever"
        assert not self.owed, "something stays unconfirmed"
        received = [content for unit, content in app.shown.items() if unit in app.whole]
        stopped = [unit for unit in received if isinstance(unit, str) and unit.startswith(STOPPED)]
        received = [unit for unit in received if unit not in stopped]
        made = [*self.said, *self.agent.said]
        assert set(received) <= set(made)
        for speaker in (self.said, self.agent.said):
            mine = set(speaker)
            in_order = [unit for unit in speaker if unit in set(received)]
            assert [unit for unit in received if unit in mine] == in_order, "out of order"
        missing = len(set(made) - set(received))
        shown = set(app.cards.values())
        ended = {app.cards[card] for card in app.ended if card in app.cards}
        open_cards = {text for text, done in self.asked.items() if not done}
        assert open_cards <= shown, "an open card is not shown"
        assert not open_cards & ended, "an open card was ended"
        unended = len({text for text, done in self.asked.items() if done} - ended)
        # What the app got without confirming it, the server may have had to give up all the same.
        doubtful = len(app.whole - app.confirmed) + unended + self.stops - len(stopped)
        assert missing <= app.told <= missing + doubtful, "the notice is wrong"
        if app.told == missing:
            assert shown - ended == open_cards, "a card's end was lost"


# What may happen


@frozen
class Connect:
    """The phone connects; where it was connected, it takes over. The app may hang from the start."""

    reads: bool = True
    answers_pings: bool = True

    async def do(self, world: World) -> None:
        await world.connect(reads=self.reads, answers_pings=self.answers_pings)


@frozen
class Vanish:
    """The phone is gone without a word."""

    async def do(self, world: World) -> None:
        if world.line is not None:
            await world.line.peer.vanish()
            world.line = None


@frozen
class Leave:
    """The phone says goodbye."""

    async def do(self, world: World) -> None:
        if world.line is not None:
            with suppress(trio.BrokenResourceError, LocalProtocolError):
                await world.line.peer.send_event(CloseConnection(1000))
            world.line = None


@frozen
class Blunder:
    """The app announces a frame of 32 MiB: the server closes, once what is queued is written."""

    async def do(self, world: World) -> None:
        if world.line is not None:
            with suppress(trio.BrokenResourceError):
                await world.line.peer.stream.send_all(
                    b"\x82\xff" + (32 << 20).to_bytes(8) + b"mask"
                )


@frozen
class Hang:
    """The app stops reading."""

    async def do(self, world: World) -> None:
        if world.line is not None:
            world.line.reads = 0


@frozen
class Read:
    """The app goes on reading, for a while."""

    events: float

    async def do(self, world: World) -> None:
        if world.line is not None:
            world.line.read(self.events)


@frozen
class Reply:
    chars: int

    async def do(self, world: World) -> None:
        text = world.words(self.chars)
        world.jobs.send_nowait(lambda: world.reply(text))


@frozen
class SendFile:
    size: int

    async def do(self, world: World) -> None:
        data = world.words(self.size).encode()
        world.jobs.send_nowait(lambda: world.send_file(data))


@frozen
class Grow:
    """The stream that is open grows; one is opened where none is."""

    chars: int

    async def do(self, world: World) -> None:
        text = world.words(self.chars)
        world.jobs.send_nowait(lambda: world.grow(text))


@frozen
class EndStream:
    async def do(self, world: World) -> None:
        world.jobs.send_nowait(world.end_stream)


@frozen
class Ask:
    ttl: float

    async def do(self, world: World) -> None:
        world.nursery.start_soon(world.ask, world.name(), self.ttl)


@frozen
class Press:
    """The person answers the oldest card on the screen."""

    async def do(self, world: World) -> None:
        for card in world.app.open_cards[:1]:
            await world.send({"t": "prompt", "prompt_id": card, "option_id": "once"})


@frozen
class Type:
    """The person writes to the agent."""

    async def do(self, world: World) -> None:
        text = world.name()
        await world.send({"t": "text", "id": text, "text": text})


@frozen
class Stop:
    """The person wants it to end; the server says what it did."""

    async def do(self, world: World) -> None:
        world.stops += 1
        await world.send({"t": "text", "id": world.name(), "text": "/stop"})


@frozen
class Wait:
    seconds: float

    async def do(self, world: World) -> None:
        await trio.sleep(self.seconds)


TALK = st.one_of(
    st.builds(Reply, st.sampled_from([10, 1000, 9000])),
    st.builds(Grow, st.sampled_from([10, 1000, 9000])),
    st.builds(EndStream),
    st.builds(SendFile, st.sampled_from([10, 10_000, 50_000])),
    st.builds(Ask, st.sampled_from([5.0, 60.0, 300.0])),
)
LINE = st.one_of(
    st.builds(Connect, st.booleans(), st.sampled_from([True, True, False])),
    st.builds(Vanish),
    st.builds(Leave),
    st.builds(Blunder),
)
APP = st.one_of(
    st.builds(Hang),
    st.builds(Read, st.sampled_from([1, 2, 5, inf])),
    st.builds(Press),
    st.builds(Type),
    st.builds(Stop),
)
TIME = st.builds(Wait, st.sampled_from([0.5, 1.0, 3.0, 31.0, 70.0]))
STEPS = st.one_of(TALK, LINE, APP, TIME)


async def live(steps: list[Any]) -> World:
    agent = Echo()
    async with open_house(agent, **BOUNDS) as house, trio.open_nursery() as nursery:
        house.send_buffer = 4096
        world = World(house, agent, nursery)
        for step in steps:
            await step.do(world)
            await world.settle()
        await world.end()
        nursery.cancel_scope.cancel()
    return world


def keep_promise(steps: list[Any]) -> None:
    trio.run(live, steps, clock=MockClock(autojump_threshold=0)).check()


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25))
def test_what_is_said_arrives_in_order_or_is_counted(steps):
    """D32: over any life, what the agent said arrives whole and in order, or is in the notice."""
    keep_promise(steps)


@pytest.mark.slow
@settings(max_examples=3000)
@given(st.lists(STEPS, max_size=60))
def test_what_is_said_arrives_over_long_lives(steps):
    """D32, as above, over longer lives and many of them."""
    keep_promise(steps)
