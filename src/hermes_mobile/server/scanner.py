"""Follows the frame headers in what a WebSocket client sends.

This counts what trio-websocket's own limit cannot (D3: bytes, not characters; the bytes of headers too;
before the message is complete), sees pongs, which confirm what was delivered (D32), and refuses broken
framing before the library would drop the connection without a word. Texts in one frame are read here:
nearly every message of an app is one. All other payloads are the library's to read.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C, where that was built

from hermes_mobile.protocol.errors import CloseCode
from hermes_mobile.server.stream import RECEIVE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

START_BYTES: Final = 2
"""Of a header: they tell how long it is."""
MASK_BYTES: Final = 4
MASKED: Final = 0x80
"""In the second byte of every frame of a client."""
WHOLE_TEXT: Final = 0x81
"""The first byte of a text message that is one frame."""
SHORT_LENGTH, LONG_LENGTH = 126, 127
LENGTH_BYTES: Final = {SHORT_LENGTH: 2, LONG_LENGTH: 8}
"""Length fields that announce so many bytes of real length."""
FRAMES_AT_ONCE: Final = 256
"""After so many other tasks take their turn: a frame may be six bytes, and costs what a real one does."""


class Opcode(IntEnum):
    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


DATA_OPCODES: Final = (Opcode.CONTINUATION, Opcode.TEXT, Opcode.BINARY)
KEPT_OPCODES: Final = (Opcode.PONG, Opcode.CLOSE)
"""Their payload says something here."""


class FrameScanner:
    """`first_limit` and `limit`: bytes of the first and of any later message.

    `violation` is None until the stream breaks a rule, then the close code that names it:
    REFUSED for a message beyond the limit, PROTOCOL_ERROR for broken framing. Nothing is followed
    after a violation, nor after a Close frame, which is the last that a peer says.
    """

    def __init__(self, first_limit: int, limit: int, on_pong: Callable[[bytes], None]) -> None:
        self.limit = first_limit
        """Bytes that the message which is being read may have."""
        self._later_limit = limit
        self._on_pong = on_pong
        self._header = bytearray()  # of the frame that is being read, until it is complete
        self._opcode = Opcode.CONTINUATION
        self._final = True
        self._payload_left = 0
        self._kept = bytearray()  # mask and payload of a pong or a Close that is being read
        self._in_message = False
        self._payload_bytes = 0  # of the message so far
        self._wire_bytes = 0  # the same with its headers
        self.violation: CloseCode | None = None
        self.close_seen = False
        self.close_payload = b""
        """What the peer's Close frame holds, its code first."""
        self.message_ended = False
        """Whether the bytes last fed end with a message."""

    @property
    def ended(self) -> bool:
        """Nothing that comes now is followed any more."""
        return self.violation is not None or self.close_seen

    def whole_text(self, data: bytes, position: int) -> tuple[str, int] | None:
        """The text message that stands whole at `position`, and where it ends.

        None for everything else, which is to be fed. Reading these bytes here instead of in the
        library, in another task, halves what a short text costs on its way in, and a long one.
        """
        extent = self._text_extent(data, position)
        if extent is None or extent[1] > len(data):
            return None
        start, end = extent
        try:
            payload = memoryview(data)[start:end]
            text = apply_mask(payload, data[start - MASK_BYTES : start]).decode()
        except UnicodeDecodeError:
            return None
        self.limit = self._later_limit
        return text, end

    def missing_bytes(self, data: bytes, position: int) -> int:
        """How many bytes the text message at `position` still lacks; 0 for everything else."""
        extent = self._text_extent(data, position)
        return 0 if extent is None else max(0, extent[1] - len(data))

    def _text_extent(self, data: bytes, position: int) -> tuple[int, int] | None:
        """Where the payload starts and ends of a text message in one frame that begins here."""
        if self._header or self._payload_left or self._in_message or self.ended:
            return None
        start = position + START_BYTES
        if len(data) < start or data[position] != WHOLE_TEXT:
            return None
        length = data[position + 1] - MASKED
        if length >= SHORT_LENGTH:
            width = LENGTH_BYTES[length]
            if len(data) < start + width:
                return None
            length = int.from_bytes(data[start : start + width])
            start += width
            if len(frame_header(Opcode.TEXT, length)) != START_BYTES + width:
                return None  # it has a shorter form
        start += MASK_BYTES
        if not 0 <= length <= self.limit or len(data) < start:
            return None
        return start, start + length

    def feed(self, data: bytes, position: int = 0) -> int:
        """Follow `data` from `position` on; returns up to where it is in order and may be acted on.

        That is its end, or earlier: behind a message (`message_ended`), or FRAMES_AT_ONCE frames.
        """
        self.message_ended = False
        frames = FRAMES_AT_ONCE
        while position < len(data) and frames and not (self.ended or self.message_ended):
            if self._payload_left:
                position = self._read_payload(data, position)
                continue
            frames -= 1
            end = self._read_header(data, position)
            if self.violation is None:
                position = end
        return position

    def _read_payload(self, data: bytes, position: int) -> int:
        step = min(self._payload_left, len(data) - position)
        if self._opcode in KEPT_OPCODES:
            self._kept += data[position : position + step]
        self._payload_left -= step
        if not self._payload_left:
            self._end_frame()
        return position + step

    def _read_header(self, data: bytes, position: int) -> int:
        """Take header bytes from `position` on; returns where they end."""
        header = self._header
        while len(header) < (wanted := _header_bytes(header)):
            piece = data[position : position + wanted - len(header)]
            if not piece:
                return position
            header += piece
            position += len(piece)
            if len(header) == START_BYTES and not self._may_begin(*header):
                self.violation = CloseCode.PROTOCOL_ERROR
                return position
        self._begin_payload(header)
        header.clear()
        return position

    def _may_begin(self, first: int, second: int) -> bool:
        """Whether a frame may start with these two bytes, here."""
        try:
            self._opcode = Opcode(first & 0x0F)
        except ValueError:
            return False
        self._final = bool(first & 0x80)
        reserved, masked, length = first & 0x70, second & 0x80, second & 0x7F
        if reserved or not masked:
            return False
        match self._opcode:
            case Opcode.CONTINUATION:
                return self._in_message
            case Opcode.TEXT | Opcode.BINARY:
                return not self._in_message
            case Opcode.CLOSE | Opcode.PING | Opcode.PONG:
                return self._final and length < SHORT_LENGTH

    def _begin_payload(self, header: bytearray) -> None:
        length = header[1] & 0x7F
        if length >= SHORT_LENGTH:
            length = int.from_bytes(header[START_BYTES:-MASK_BYTES])
        if len(header) > len(frame_header(self._opcode, length)) + MASK_BYTES:
            self.violation = CloseCode.PROTOCOL_ERROR  # the length has a shorter form
            return
        if self._opcode in DATA_OPCODES:
            self._payload_bytes += length
            self._wire_bytes += length + len(header)
            # A well-meant message may consist of many fragments, whose headers are allowed for.
            if self._payload_bytes > self.limit or self._wire_bytes > self.limit + RECEIVE_BYTES:
                self.violation = CloseCode.REFUSED
                return
            self._in_message = True
        elif self._opcode in KEPT_OPCODES:
            self._kept[:] = header[-MASK_BYTES:]
        self._payload_left = length
        if not length:
            self._end_frame()

    def _end_frame(self) -> None:
        match self._opcode:
            case Opcode.CONTINUATION | Opcode.TEXT | Opcode.BINARY:
                if self._final:
                    self.message_ended = True
                    self._in_message = False
                    self._payload_bytes = self._wire_bytes = 0
                    self.limit = self._later_limit
            case Opcode.PONG:
                self._on_pong(self._kept_payload())
            case Opcode.CLOSE:
                self.close_seen = True
                self.close_payload = self._kept_payload()
            case Opcode.PING:
                pass

    def _kept_payload(self) -> bytes:
        return apply_mask(self._kept[MASK_BYTES:], self._kept[:MASK_BYTES])


def _header_bytes(header: bytearray) -> int:
    """How long a client's header is, as far as its beginning tells."""
    if len(header) < START_BYTES:
        return START_BYTES
    return START_BYTES + MASK_BYTES + LENGTH_BYTES.get(header[1] & 0x7F, 0)


def server_frame(opcode: Opcode, payload: bytes) -> bytes:
    """One whole unmasked frame; compression is never negotiated, so this is all there is to it."""
    return frame_header(opcode, len(payload)) + payload


def frame_header(opcode: Opcode, length: int) -> bytes:
    first = 0x80 | opcode
    if length < SHORT_LENGTH:
        return bytes((first, length))
    if length < 1 << 16:
        return bytes((first, SHORT_LENGTH)) + length.to_bytes(2)
    return bytes((first, LONG_LENGTH)) + length.to_bytes(8)
