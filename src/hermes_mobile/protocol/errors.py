"""What can go wrong, as the peer is told: error codes, close codes, and this layer's exception."""

from enum import IntEnum, StrEnum


class ErrorCode(StrEnum):
    """The `code` of an `error` frame."""

    BAD_FRAME = "bad_frame"
    AUTH_FAILED = "auth_failed"
    FORBIDDEN = "forbidden"
    UNSUPPORTED_FRAME = "unsupported_frame"
    TOO_BIG = "too_big"
    DEVICE_OFFLINE = "device_offline"
    AUTH_REQUIRED = "auth_required"
    """Declared by the protocol, never sent: a first frame other than hello is `bad_frame`."""
    INTERNAL_ERROR = "internal_error"


class CloseCode(IntEnum):
    """The WebSocket close codes that the server uses."""

    NORMAL = 1000
    GOING_AWAY = 1001
    """Shutdown (D35)."""
    PROTOCOL_ERROR = 1002
    INVALID_DATA = 1007
    """A text message that is not UTF-8 (D2)."""
    REFUSED = 1008
    """Every fatal error; the reason is the error's code."""
    INTERNAL_ERROR = 1011
    TRY_AGAIN_LATER = 1013
    """The outgoing queue is full (D33)."""
    REPLACED = 4001
    """The same device connected anew (D11)."""


class ProtocolError(Exception):
    """A frame, or an action it asks for, is refused; `message` names the field and the limit.

    Fatal ones end the connection with close code 1008. `id` is the refused frame's own (D25).
    """

    def __init__(
        self, code: ErrorCode, message: str, *, fatal: bool = False, id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fatal = fatal
        self.id = id


def bad_frame(message: str, *, fatal: bool = False, id: str | None = None) -> ProtocolError:
    return ProtocolError(ErrorCode.BAD_FRAME, message, fatal=fatal, id=id)


def too_big(message: str, *, fatal: bool = False, id: str | None = None) -> ProtocolError:
    return ProtocolError(ErrorCode.TOO_BIG, message, fatal=fatal, id=id)
