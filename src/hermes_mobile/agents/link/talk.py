"""What an agent says in one conversation: its requests, carried out in order."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import trio

from hermes_mobile.agents import TurnError
from hermes_mobile.agents.link.codec import RefusedError
from hermes_mobile.agents.link.line import GoneError
from hermes_mobile.agents.link.messages import (
    Ask,
    Closed,
    Code,
    Done,
    End,
    Refused,
    Reply,
    SendFile,
    StreamState,
    Working,
)
from hermes_mobile.protocol.frames import CardKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from hermes_mobile.agents import Answer, Conversation, ReplyStream, Turn
    from hermes_mobile.agents.link.messages import Said, ServerMessage, Spoken
    from hermes_mobile.agents.link.peer import Peer

REQUESTS_OPEN: Final = 16
"""Requests of one conversation without an answer, cards apart."""
CARDS_OPEN: Final = 64
STREAMS_OPEN: Final = 16
TURN_OVER: Final = "turn: it is over, or was never there"


class Talk:
    """One conversation: `turn`'s, or that with a device outside of any turn.

    `nursery` is where it works. `agent` tells which agent is there: it is told how cards closed.
    """

    def __init__(
        self,
        conversation: Conversation,
        nursery: trio.Nursery,
        agent: Callable[[], Peer | None],
        *,
        turn: Turn | None = None,
    ) -> None:
        self._conversation = conversation
        self._turn = turn
        self._nursery = nursery
        self._agent = agent
        self.outcome: End | None = None
        """How the agent ended the turn."""
        self.ended = trio.Event()
        self.over = False
        """Nobody is told anything more."""
        self._waiting: deque[tuple[Peer, Said | End | None]] = deque()
        """What is to be carried out, and for whom; None: its agent left."""
        self._working = False
        self._rested = trio.Event()
        self._open: dict[str, Peer] = {}
        """Who waits for the answer to a request; cards apart."""
        self._asks: dict[str, trio.CancelScope] = {}
        """Cards that are open."""
        self._closed: dict[str, Closed | Refused] = {}
        """How cards ended of which no agent was told."""
        self._streams: dict[str, tuple[AbstractAsyncContextManager[ReplyStream], ReplyStream]] = {}

    @property
    def asks(self) -> tuple[str, ...]:
        """The cards whose end no agent was told yet."""
        return (*self._asks, *self._closed)

    @property
    def idle(self) -> bool:
        """Whether forgetting it would lose nothing."""
        return not (self._working or self.asks or self._streams)

    def put(self, peer: Peer, request: Said | End) -> None:
        """Carry out `request` after those before it. Errors: RefusedError."""
        match request:
            case End():
                pass
            case _ if request.id in self._open or request.id in self.asks:
                raise RefusedError(Code.BAD_MESSAGE, "id: of a request that waits", id=request.id)
            case Ask():
                if len(self.asks) >= CARDS_OPEN:
                    problem = f"at most {CARDS_OPEN} cards may be open"
                    raise RefusedError(Code.BUSY, problem, id=request.id)
                self._asks[request.id] = trio.CancelScope()
            case _:
                if len(self._open) >= REQUESTS_OPEN:
                    problem = f"at most {REQUESTS_OPEN} requests may wait for their answers"
                    raise RefusedError(Code.BUSY, problem, id=request.id)
                self._open[request.id] = peer
        self._line_up(peer, request)

    def withdraw(self, ask: str) -> None:
        """Close a card, if it is one of this conversation's and still open."""
        if (scope := self._asks.get(ask)) is not None:
            scope.cancel()

    def peer_left(self, peer: Peer) -> None:
        """Let the streams of an agent that is gone end, once all is said that it asked for."""
        self._line_up(peer, None)

    def _line_up(self, peer: Peer, request: Said | End | None) -> None:
        self._waiting.append((peer, request))
        if not self._working:
            self._working = True
            self._rested = trio.Event()
            self._nursery.start_soon(self._work)

    async def wait_rested(self) -> None:
        """Wait until all that was asked for is carried out."""
        if self._working:
            await self._rested.wait()

    async def finish_streams(self) -> None:
        """Show the last state of each as final."""
        while self._streams:
            _, (opened, _) = self._streams.popitem()
            await opened.__aexit__(None, None, None)

    def close(self, peer: Peer | None) -> None:
        """Tell `peer`, if it is there, that what it still waits for comes to nothing."""
        self.over = True
        for asker, request in self._waiting:
            if request is not None:
                asker.release(request)
        self._waiting.clear()
        asked = [request_id for request_id, asker in self._open.items() if asker is peer]
        for request_id in (*asked, *self.asks):
            if peer is not None:
                peer.tell(Refused(request_id, Code.TURN_OVER, TURN_OVER))

    async def _work(self) -> None:
        """Carry out what waits, whether the agent is still there to hear of it or not."""
        try:
            while self._waiting and not self.ended.is_set():
                peer, request = self._waiting.popleft()
                match request:
                    case None:
                        await self.finish_streams()
                    case End():
                        self.outcome = request
                        self.ended.set()
                    case Ask():
                        self._nursery.start_soon(self._ask, peer, request)
                    case _:
                        await self._answer(peer, request)
        finally:
            self._working = False
            self._rested.set()

    async def _answer(self, peer: Peer, request: Spoken) -> None:
        try:
            answer = await self._carry_out(request)
            del self._open[request.id]  # until here `close` would answer
            try:
                with suppress(GoneError):
                    await peer.send(answer)
            except trio.Cancelled:
                peer.tell(answer)
                raise
        finally:
            peer.release(request)

    async def _carry_out(self, request: Spoken) -> ServerMessage:
        try:
            match request:
                case Reply():
                    return Done(request.id, await self._conversation.reply(request.text))
                case StreamState():
                    await self._stream(request)
                case SendFile():
                    return Done(request.id, await self._conversation.send_file(request.file))
                case Working():
                    assert self._turn is not None  # noqa: S101 - the codec wants a turn
                    await self._turn.show_working()
                case _:
                    assert_never(request)
        except TurnError as error:
            return Refused(request.id, Code.REFUSED, str(error))
        return Done(request.id)

    async def _stream(self, state: StreamState) -> None:
        """Errors: TurnError."""
        if state.stream not in self._streams:
            if len(self._streams) >= STREAMS_OPEN:
                raise TurnError(f"at most {STREAMS_OPEN} streams may be open")
            opened = self._conversation.stream()
            self._streams[state.stream] = opened, await opened.__aenter__()
        opened, stream = self._streams[state.stream]
        await stream.update(state.text)
        if state.final and state.stream in self._streams:  # it may have ended with its agent
            del self._streams[state.stream]
            await opened.__aexit__(None, None, None)

    async def _ask(self, peer: Peer, ask: Ask) -> None:
        end: Closed | Refused = Refused(ask.id, Code.WITHDRAWN, "withdrawn")
        try:
            with self._asks[ask.id]:
                try:
                    answer = await self._show(ask)
                    end = Closed(ask.id, answer.option, answer.text, answer.expired)
                except TurnError as error:
                    end = Refused(ask.id, Code.REFUSED, str(error))
        finally:
            peer.release(ask)
        del self._asks[ask.id]
        self._note_closed(ask.id, end)

    def _note_closed(self, ask: str, end: Closed | Refused) -> None:
        self._closed[ask] = end
        self.tell_closed()

    def tell_closed(self) -> None:
        """Tell the agent, if one is there, how cards ended of which none was told."""
        agent = None if self.over else self._agent()
        while agent is not None and not agent.gone and self._closed:
            ask, end = next(iter(self._closed.items()))
            del self._closed[ask]
            agent.tell(end, partial(self._note_closed, ask, end))

    async def _show(self, ask: Ask) -> Answer:
        """Show a card, and wait for its end. Errors: TurnError."""
        talk = self._conversation
        given = {} if ask.options is None else {"options": ask.options}
        match ask.kind:
            case CardKind.EXEC_APPROVAL:
                return await talk.ask_approval(ask.text, ask.description, **given, ttl=ask.ttl)
            case CardKind.SLASH_CONFIRM:
                return await talk.ask_confirmation(ask.text, **given, ttl=ask.ttl)
            case CardKind.CLARIFY:
                return await talk.ask(ask.text, ask.choices, ttl=ask.ttl)
            case _:
                assert_never(ask.kind)
