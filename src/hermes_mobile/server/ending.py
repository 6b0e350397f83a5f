"""Why a connection ends, and what the peer is told of it: the one table of close codes in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from hermes_mobile.protocol.errors import CloseCode, ErrorCode, ProtocolError, too_big
from hermes_mobile.protocol.frames import Error

if TYPE_CHECKING:
    from trio_websocket import CloseReason

    from hermes_mobile.server.scanner import FrameScanner


@frozen
class Ending:
    """`why` goes to the log, and, with a `code`, to the peer as the reason of the Close frame.

    Without a code nothing more is said. `error` are the last words before the Close frame; `flush`
    tells whether what is queued is written before them.
    """

    why: str
    code: CloseCode | None = None
    error: Error | None = None
    flush: bool = False


PEER_LEFT: Final = Ending("peer left")
LOST: Final = Ending("lost")
"""The peer shows no life, takes nothing, or its socket is broken."""
NO_UPGRADE: Final = Ending("no upgrade")
REPLACED: Final = Ending("replaced", CloseCode.REPLACED)
SHUTDOWN: Final = Ending("shutdown", CloseCode.GOING_AWAY, flush=True)
OUTBOX_FULL: Final = Ending("outbox full", CloseCode.TRY_AGAIN_LATER)
BAD_FRAMING: Final = Ending("bad framing", CloseCode.PROTOCOL_ERROR)
BAD_UTF8: Final = Ending("not utf-8", CloseCode.INVALID_DATA)
INTERNAL: Final = Ending(
    ErrorCode.INTERNAL_ERROR,
    CloseCode.INTERNAL_ERROR,
    Error(ErrorCode.INTERNAL_ERROR, "the server failed: reconnect", fatal=True),
)


def of_reading(scanner: FrameScanner, reason: CloseReason | None) -> Ending:
    """Why there are no more messages; `reason` is what trio-websocket took for the end, if it did."""
    match scanner.violation:
        case CloseCode.REFUSED:
            return refused(too_big(f"frame: at most {scanner.limit} bytes", fatal=True))
        case None if scanner.close_seen:
            return PEER_LEFT
        case None if reason is not None and reason.code == CloseCode.INVALID_DATA:
            return BAD_UTF8
        case None:
            return LOST
        case _:
            return BAD_FRAMING


def withdrawn(refusal: ProtocolError) -> Ending:
    """The end of what was admitted before: as of a refusal, but nothing that is queued goes out."""
    return evolve(refused(refusal), flush=False)


def refused(error: ProtocolError) -> Ending:
    """The end that a fatal error means: close code 1008, with the error's code as its reason."""
    last_words = Error(error.code, error.message, fatal=True, id=error.id)
    return Ending(error.code, CloseCode.REFUSED, last_words, flush=True)
