"""What Hermes says, as requests of the link; and how it went, in Hermes' words."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from gateway.platforms.base import SendResult

from .link import LinkLostError, RefusedError
from .streams import Streams

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from .link import Link, Message
    from .turns import Turns


class _Hush:
    """Over once it is not `on`, in the tasks too that began in it."""

    on = True


_hush: ContextVar[_Hush | None] = ContextVar("hush", default=None)


@contextmanager
def hush() -> Iterator[None]:
    """What Hermes says within is not to be passed on: of `/stop`, the server has told already."""
    now = _Hush()
    before = _hush.set(now)
    try:
        yield
    finally:
        now.on = False
        _hush.reset(before)


def hushed() -> bool:
    """Whether what is said now is not to be passed on."""
    now = _hush.get()
    return now is not None and now.on


class Speech:
    """Says things to devices: within the turn that Hermes works on, else to the device alone."""

    def __init__(self, link: Link, turns: Turns) -> None:
        self._link = link
        self._turns = turns
        self._streams = Streams(link)

    async def reply(self, device: str, text: str) -> Any:
        return await self._told(self._request(device, "reply", text=text))

    async def send_file(self, device: str, fields: Message) -> Any:
        return await self._told(self._request(device, "file", **fields))

    async def show_working(self, device: str) -> None:
        """Show again that work goes on; outside a turn there is nothing to show it in."""
        turn = self._turns.current(device)
        if turn is not None:
            await self._told(self._link.request(device, "working", turn=turn.id))

    async def begin_stream(self, device: str, text: str) -> Any:
        return await self._told(self._streams.begin(device, self._where(device), text))

    async def edit_stream(self, device: str, name: str, text: str, *, final: bool) -> Any:
        return await self._told(self._streams.edit(device, name, text, final=final))

    async def finish_streams(self, device: str) -> None:
        """End what Hermes left open."""
        await self._streams.finish(device)

    async def _request(self, device: str, t: str, **fields: Any) -> Message:
        """A request in the current turn; outside of it, if the server knows that it is over already."""
        where = self._where(device)
        try:
            return await self._link.request(device, t, **where, **fields)
        except RefusedError as error:
            if error.code != "turn_over" or "turn" not in where:
                raise
            self._turns.forget(where["turn"])
            return await self._link.request(device, t, device=device, **fields)

    def _where(self, device: str) -> dict[str, str]:
        turn = self._turns.current(device)
        return {"device": device} if turn is None else {"turn": turn.id}

    @staticmethod
    async def _told(work: Coroutine[Any, Any, Message]) -> Any:
        """Do it, and say how it went: after a `transient` failure, Hermes tries again."""
        try:
            done = await work
        except RefusedError as error:
            return SendResult(success=False, error=str(error), error_kind="bad_format")
        except LinkLostError as error:
            return SendResult(
                success=False, error=str(error), error_kind="transient", retryable=True
            )
        return SendResult(success=True, message_id=done.get("message"))
