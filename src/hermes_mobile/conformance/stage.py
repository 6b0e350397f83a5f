"""Where one scenario is played: its connections, its fresh devices, its clock."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from hermes_mobile.conformance.connection import Connection
from hermes_mobile.conformance.scenario import Skip
from hermes_mobile.conformance.websocket import NoServerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermes_mobile.conformance.shapes import Shapes
    from hermes_mobile.conformance.target import Target


@define
class Stage:
    """What a scenario acts with. Every device that it names is new to the server."""

    target: Target
    shapes: Shapes
    able: frozenset[str]
    """Which of the `NEEDS` are met here."""
    _nursery: trio.Nursery
    mark: str = field(factory=lambda: secrets.token_hex(6))
    """What makes its names its own."""
    _connections: list[Connection] = field(factory=list)

    def device(self, name: str = "phone") -> str:
        """The id of a device of this scenario."""
        return f"{name}-{self.mark}"

    async def open(self, query: str = "") -> Connection:
        """A WebSocket that has said nothing yet. *Errors*: NoServerError."""
        try:
            with trio.fail_after(self.target.timeout):
                stream = await self.target.dial()
                connection = Connection(stream, target=self.target, shapes=self.shapes)
                self._connections.append(connection)
                dial = self.target.dial
                await self._nursery.start(connection.run, dial.host, dial.path + query)
        except (OSError, trio.BrokenResourceError) as error:
            raise NoServerError(_cause(error)) from error
        except trio.TooSlowError:
            raise NoServerError(f"no answer within {self.target.timeout:g} s") from None
        return connection

    async def connect(self, first: object) -> Connection:
        """A WebSocket on which `first` was sent."""
        connection = await self.open()
        await connection.send(first)
        return connection

    async def hello(
        self, name: str | None = "phone", *, token: str | None = None, **fields: Any
    ) -> Connection:
        """A device of this scenario that said hello; what answers that was not read yet."""
        hello: dict[str, Any] = {
            "t": "hello",
            "token": self.target.token if token is None else token,
        }
        if name is not None:
            hello["device"] = {"id": self.device(name), "name": name.title()}
        return await self.connect(hello | fields)

    async def join(
        self, name: str | None = "phone", *, token: str | None = None, **fields: Any
    ) -> Connection:
        """A device of this scenario that is ready."""
        connection = await self.hello(name, token=token, **fields)
        connection.ready = await connection.expect("ready")
        return connection

    async def request(self, head: str) -> str:
        """Send an HTTP request by hand; the head of the response."""
        received = b""
        with trio.move_on_after(self.target.timeout):
            async with await self.target.dial() as stream:
                await stream.send_all(head.replace("\n", "\r\n").encode())
                while b"\r\n\r\n" not in received:
                    if not (data := await stream.receive_some()):
                        break
                    received += data
        return received.partition(b"\r\n\r\n")[0].decode("latin-1")

    async def wait(self, seconds: float) -> None:
        """Let time pass. *Errors*: Skip, where that is more than the person's patience."""
        if seconds > self.target.patience:
            raise Skip(f"it takes {seconds:g} s, and --patience is {self.target.patience:g}")
        await trio.sleep(seconds)

    async def close(self) -> None:
        async with trio.open_nursery() as nursery:
            for connection in self._connections:
                nursery.start_soon(connection.leave)


@asynccontextmanager
async def open_stage(
    target: Target, shapes: Shapes, able: frozenset[str] = frozenset()
) -> AsyncIterator[Stage]:
    """A stage that closes its connections at the end of the block.

    *Errors*: what the block raises, not in a group.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        stage = Stage(target, shapes, able, nursery)
        try:
            yield stage
        except Exception as error:  # noqa: BLE001 - raised again outside of the nursery
            failure = error
        await stage.close()
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _cause(error: BaseException) -> str:
    """The innermost reason why a connection failed, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        return _cause(error.exceptions[0])
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
