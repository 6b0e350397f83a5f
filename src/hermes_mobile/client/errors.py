"""What the calls of the client raise."""

from __future__ import annotations

from typing import ClassVar

from hermes_mobile.protocol.frames import Error


class ClientError(Exception):
    """`code` is stable, `message` one line.

    `fatal` means that trying again is pointless: this client does not connect any more.
    """

    code: str
    fatal: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def as_frame(self) -> Error:
        """The same as an event."""
        return Error(self.code, self.message, self.fatal)


class OfflineError(ClientError):
    """There is no connection, and the message was not sent, or its fate is not known (T1, T9)."""

    code = "offline"


class TransportError(ClientError):
    """The connection could not be made, or was lost; with `retry=False` the client has given up."""

    code = "transport"


class RefusedError(ClientError):
    """The server refused what was sent, or certainly would have: then nothing was sent.

    `code` is the server's (`bad_frame`, `too_big`, `forbidden`, `unsupported_frame`,
    `device_offline`, `internal_error`); `id` that of the message.
    """

    def __init__(self, code: str, message: str, id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id


class AccessDeniedError(ClientError):
    """The server does not let this app in (close 1008); `reason` is its own code (T3)."""

    code = "auth_failed"
    fatal = True

    def __init__(self, message: str, reason: str = "auth_failed") -> None:
        super().__init__(message)
        self.reason = reason


class ReplacedError(ClientError):
    """Another instance of the app connected as this device (close 4001, T4)."""

    code = "replaced"
    fatal = True
