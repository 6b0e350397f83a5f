"""Follows the frame headers in what a WebSocket client sends, and leaves the payloads alone.

trio-websocket does the reading; this counts what its own limit cannot (D3: bytes, not characters; the
bytes of headers too; before the message is complete), sees pongs, which confirm what was delivered
(D32), and refuses broken framing before the library would drop the connection without a word.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.server.stream import RECEIVE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

MASK_BYTES: Final = 4
MAX_CONTROL_BYTES: Final = 125
SHORT_LENGTH, LONG_LENGTH = 126, 127
"""Length fields that announce 2, or 8, bytes of real length."""


class Opcode(IntEnum):
    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


DATA_OPCODES: Final = (Opcode.CONTINUATION, Opcode.TEXT, Opcode.BINARY)


class FrameScanner:
    """`first_limit` and `limit`: bytes of the first and of any later message.

    `violation` is None until the stream breaks a rule, then the close code that names it:
    REFUSED for a message beyond the limit, PROTOCOL_ERROR for broken framing.
    """

    def __init__(self, first_limit: int, limit: int, on_pong: Callable[[bytes], None]) -> None:
        self._limit = first_limit
        self._later_limit = limit
        self._on_pong = on_pong
        self._header = bytearray()  # of the frame that is being read, until it is complete
        self._opcode = Opcode.CONTINUATION
        self._final = True
        self._payload_left = 0
        self._pong = bytearray()  # mask and payload of a pong that is being read
        self._in_message = False
        self._payload_bytes = 0  # of the message so far
        self._wire_bytes = 0  # the same with its headers
        self.violation: CloseCode | None = None
        self.close_seen = False

    def feed(self, data: bytes) -> int:
        """Follow `data`; returns how many of its bytes are in order, all but after a violation."""
        position = 0
        while position < len(data) and self.violation is None:
            if self._payload_left:
                step = min(self._payload_left, len(data) - position)
                if self._opcode is Opcode.PONG:
                    self._pong += data[position : position + step]
                self._payload_left -= step
                position += step
                if not self._payload_left:
                    self._end_frame()
                continue
            end = self._read_header(data, position)
            if end is None:
                break
            position = end
        return position

    def _read_header(self, data: bytes, position: int) -> int | None:
        """Take header bytes from `position` on; returns where they end, None for a violation."""
        header = self._header
        wanted = 2
        while True:
            missing = wanted - len(header)
            header += data[position : position + missing]
            position += missing
            if len(header) < wanted:
                return len(data)
            if wanted > 2:  # noqa: PLR2004 - the two bytes that tell the length of the rest
                break
            wanted = 2 + MASK_BYTES + {SHORT_LENGTH: 2, LONG_LENGTH: 8}.get(header[1] & 0x7F, 0)
        self._begin_frame(header)
        header.clear()
        return position if self.violation is None else None

    def _begin_frame(self, header: bytearray) -> None:
        length = header[1] & 0x7F
        if length >= SHORT_LENGTH:
            length = int.from_bytes(header[2:-MASK_BYTES])
        try:
            self._opcode = Opcode(header[0] & 0x0F)
        except ValueError:
            self.violation = CloseCode.PROTOCOL_ERROR
            return
        self._final = bool(header[0] & 0x80)
        reserved = header[0] & 0x70
        masked = header[1] & 0x80
        if reserved or not masked or not self._in_order(length):
            self.violation = CloseCode.PROTOCOL_ERROR
            return
        if self._opcode in DATA_OPCODES:
            self._payload_bytes += length
            self._wire_bytes += length + len(header)
            # A well-meant message may consist of many fragments, whose headers are allowed for.
            if self._payload_bytes > self._limit or self._wire_bytes > self._limit + RECEIVE_BYTES:
                self.violation = CloseCode.REFUSED
                return
            self._in_message = True
        elif self._opcode is Opcode.PONG:
            self._pong[:] = header[-MASK_BYTES:]
        self._payload_left = length
        if not length:
            self._end_frame()

    def _in_order(self, length: int) -> bool:
        match self._opcode:
            case Opcode.CONTINUATION:
                return self._in_message
            case Opcode.TEXT | Opcode.BINARY:
                return not self._in_message
            case Opcode.CLOSE | Opcode.PING | Opcode.PONG:
                return self._final and length <= MAX_CONTROL_BYTES

    def _end_frame(self) -> None:
        match self._opcode:
            case Opcode.CONTINUATION | Opcode.TEXT | Opcode.BINARY:
                if self._final:
                    self._in_message = False
                    self._payload_bytes = self._wire_bytes = 0
                    self._limit = self._later_limit
            case Opcode.PONG:
                mask, payload = self._pong[:MASK_BYTES], self._pong[MASK_BYTES:]
                self._on_pong(bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))
            case Opcode.CLOSE:
                self.close_seen = True
            case Opcode.PING:
                pass


def server_frame(opcode: Opcode, payload: bytes) -> bytes:
    """One whole unmasked frame; compression is never negotiated, so this is all there is to it."""
    return header(opcode, len(payload)) + payload


def header(opcode: Opcode, length: int) -> bytes:
    first = 0x80 | opcode
    if length < SHORT_LENGTH:
        return bytes((first, length))
    if length < 1 << 16:
        return bytes((first, SHORT_LENGTH)) + length.to_bytes(2)
    return bytes((first, LONG_LENGTH)) + length.to_bytes(8)
