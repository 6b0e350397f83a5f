"""An agent that is a program of its own and dials in: turns, and cards, outlive its connections."""

from __future__ import annotations

from collections import deque
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Self

import trio

from hermes_mobile import __version__
from hermes_mobile.agents import Agent, FileInput, VoiceInput
from hermes_mobile.agents.link.messages import Cancel, Farewell, Ready
from hermes_mobile.agents.link.peer import Peer
from hermes_mobile.agents.link.talk import Talk
from hermes_mobile.protocol.frames import MediaIn

if TYPE_CHECKING:
    from hermes_mobile.agents import AgentSettings, Conversations, DeviceState, Turn
    from hermes_mobile.agents.link.line import Line
    from hermes_mobile.agents.link.messages import Goodbye, Hello


class AgentAwayError(Exception):
    """No agent came within the time that a message waits for one."""


class TurnLostError(Exception):
    """The agent that worked on the turn is gone, or could not."""


class Work:
    """A turn, from when the server begins it until it is over."""

    def __init__(self, id: str, turn: Turn, talk: Talk) -> None:
        self.id = id
        self.turn = turn
        self.talk = talk
        self.taken = False
        """It left the line, for an agent."""
        self.begun = False
        """An agent has all of it."""
        self.lost = False
        self.patience = trio.CancelScope()
        """Ends when no agent was there for too long."""

    @property
    def kind(self) -> MediaIn | None:
        """The kind of file that the agent has to take; None for a text."""
        match self.turn.input:
            case FileInput(kind=kind):
                return kind
            case VoiceInput():
                return MediaIn.AUDIO
            case _:
                return None

    def lose(self) -> None:
        """Nobody will work on it: its message can be sent again."""
        self.lost = True
        self.talk.over = True
        self.patience.cancel()


class LinkAgent(Agent):
    """Whoever dialled in last. `wait`: seconds that turns wait while nobody is there."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._ids = (f"{token_hex(4)}-{number}" for number in count(1))
        self._works: dict[str, Work] = {}
        self._line_of_turns: deque[Work] = deque()
        self._taken = 0  # turns that left the line and are not over
        self._line_moved = trio.lowlevel.ParkingLot()
        self._peer: Peer | None = None
        self._last_link = ""

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> Self:
        return cls(settings.wait)

    @property
    def ready(self) -> bool:
        return self._peer is not None

    def device_changed(self, device: DeviceState) -> None:
        if self._peer is not None:
            self._peer.device_changed(device)

    # Turns

    async def handle(self, turn: Turn) -> None:
        """Let the agent that is there, or that comes in time, work on `turn`.

        *Cancellation*: it is told. *Errors*: AgentAwayError, TurnLostError.
        """
        async with trio.open_nursery() as nursery:
            work = Work(next(self._ids), turn, Talk(turn, nursery, lambda: self._peer, turn=turn))
            self._works[work.id] = work
            self._line_of_turns.append(work)
            self._line_moved.unpark_all()
            try:
                with work.patience:
                    work.patience.deadline = self._patience
                    await work.talk.ended.wait()
            finally:
                self._over(work)
                nursery.cancel_scope.cancel()
                await work.talk.finish_streams()
        if work.talk.outcome is None and not work.lost:
            raise AgentAwayError
        if work.talk.outcome is None or work.talk.outcome.failed:
            raise TurnLostError

    def _over(self, work: Work) -> None:
        del self._works[work.id]
        if work.taken:
            self._taken -= 1
        else:
            self._line_of_turns.remove(work)
        self._line_moved.unpark_all()
        work.talk.close(None if work.lost else self._peer)
        if work.taken and not work.lost and work.talk.outcome is None and self._peer is not None:
            self._peer.tell(Cancel(work.id))

    @property
    def _patience(self) -> float:
        """Until when turns wait, as things are: without end while an agent is there."""
        return trio.current_time() + self._wait if self._peer is None else float("inf")

    async def next_work(self, limit: int) -> Work:
        """The turn that waits longest, once fewer than `limit` are worked on."""
        while not self._line_of_turns or self._taken >= limit:
            await self._line_moved.park()
        work = self._line_of_turns.popleft()
        work.taken = True
        self._taken += 1
        return work

    def take_back(self, work: Work) -> None:
        """`work` reached no agent: it is the next one's."""
        if work.id in self._works:
            work.taken = False
            self._taken -= 1
            self._line_of_turns.appendleft(work)
            self._line_moved.unpark_all()

    def began(self, work: Work, peer: Peer) -> None:
        """`peer` has all of `work`."""
        work.begun = True
        if peer is not self._peer:
            work.lose()  # it left meanwhile, and the next one knows nothing of it

    def talk(self, turn: str) -> Talk | None:
        """The conversation of a turn that an agent was given and that is not over.

        An agent may answer before the task goes on that wrote the turn.
        """
        work = self._works.get(turn)
        if work is None or not work.taken or work.talk.ended.is_set():
            return None
        return work.talk

    @property
    def talks(self) -> list[Talk]:
        return [work.talk for work in self._works.values()]

    # Agents come and go

    async def serve(self, line: Line, hello: Hello, conversations: Conversations) -> Goodbye | None:
        """Serve the agent on `line`, which takes over from the one before, until it is gone.

        Returns why the server ended it; None when the agent left.
        """
        peer = Peer(self, line, hello)
        ready = self._welcome(peer)
        await peer.serve(ready, conversations)
        return peer.goodbye

    def _welcome(self, peer: Peer) -> Ready:
        if self._peer is not None:
            self._peer.end(Farewell.REPLACED, "another agent took over")
        begun = [work for work in self._works.values() if work.begun]
        resumed = bool(self._last_link) and peer.hello.resume == self._last_link
        if not resumed:
            for work in begun:
                work.lose()
            begun = []
        self._last_link = token_hex(8)
        self._peer = peer
        self.mode = peer.hello.mode
        self.takes = peer.hello.takes
        self._have_patience()
        return Ready(
            self._last_link,
            resumed=resumed,
            turns=tuple(work.id for work in begun),
            asks=tuple(ask for work in begun for ask in work.talk.asks),
            server=f"hermes-mobile {__version__}",
        )

    def peer_left(self, peer: Peer) -> None:
        """`peer` takes nothing more."""
        for talk in self.talks:
            talk.peer_left(peer)
        if self._peer is peer:
            self._peer = None
            self._have_patience()

    def _have_patience(self) -> None:
        for work in self._works.values():
            if not work.lost:
                work.patience.deadline = self._patience

    def end(self, code: Farewell, message: str) -> None:
        """End the link with the agent that is there."""
        if self._peer is not None:
            self._peer.end(code, message)
