"""One agent that dialled in, from its `ready` to its end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio
from attrs import define, field

from hermes_mobile.agents.link.codec import RefusedError, UnreadableError, decode, encode
from hermes_mobile.agents.link.line import GoneError, OverlongError
from hermes_mobile.agents.link.messages import (
    Ask,
    Code,
    Done,
    End,
    Farewell,
    Goodbye,
    Hello,
    Refused,
    Reply,
    SendFile,
    StreamState,
    TurnBegin,
    Unknown,
    Withdraw,
)
from hermes_mobile.agents.link.talk import TURN_OVER, Talk
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES, MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_mobile.agents import Conversations, DeviceState
    from hermes_mobile.agents.link.agent import LinkAgent
    from hermes_mobile.agents.link.line import Line
    from hermes_mobile.agents.link.messages import AgentMessage, Ready, Said, ServerMessage

BYTES_OPEN: Final = 64 * MIB
"""Texts and files of all requests without an answer together; one alone may always be there."""
CARDS_OPEN_IN_ALL: Final = 1_024
TALKS_OPEN: Final = 10_000
"""Devices that something is being said to, or asked, outside of turns."""
DRAIN_SECONDS: Final = 1.5
"""How long the end may wait for the message that is being written, and for what was asked for."""


@define(eq=False)
class Outgoing:
    """A message on its way to the writer."""

    message: ServerMessage
    settled: trio.Event = field(factory=trio.Event)
    """It was written, or will never be."""
    written: bool = False


class Peer:
    """The agent at the other end of `line`.

    Whoever has something to tell it hands that to the writer and waits until it is written. So what
    waits is not encoded yet, and no queue needs a bound.
    """

    def __init__(self, agent: LinkAgent, line: Line, hello: Hello) -> None:
        self.hello = hello
        self.gone = False
        """The link ends: nothing more is taken to be written."""
        self.goodbye: Goodbye | None = None
        """Why the server ended it; None when the agent left."""
        self._agent = agent
        self._line = line
        self._nursery: trio.Nursery
        self._out, self._to_write = trio.open_memory_channel[Outgoing](0)
        self._writer_finished = trio.Event()
        self._reading = trio.CancelScope()
        self._talks: dict[str, Talk] = {}
        """Outside of turns, by device."""
        self._bytes = 0
        self._cards = 0
        self._devices: dict[str, DeviceState] = {}
        """Those that the agent was not told of yet."""
        self._devices_changed = trio.Event()

    async def serve(self, ready: Ready, conversations: Conversations) -> None:
        """Serve the agent until either side ends it."""
        self._conversations = conversations
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._write)
                with self._reading, suppress(GoneError):
                    await self.send(ready)
                    for talk in self._agent.talks:
                        talk.tell_closed()
                    for device in conversations.connected_devices:
                        self.device_changed(device)
                    self._nursery.start_soon(self._tell_devices)
                    self._nursery.start_soon(self._hand_over)
                    await self._read()
                self.leave()
                with trio.move_on_after(DRAIN_SECONDS):
                    await self._writer_finished.wait()
                    for talk in self._talks.values():
                        await talk.wait_rested()
                self._nursery.cancel_scope.cancel()
        finally:
            self.leave()
            for talk in self._talks.values():
                await talk.finish_streams()

    def end(self, code: Farewell, message: str) -> None:
        """End the link, unless it is ending already. Returns at once."""
        if not self.gone:
            self.goodbye = Goodbye(code, message)
            self.leave()

    def leave(self, *, linger: float = 0) -> None:
        """Take nothing more to write, and after `linger` seconds read nothing more."""
        if not self.gone:
            self.gone = True
            self._out.close()
            self._reading.deadline = trio.current_time() + linger
            self._agent.peer_left(self)

    # To the agent

    async def send(self, message: ServerMessage) -> None:
        """Send a message, and wait until it is being written. Errors: GoneError."""
        await self._hand_to_writer(Outgoing(message))

    async def deliver(self, message: ServerMessage) -> None:
        """Send a message, and wait until it is written. Errors: GoneError."""
        outgoing = Outgoing(message)
        await self._hand_to_writer(outgoing)
        await outgoing.settled.wait()
        if not outgoing.written:
            raise GoneError

    async def _hand_to_writer(self, outgoing: Outgoing) -> None:
        """*Cancellation*: then it will not be written. Errors: GoneError."""
        try:
            await self._out.send(outgoing)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise GoneError from None

    def tell(self, message: ServerMessage, not_told: Callable[[], None] | None = None) -> None:
        """Send a message when its turn has come, else call `not_told`. Returns at once."""
        if not self.gone:
            self._nursery.start_soon(self._tell, message, not_told)

    async def _tell(self, message: ServerMessage, not_told: Callable[[], None] | None) -> None:
        told = False
        try:
            with suppress(GoneError):
                await self.deliver(message)
                told = True
        finally:
            if not told:
                # Also where all of this is cancelled: `not_told` must not turn to this agent again.
                self.leave(linger=DRAIN_SECONDS)
                if not_told is not None:
                    not_told()

    async def _send_if_there(self, message: ServerMessage) -> None:
        with suppress(GoneError):
            await self.send(message)

    async def _write(self) -> None:
        """Write what is sent, until there will be no more."""
        try:
            async with self._to_write:
                async for outgoing in self._to_write:
                    try:
                        await self._line.send(encode(outgoing.message))
                        outgoing.written = True
                    finally:
                        outgoing.settled.set()
        except trio.BrokenResourceError:
            # An agent that does not wait for its answers may have said something and be gone.
            self.leave(linger=DRAIN_SECONDS)
        finally:
            self._writer_finished.set()

    async def _hand_over(self) -> None:
        """Give the agent one turn after the other, as many at once as it wants."""
        while True:
            work = await self._agent.next_work(self.hello.turns)
            if work.kind is not None and work.kind not in self.hello.takes:
                work.lose()
                continue
            turn = work.turn
            begin = TurnBegin(work.id, turn.device_id, turn.session, turn.user, turn.input)
            try:
                await self.deliver(begin)
            except GoneError:
                self._agent.take_back(work)
                return
            self._agent.began(work, self)

    def device_changed(self, device: DeviceState) -> None:
        """Tell of a device; what was not told before is replaced."""
        self._devices[device.device_id] = device
        self._devices_changed.set()

    async def _tell_devices(self) -> None:
        while True:
            await self._devices_changed.wait()
            self._devices_changed = trio.Event()
            while self._devices:
                await self._send_if_there(self._devices.pop(next(iter(self._devices))))

    # From the agent

    async def _read(self) -> None:
        """Take what the agent says, until it ends."""
        try:
            while (data := await self._line.receive()) is not None:
                try:
                    await self._take(decode(data))
                except UnreadableError as error:
                    self.end(Farewell.BAD_MESSAGE, error.message)
                except RefusedError as error:
                    await self._send_if_there(Refused(error.id, error.code, error.message))
        except OverlongError:
            self.end(Farewell.BAD_MESSAGE, f"message: at most {MAX_FRAME_BYTES} bytes")
        except trio.BrokenResourceError:
            return

    async def _take(self, message: AgentMessage) -> None:
        """Errors: RefusedError."""
        match message:
            case End(turn):
                if (talk := self._agent.talk(turn)) is not None:
                    talk.put(self, message)
            case Withdraw(id, ask):
                for talk in (*self._agent.talks, *self._talks.values()):
                    talk.withdraw(ask)
                await self._send_if_there(Done(id))
            case Hello():
                raise RefusedError(Code.BAD_MESSAGE, "hello: said already on this link")
            case Unknown():
                pass
            case _:
                self._put(message)

    def _put(self, request: Said) -> None:
        """Errors: RefusedError."""
        size = weight(request)
        if self._bytes and self._bytes + size > BYTES_OPEN:
            problem = f"requests of at most {BYTES_OPEN} bytes may wait for their answers"
            raise RefusedError(Code.BUSY, problem, id=request.id)
        if isinstance(request, Ask) and self._cards >= CARDS_OPEN_IN_ALL:
            problem = f"at most {CARDS_OPEN_IN_ALL} cards in all may be open"
            raise RefusedError(Code.BUSY, problem, id=request.id)
        turn = request.place.turn
        talk = self._agent.talk(turn) if turn else self._talk_for(request)
        if talk is None:
            raise RefusedError(Code.TURN_OVER, TURN_OVER, id=request.id)
        talk.put(self, request)
        self._bytes += size
        self._cards += isinstance(request, Ask)

    def _talk_for(self, request: Said) -> Talk:
        """The conversation with a device outside of any turn. Errors: RefusedError."""
        device_id = request.place.device
        if device_id not in self._talks:
            if len(self._talks) >= TALKS_OPEN:
                self._talks = {key: talk for key, talk in self._talks.items() if not talk.idle}
            if len(self._talks) >= TALKS_OPEN:
                problem = f"at most {TALKS_OPEN} devices may be spoken to at once"
                raise RefusedError(Code.BUSY, problem, id=request.id)
            conversation = self._conversations.conversation(device_id)
            self._talks[device_id] = Talk(conversation, self._nursery, lambda: self)
        return self._talks[device_id]

    def release(self, request: Said | End) -> None:
        """A request has its answer, or will get none."""
        if not isinstance(request, End):
            self._bytes -= weight(request)
            self._cards -= isinstance(request, Ask)


def weight(request: Said) -> int:
    """Bytes, about, that a request costs while it waits."""
    match request:
        case Reply() | StreamState():
            return len(request.text)
        case SendFile():
            return len(request.file.data)
        case _:
            return 0
