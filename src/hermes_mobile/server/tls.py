"""TLS of our own, for those without a proxy: the certificate, and a socket's stream that encrypts.

The stream keeps the promises of `SocketStream`, since it is one: what goes through the socket is
counted, timed and discarded there. OpenSSL works on memory, between the socket and whoever uses it.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.server.settings import SettingsError
from hermes_mobile.server.stream import RECEIVE_BYTES, SocketStream

if TYPE_CHECKING:
    import socket
    from pathlib import Path

SLICE_BYTES: Final = 64 * 1024
"""What is encrypted at once: the rest of a large frame need not be there twice."""


def load_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """TLS 1.2 or later with this certificate and its key, PEM files; None without them.

    *Errors*: SettingsError.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise SettingsError("MOBILE_TLS_CERT and MOBILE_TLS_KEY must both be set, or neither")
    _check("MOBILE_TLS_CERT", certificate, b"-----BEGIN CERTIFICATE-----")
    _check("MOBILE_TLS_KEY", key, b"PRIVATE KEY-----")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except OSError as error:  # ssl.SSLError is one, too
        problem = "MOBILE_TLS_CERT, MOBILE_TLS_KEY must be a certificate in PEM and its key"
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            problem = "MOBILE_TLS_KEY must be the key of MOBILE_TLS_CERT"
        raise SettingsError(problem) from None
    return context


def _check(variable: str, file: Path, mark: bytes) -> None:
    """OpenSSL does not tell which of two files is wrong."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{variable} cannot be read: {error.strerror} ({file})") from None
    if mark not in content:
        raise SettingsError(f"{variable} must be a file in PEM format ({file})")


def _no_password() -> str:
    """Else OpenSSL asks whoever sits at the terminal."""
    raise SettingsError("MOBILE_TLS_KEY must be a key without a password")


class TlsStream(SocketStream):
    """The server's end of TLS. The first `receive_some` shakes hands, so its deadline bounds that (D4).

    Sending before that is a BrokenResourceError: nobody could read it. `bytes_in`, `bytes_out` and
    `taken_bytes` count what goes through the socket. A peer that ends without TLS's own end has
    ended like any other: by frames one sees what is whole.
    """

    def __init__(self, sock: socket.socket, write_timeout: float, context: ssl.SSLContext) -> None:
        super().__init__(sock, write_timeout)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._shaken = False
        self._torn = False  # a record was begun and not finished: nothing can follow it
        self._ended = False  # by us
        self._peer_ended = False
        self._ahead = b""  # decrypted before it was asked for

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self._check_open()
        if not self._shaken and not await self._shake_hands():
            return b""
        while (data := self._decrypted(max_bytes or RECEIVE_BYTES)) is None:
            if not await self._receive():
                return b""
        return data

    async def _shake_hands(self) -> bool:
        """Returns whether the peer was there until the end."""
        while not self._shaken:
            try:
                self._tls.do_handshake()
                self._shaken = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise self._failed() from error
            if rest := super().send_now(self._outgoing.read()):
                await self.send_rest(rest)
            if not self._shaken and not await self._receive():
                return False
        return True

    async def _receive(self) -> bool:
        """Returns False when the peer has ended."""
        received = await super().receive_some()
        self._incoming.write(received)
        return bool(received)

    def _decrypted(self, most: int) -> bytes | None:
        """What can be read without waiting: nothing when the peer has ended, None when it has not."""
        pieces = [self._ahead[:most]] if self._ahead else []
        self._ahead = self._ahead[most:]
        missing = most - sum(map(len, pieces))
        try:
            while missing and (self._incoming.pending or self._tls.pending()):
                piece = self._tls.read(missing)  # of one record, at most 16 KiB
                if not piece:
                    self._peer_ended = True
                    break
                pieces.append(piece)
                missing -= len(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:  # the same, once we have ended, too
            self._peer_ended = True
        except ssl.SSLError as error:
            raise self._failed() from error
        data = b"".join(pieces)
        return data if data or self._peer_ended else None

    def _failed(self) -> trio.BrokenResourceError:
        """The peer broke a rule of TLS, or speaks something else: it is told, if that goes at once."""
        if not self._torn:
            with suppress(trio.BrokenResourceError):
                super().send_now(self._outgoing.read())
        self._torn = True
        return trio.BrokenResourceError()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with memoryview(data) as view:
            for start in range(0, len(view), SLICE_BYTES):
                await super().send_all(view[start : start + SLICE_BYTES])

    def send_now(self, data: bytes | bytearray | memoryview) -> bytes | memoryview:
        self._check_open()
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise trio.BrokenResourceError from error
        rest = super().send_now(self._outgoing.read())
        self._torn = bool(rest)
        return rest

    async def send_rest(self, rest: bytes | bytearray | memoryview) -> None:
        await super().send_rest(rest)
        self._torn = False

    async def send_eof(self) -> None:
        if rest := self._end():
            await self.send_rest(rest)
        await super().send_eof()

    def close(self) -> None:
        if self.socket.fileno() >= 0:
            with suppress(trio.BrokenResourceError):
                self._end()
        super().close()

    def _end(self) -> bytes | memoryview:
        """Say that nothing more will come, where that can be said; returns what must still be sent."""
        if self._ended or self._torn or not self._shaken:
            return b""
        self._ended = True
        # OpenSSL reads on after our end, but not what was there before it.
        self._ahead = self._decrypted(RECEIVE_BYTES) or b""
        with suppress(ssl.SSLError):  # that the peer's end is missing: it need not be waited for
            self._tls.unwrap()
        return super().send_now(self._outgoing.read())
