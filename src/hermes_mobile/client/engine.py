"""What keeps a client connected: the loop of attempts, and the tasks of each connection.

`Engine._run` is the whole story. One task of a connection reads, one writes, one watches for silence;
none of them outlives it, and no code of the app runs in them.
"""

from __future__ import annotations

import ssl
from math import inf
from typing import TYPE_CHECKING, Final, assert_never
from weakref import WeakSet

import trio
from attrs import field, frozen
from trio.lowlevel import ParkingLot
from trio_websocket import ConnectionClosed

from hermes_mobile.client.assembly import Assembly
from hermes_mobile.client.connection import Ending, converse
from hermes_mobile.client.errors import (
    AccessDeniedError,
    ClientError,
    OfflineError,
    ReplacedError,
    TransportError,
)
from hermes_mobile.client.events import ConnectionState, StateChanged
from hermes_mobile.client.inbox import Inbox
from hermes_mobile.client.keep_alive import KeepAlive, Verdict
from hermes_mobile.client.outbox import Outbox, Outgoing
from hermes_mobile.client.repeats import Once, ShownMessages
from hermes_mobile.protocol.app_codec import Ready, decode, encode
from hermes_mobile.protocol.backoff import Backoff
from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.protocol.frames import (
    Accepted,
    Avatar,
    AvatarState,
    Delivered,
    Error,
    MediaPart,
    Message,
    Ping,
    Pong,
    PromptCard,
    PromptDone,
    Typing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio_websocket import WebSocketConnection

    from hermes_mobile.client.events import Event
    from hermes_mobile.client.link import Endpoint, Link, OpenStream
    from hermes_mobile.client.reply import ReplyCollector
    from hermes_mobile.protocol.app_codec import AppFrame
    from hermes_mobile.protocol.frames import Hello


@frozen
class Options:
    """How to connect, and how patiently. Durations in seconds."""

    endpoint: Endpoint
    hello: Hello
    open_stream: OpenStream = field(repr=False)
    open_timeout: float
    max_backoff: float
    keep_alive: float
    keep_alive_timeout: float
    retry: bool
    random: Callable[[], float] = field(repr=False)


class Engine:
    """`HermesClient` is its face to the app; everything here but waiting is synchronous.

    So nothing is ever seen half changed, whatever is cancelled.
    """

    _keep_alive: KeepAlive
    _gave_up: str
    """Why an attempt was cancelled, if it was."""

    def __init__(self, options: Options) -> None:
        self._options: Final = options
        self.state = ConnectionState.IDLE
        self.session: Ready | None = None
        """What the newest `ready` said."""
        self.connections = 0
        """How many there were, up to their `ready`."""
        self.working = False
        """Whether the agent shows that it works."""
        self.changed = ParkingLot()
        """Whoever waits for something to happen: a state, an event, an end of something sent."""
        self.outbox = Outbox()
        self.inbox = Inbox()
        self.collectors: WeakSet[ReplyCollector] = WeakSet()
        """Told of each event and receipt as it comes; one that nobody asks any more is gone."""
        self._failure: Callable[[], ClientError] | None = None
        self._backoff = Backoff(options.max_backoff, options.random)
        self._ready_at: float | None = None
        self._assembly = Assembly()
        self._shown = ShownMessages()
        self._files = Once()
        self._cards = Once()
        self._leaving = False
        self._ended = trio.Event()
        self._running = trio.CancelScope()
        self._attempt = trio.CancelScope()
        self._reading = trio.CancelScope()

    # The life

    def start(self, nursery: trio.Nursery) -> None:
        self._set_state(StateChanged(ConnectionState.CONNECTING))
        nursery.start_soon(self._run)

    async def leave(self) -> None:
        """Close the connection, in words where there is one, and stay away."""
        self._leaving = True
        if self.state is ConnectionState.CONNECTED:
            self._reading.cancel()
        else:
            self._running.cancel()
        try:
            await self._ended.wait()
        finally:
            self.outbox.give_up(lambda: OfflineError("the client was closed"))
            self._set_state(StateChanged(ConnectionState.IDLE))

    async def _run(self) -> None:
        """Stay connected until `leave`, or until there is no point in it any more."""
        with self._running:
            while True:
                ending = await self._connect_once()
                if self._leaving:
                    break
                pause = self._backoff.pause(self._forget_connection())
                failure = failure_of(ending, retry=self._options.retry)
                if failure is not None:
                    self._fail(failure)
                    break
                if ending.trouble:
                    self.publish(TransportError(ending.trouble).as_frame())
                attempt = self._backoff.attempt
                self._set_state(StateChanged(ConnectionState.RECONNECTING, attempt, pause))
                await trio.sleep(pause)
        self._ended.set()

    async def _connect_once(self) -> Ending:
        """Make a connection and live on it to its end."""
        options = self._options
        self._gave_up = f"no answer in {options.open_timeout:g} s"
        with trio.CancelScope() as self._attempt:
            self._attempt.deadline = trio.current_time() + options.open_timeout
            try:
                stream = await options.open_stream(options.endpoint)
            except (OSError, UnicodeError, trio.BrokenResourceError) as error:
                return Ending(trouble=trouble_of(error))
            return await converse(stream, options.endpoint, self._talk)
        return Ending(trouble=self._gave_up)

    async def _talk(self, websocket: WebSocketConnection, link: Link) -> None:
        """Say hello, then read what comes; errors: ConnectionClosed, when the server ended it."""
        options = self._options
        self._keep_alive = KeepAlive(
            options.keep_alive, options.keep_alive_timeout, trio.current_time()
        )
        link.on_moved = lambda: self._keep_alive.moved(trio.current_time())
        await websocket.send_message(encode(options.hello))
        closed: ConnectionClosed | None = None
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as self._reading:
                try:
                    await self._read(websocket, nursery)
                except ConnectionClosed as end:
                    closed = end
            nursery.cancel_scope.cancel()
        if closed is not None:
            raise closed

    async def _read(self, websocket: WebSocketConnection, nursery: trio.Nursery) -> None:
        while True:
            data = await websocket.get_message()
            self._keep_alive.received(trio.current_time())
            frame = decode(data)
            if isinstance(frame, Ready) and self._ready_at is None:
                self._welcome(frame)
                nursery.start_soon(self._write, websocket)
                nursery.start_soon(self._watch)
            elif frame is not None:
                self._take(frame)
            # Who waits for a receipt is not behind: the receipt must get through.
            while self.inbox.full and not len(self.outbox):
                await self.changed.park()

    async def _write(self, websocket: WebSocketConnection) -> None:
        """The only task that sends messages, so that no cancelled call leaves half of one."""
        try:
            while True:
                while (message := self.outbox.begin_next()) is None:
                    await self.changed.park()
                for frame in message.frames:
                    if message.done:
                        break  # refused already
                    await websocket.send_message(encode(frame))
                    message.written += 1
                    self.notify()
                self.outbox.written(message)
                self.notify()
        except ConnectionClosed:
            return  # the reader learns of it, too

    async def _watch(self) -> None:
        """Answer silence with a ping, and silence after that with another connection (T5)."""
        while True:
            await trio.sleep_until(self._keep_alive.deadline)
            now = trio.current_time()
            if self.inbox.full:
                self._keep_alive.received(now)  # the silence is our own
            match self._keep_alive.check(now):
                case Verdict.ASK:
                    self.send(Outgoing((Ping(),), 0, lasting=False))
                case Verdict.GIVE_UP:
                    self._gave_up = "the server fell silent"
                    self._attempt.cancel()
                case Verdict.WAIT:
                    pass

    def _welcome(self, ready: Ready) -> None:
        self._attempt.deadline = inf
        self._ready_at = trio.current_time()
        self.session = ready
        self.connections += 1
        self.working = False
        self.outbox.connection_opened(receipts=ready.capabilities.receipts)
        self._set_state(StateChanged(ConnectionState.CONNECTED))
        self.publish(ready)

    def _forget_connection(self) -> float:
        """Returns for how many seconds it was ready."""
        ready_at, self._ready_at = self._ready_at, None
        self._assembly.clear()
        self._shown.connection_ended()
        self.outbox.connection_ended()
        return 0.0 if ready_at is None else trio.current_time() - ready_at

    def _fail(self, failure: Callable[[], ClientError]) -> None:
        self._failure = failure
        self.outbox.give_up(failure)
        self._set_state(StateChanged(ConnectionState.FAILED))
        self.publish(failure().as_frame())

    # To the server

    def send(self, message: Outgoing) -> None:
        """Put a message in its place; the writer takes it from there."""
        self.outbox.add(message)
        self.notify()

    async def wait_room(self, message: Outgoing) -> None:
        """Wait until a message may be sent; at once, unless the link is slow.

        *Errors*: OfflineError where it would have to wait for a connection, other than the first (T1);
        what the client failed of.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            self.raise_failure()
            if self.state is ConnectionState.CONNECTED:
                if self.outbox.has_room(message):
                    return
            elif self.connections or self.state is ConnectionState.IDLE:
                raise OfflineError("there is no connection")
            elif self.outbox.may_hold(message):
                return
            else:
                raise OfflineError("too much waits for the first connection")
            await self.changed.park()

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure()

    # From the server

    def _take(self, frame: AppFrame) -> None:  # noqa: C901, PLR0912 - one case per frame
        match frame:
            case Message():
                shown = self._shown.show(frame)
                if shown is not None:
                    self.publish(shown)
            case Typing(stop):
                self.working = not stop
                self.publish(frame)
            case Avatar(state):
                if state is AvatarState.IDLE:
                    self.working = False
                self.publish(frame)
            case MediaPart():
                self._take_chunk(frame)
            case PromptCard():
                if self._cards.add(frame.id):
                    self.publish(frame)
            case PromptDone():
                self.outbox.card_closed(frame.id)
                self.publish(frame)
            case Error():
                if not self.outbox.refuse(frame):
                    self.publish(frame)
            case Accepted():
                self.outbox.settle(frame)
                self._tell_collectors(frame)
            case Pong():
                self.outbox.settle(frame)
            case Delivered():
                self.publish(frame)
            case Ready():
                pass  # it was said before
            case _:
                assert_never(frame)
        self.notify()

    def _take_chunk(self, chunk: MediaPart) -> None:
        if chunk.id in self._files:
            return
        file = self._assembly.add(chunk)
        if file is not None:
            self._files.add(file.id)
            self.publish(file)

    # To the app

    def publish(self, event: Event) -> None:
        self.inbox.put(event)
        self._tell_collectors(event)
        self.notify()

    def _tell_collectors(self, event: Event | Accepted) -> None:
        for collector in self.collectors:
            collector.take(event)

    def notify(self) -> None:
        self.changed.unpark_all()

    def _set_state(self, change: StateChanged) -> None:
        self.state = change.state
        self.publish(change)


def failure_of(ending: Ending, *, retry: bool) -> Callable[[], ClientError] | None:
    """The error that an ending is final with; None where another attempt follows (T3, T4)."""
    match ending.code:
        case CloseCode.REFUSED:
            reason = ending.reason or "auth_failed"
            return lambda: AccessDeniedError(f"the server refuses this app: {reason}", reason)
        case CloseCode.REPLACED:
            return lambda: ReplacedError("another instance connected as this device")
        case _:
            return None if retry else lambda: TransportError(ending.trouble)


def trouble_of(error: Exception) -> str:
    """What kept a stream from being opened, in words for the person."""
    match error.__cause__:
        case ssl.SSLCertVerificationError(verify_message=reason):
            return f"cannot connect: the certificate is not accepted: {reason}"
        case ssl.SSLError(reason=str(reason)):
            return f"cannot connect: no TLS: {reason.lower().replace('_', ' ')}"
        case cause:
            return f"cannot connect: {cause or error}"
