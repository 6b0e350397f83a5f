"""What is spoken on an upgraded connection: messages in, whole frames out, and how it ends.

Texts that stand whole in what was received are read here, and the Close frame. All else goes through
trio-websocket, which joins fragments, checks their UTF-8, and answers pings. Frames of ours and
its own are written one write at a time, so that many go out in one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.protocol.codec import encode
from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.server.library import Library
from hermes_mobile.server.scanner import FRAMES_AT_ONCE, Opcode, server_frame
from hermes_mobile.server.stream import RECEIVE_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermes_mobile.server.ending import Ending
    from hermes_mobile.server.scanner import FrameScanner
    from hermes_mobile.server.stream import SocketStream

LARGE_RECEIVE_BYTES: Final = 512 * 1024
"""One receive of a large text: a third of the wake-ups is an eighth of what it costs."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds that the peer has for its side of the closing handshake."""
CODE_BYTES: Final = 2
"""Of a Close frame's payload: its code, before its reason."""


class Wire:
    """`rest` is what was received behind the request; the library's task runs in `nursery`.

    The connection's reader reads the socket, by `receive_message`, and passes on to the library what
    it does not read itself. So a small text costs one task's wake-up, not three.
    """

    def __init__(
        self, stream: SocketStream, scanner: FrameScanner, rest: bytes, nursery: trio.Nursery
    ) -> None:
        self._stream = stream
        self._scanner = scanner
        self._data = rest
        self._nursery = nursery
        self._position = 0  # in the data, up to where it was acted on
        self._texts = 0  # in a row, without letting other tasks run
        self._library: Library | None = None
        self._library_has_message = False
        self._turn = trio.Semaphore(
            1, max_value=1
        )  # to write; a lock that another task may give back
        self._left = False
        self._torn = False  # a frame was begun and not finished: nothing can follow it
        self._unsent: bytes | memoryview = (
            b""  # of what `send_now` was given: `finish_send` follows
        )
        self.listening = False
        """Whether the peer is waited for; if not, its silence is not its own."""

    # Reading

    async def receive_message(self) -> str | bytes:
        """Wait for the next whole message.

        *Errors*: EndOfChannel when the peer has ended or broke a rule (the scanner knows which);
        ConnectionClosed when the library ended the connection.
        """
        while True:
            if self._library is not None and self._library_has_message:
                self._library_has_message = False
                return await self._library.get_message()
            if self._position == len(self._data):
                self._data = b""  # it may be large, and the next one long in coming
                self._position = self._texts = 0
                self._data = await self._receive_some()
                continue
            whole = self._scanner.whole_text(self._data, self._position)
            if whole is None:
                missing = self._scanner.missing_bytes(self._data, self._position)
                if missing:
                    await self._receive_more(missing)
                else:
                    await self._pass_on()
                continue
            text, self._position = whole
            self._texts += 1
            if self._texts == FRAMES_AT_ONCE:
                self._texts = 0
                await trio.lowlevel.checkpoint()
            return text

    async def _receive_more(self, missing: int) -> None:
        """Receive the rest of a text."""
        pieces = [self._data[self._position :]]
        try:
            while missing > 0 and not self._library_has_message:
                pieces.append(await self._receive_some(min(missing, LARGE_RECEIVE_BYTES)))
                missing -= len(pieces[-1])
        finally:  # `close` follows what the peer sent from here on, also when this was cancelled
            self._data = b"".join(pieces)
            self._position = 0

    async def _receive_some(self, at_most: int = RECEIVE_BYTES) -> bytes:
        """Receive what there is; nothing when the library has left. *Errors*: EndOfChannel."""
        self.listening = True
        try:
            data = await self._stream.receive_some(at_most)
        except trio.BrokenResourceError:
            raise trio.EndOfChannel from None
        except trio.ClosedResourceError:
            self._library_has_message = True  # its last word
            return b""
        if not data:
            raise trio.EndOfChannel
        self.listening = False
        return data

    async def _pass_on(self) -> None:
        """Let the library read what comes next, up to the end of a message."""
        start = self._position
        self._position = self._scanner.feed(self._data, start)
        if self._scanner.ended:
            raise trio.EndOfChannel  # `close` answers
        if self._library is None:
            self._library = await Library(self.send_all, self._library_left).open(self._nursery)
        try:
            await self._library.read(self._data[start : self._position])
        except trio.BrokenResourceError:
            self._library_has_message = True  # its last word: it has left
        else:
            self._library_has_message = self._scanner.message_ended

    def _library_left(self) -> None:
        """Let the reader know, wherever it waits, that the library takes nothing more."""
        self._left = True
        self._stream.interrupt()

    # Writing

    @property
    def free(self) -> bool:
        """Whether whole frames may be sent now, by `send_now`."""
        return self._turn.value > 0 and not self._left and not self._torn

    def send_now(self, data: bytes) -> bool:
        """Send whole frames while the wire is free, without waiting.

        False when not all of it went out: `finish_send` must follow, and nothing is sent before it.
        """
        self._unsent = self._stream.send_now(data)
        if not self._unsent:
            return True
        self._turn.acquire_nowait()
        return False

    async def finish_send(self) -> None:
        """Send the rest of what `send_now` was given. *Cancellation*: as `send_all`."""
        rest, self._unsent = self._unsent, b""
        await self._send_in_turn(self._stream.send_rest, rest)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send whole frames: the library's, or the writer's gathered ones.

        *Cancellation*: may leave half a frame behind; `close` then says nothing more.
        """
        try:
            self._turn.acquire_nowait()  # free nearly always; `acquire` would cost a checkpoint
        except trio.WouldBlock:
            await self._turn.acquire()
        await self._send_in_turn(self._stream.send_all, data)

    async def _send_in_turn(
        self,
        send: Callable[[bytes | bytearray | memoryview], Awaitable[None]],
        data: bytes | bytearray | memoryview,
    ) -> None:
        try:
            if self._left or self._torn:
                raise trio.ClosedResourceError
            self._torn = True
            await send(data)
            self._torn = False
        finally:
            self._turn.release()

    # The end

    async def close(self, ending: Ending) -> None:
        """Say the last words and the Close frame, hear the peer's, and close the socket.

        Call it when no other task uses the wire any more. *Limits*: CLOSE_TIMEOUT seconds.
        """
        last = b"" if self._torn or self._unsent else self._last_words(ending)
        if last:
            with (
                trio.move_on_after(CLOSE_TIMEOUT),
                suppress(trio.BrokenResourceError, trio.ClosedResourceError),
            ):
                await self._stream.send_all(last)
                if not self._peer_closed(b""):
                    await self._stream.discard(until=self._peer_closed)
        self._data = b""  # the wire may be referred to for a while
        if self._library is not None:
            self._library.forget()
            self._library = None
        await self._stream.aclose()

    def _last_words(self, ending: Ending) -> bytes:
        """What is still to be said; after the peer's Close, only the answer to it."""
        if self._scanner.close_seen:
            return server_frame(Opcode.CLOSE, answer_to_close(self._scanner.close_payload))
        if ending.code is None:
            return b""
        last = server_frame(Opcode.CLOSE, ending.code.to_bytes(2) + ending.why.encode())
        if ending.error is None:
            return last
        return server_frame(Opcode.TEXT, encode(ending.error)) + last

    def _peer_closed(self, data: bytes) -> bool:
        data, self._data = self._data[self._position :] + data, b""
        self._position = 0
        position = 0
        while position < len(data) and not self._scanner.ended:
            position = self._scanner.feed(data, position)
        return self._scanner.close_seen


def answer_to_close(payload: bytes) -> bytes:
    """What answers a Close frame with this payload: the same, or 1002 for what RFC 6455 forbids."""
    code = int.from_bytes(payload[:CODE_BYTES])
    try:
        payload[CODE_BYTES:].decode()
    except UnicodeDecodeError:
        code = 0
    if not payload or (len(payload) >= CODE_BYTES and may_be_sent(code)):
        return payload
    return CloseCode.PROTOCOL_ERROR.to_bytes(CODE_BYTES)


def may_be_sent(code: int) -> bool:
    """Whether a close code may stand on the wire: a registered one, or one of an app's own."""
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999  # noqa: PLR2004
