"""JSON-RPC 2.0 over a pair of streams, one message a line, as ACP speaks it.

Reading is lenient: a line that is no message is passed over, as are members that nobody asked for.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import orjson
import structlog
import trio

from hermes_mobile.agents.lines import Lines, LineTooLongError
from hermes_mobile.protocol.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

log = structlog.get_logger()

Params: TypeAlias = "Mapping[str, Any]"

MAX_LINE_BYTES: Final = 32 * MIB
"""Of one message of the other side: several times what the largest file takes in base64."""
MAX_REQUESTS: Final = 64
"""Requests of the other side that are worked on at once."""
WRITE_SECONDS: Final = 30.0
"""For the other side to read one message."""

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800


class RpcError(Exception):
    """The answer to a request is an error. Its text may hold what a person said: it is not logged."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


class ConnectionLostError(Exception):
    """The other side has ended, or does not read."""


class Peer(Protocol):
    """What the other side may ask of us, and tell us."""

    async def answer(self, method: str, params: Params) -> Mapping[str, Any]:
        """Answer a request. Errors: RpcError; any other becomes INTERNAL_ERROR."""

    def take_note(self, method: str, params: Params) -> None:
        """Take a notification. They come in their order, and before later answers."""


class Call:
    """A request of ours, on its way."""

    def __init__(self) -> None:
        self._ended = trio.Event()
        self._result: Mapping[str, Any] = {}
        self._error: RpcError | ConnectionLostError | None = None

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def result(self) -> Mapping[str, Any]:
        """Wait for the answer; one that is no object counts as an empty one.

        *Cancellation*: gives up waiting; it may be waited for again.
        *Errors*: RpcError, ConnectionLostError.
        """
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def succeed(self, result: object) -> None:
        self._result = as_object(result)
        self._ended.set()

    def fail(self, error: RpcError | ConnectionLostError) -> None:
        self._error = error
        self._ended.set()


class Connection:
    """One connection; `run` has to run while it is used."""

    def __init__(
        self, incoming: trio.abc.ReceiveStream, outgoing: trio.abc.SendStream, peer: Peer
    ) -> None:
        self._lines = Lines(incoming, MAX_LINE_BYTES)
        self._outgoing = outgoing
        self._peer = peer
        # Without a buffer, who has handed a message over knows that all before it are written.
        self._to_write, self._written = trio.open_memory_channel[bytes](0)
        self._calls: dict[int, Call] = {}
        self._ids = count(1)
        self._answering: dict[int | str, trio.CancelScope] = {}
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Read and write until the other side ends, or `close`; calls that wait then fail."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read(nursery)
                    nursery.cancel_scope.cancel()
        finally:
            self._written.close()
            for call in self._calls.values():
                call.fail(ConnectionLostError())
            self._calls.clear()

    def close(self) -> None:
        """End it from our side."""
        self._scope.cancel()

    @property
    def closed(self) -> bool:
        """Whether our side ended it."""
        return self._scope.cancel_called

    async def request(self, method: str, params: Params) -> Call:
        """Send a request; returns once it is being written. Errors: ConnectionLostError."""
        number = next(self._ids)
        call = self._calls[number] = Call()
        try:
            await self._send({"id": number, "method": method, "params": params})
        except BaseException:
            self._calls.pop(number, None)
            raise
        return call

    async def call(self, method: str, params: Params) -> Mapping[str, Any]:
        """Send a request and wait for its answer. Errors: RpcError, ConnectionLostError."""
        return await (await self.request(method, params)).result()

    async def notify(self, method: str, params: Params) -> None:
        """Send a notification. Errors: ConnectionLostError."""
        await self._send({"method": method, "params": params})

    async def _send(self, message: Params) -> None:
        try:
            await self._to_write.send(orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n")
        except trio.BrokenResourceError:
            raise ConnectionLostError from None

    async def _write(self) -> None:
        try:
            async for line in self._written:
                with trio.fail_after(WRITE_SECONDS):
                    await self._outgoing.send_all(line)
        except trio.TooSlowError:
            log.error("agent does not read", seconds=WRITE_SECONDS)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it has ended, which the reader sees too
        self.close()

    async def _read(self, nursery: trio.Nursery) -> None:
        try:
            while (line := await self._lines.receive()) is not None:
                await self._receive(line, nursery)
        except LineTooLongError:
            log.error("agent's message is too long", limit=MAX_LINE_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _receive(self, line: bytes, nursery: trio.Nursery) -> None:
        try:
            message = as_object(orjson.loads(line))
        except orjson.JSONDecodeError:
            message = {}
        match message:
            case {"method": str(method), "id": int() | str() as number}:
                await self._take_request(number, method, as_object(message.get("params")), nursery)
            case {"method": "$/cancel_request", "params": {"requestId": int() | str() as number}}:
                if number in self._answering:
                    self._answering[number].cancel()
            case {"method": str(method)}:
                self._take_note(method, as_object(message.get("params")))
            case {"id": int(number)} if number in self._calls:
                self._take_answer(self._calls.pop(number), message)
            case _:
                log.debug("agent's line is no message", bytes=len(line))

    def _take_note(self, method: str, params: Params) -> None:
        try:
            self._peer.take_note(method, params)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this notification's alone
            log.warning("agent's notification failed", method=method, error=type(error).__name__)

    def _take_answer(self, call: Call, message: Params) -> None:
        match message.get("error"):
            case {"code": int(code), **rest}:
                call.fail(RpcError(code, str(rest.get("message", ""))))
            case None:
                call.succeed(message.get("result"))
            case _:
                call.fail(RpcError(INTERNAL_ERROR))

    async def _take_request(
        self, number: int | str, method: str, params: Params, nursery: trio.Nursery
    ) -> None:
        if number in self._answering or len(self._answering) >= MAX_REQUESTS:
            # Waiting here makes the other side wait, too.
            await self._refuse(
                number, INTERNAL_ERROR, "too many requests, or one with an id in use"
            )
        else:
            self._answering[number] = trio.CancelScope()
            nursery.start_soon(self._answer, number, method, params)

    async def _answer(self, number: int | str, method: str, params: Params) -> None:
        try:
            with self._answering[number] as scope:
                result = orjson.Fragment(orjson.dumps(await self._peer.answer(method, params)))
        except RpcError as error:
            await self._refuse(number, error.code, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this request's alone
            log.error("agent's request failed", method=method, error=type(error).__name__)
            await self._refuse(number, INTERNAL_ERROR, "internal error")
        else:
            if scope.cancelled_caught:
                await self._refuse(number, REQUEST_CANCELLED, "cancelled")
            else:
                await self._send({"id": number, "result": result})
        finally:
            del self._answering[number]

    async def _refuse(self, number: int | str, code: int, message: str) -> None:
        await self._send({"id": number, "error": {"code": code, "message": message}})


def as_object(value: object) -> Mapping[str, Any]:
    """`value`, if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}
