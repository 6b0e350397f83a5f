"""A question and its reply: `client.ask`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from hermes_mobile.client.errors import OfflineError, RefusedError
from hermes_mobile.client.reply import Reply, ReplyCollector

if TYPE_CHECKING:
    from collections.abc import Generator

    from hermes_mobile.client.client import HermesClient
    from hermes_mobile.client.engine import Engine


class Ask:
    """A text that is sent when this is awaited, or first iterated over.

    The protocol does not say which message answers which. So a reply is what the agent says between
    the receipt of the text and the end of its work, one ask goes on at a time, and it waits for the
    end of what the agent works on already. A card that the agent shows meanwhile is an event like
    any other, for the app to answer.

    Iterating gives the newest state each time, and skips those that were overtaken; the last one is
    `done`. Leaving the loop early is fine.

    *Errors*: those of `send_text`; RefusedError `internal_error` when the agent failed;
    trio.BusyResourceError while another ask goes on.
    """

    def __init__(self, client: HermesClient, engine: Engine, text: str, id: str) -> None:
        self.id = id
        self._client = client
        self._engine = engine
        self._text = text
        self._collector: ReplyCollector | None = None
        self._told = Reply()
        self._connection = 0
        """The connection on which the server was last asked whether the agent works."""

    def __await__(self) -> Generator[Any, Any, Reply]:
        return self._whole().__await__()

    def __aiter__(self) -> Ask:
        return self

    async def __anext__(self) -> Reply:
        if self._told.done:
            raise StopAsyncIteration
        collector = self._collector
        if collector is None:
            collector = self._collector = await self._begin()
            self._told = collector.reply
        while True:
            if collector.error is not None:
                self._engine.collectors.discard(collector)
                error = collector.error
                raise RefusedError(error.code, error.message, error.id)
            if self._is_over(collector):
                collector.finish()
                self._engine.collectors.discard(collector)
            if collector.reply is not self._told:
                self._told = collector.reply
                return self._told
            await self._wait()

    async def _whole(self) -> Reply:
        async for _ in self:
            pass
        return self._told

    async def _begin(self) -> ReplyCollector:
        """Send the text when the agent has nothing else to do."""
        engine = self._engine
        if engine.collectors:
            raise trio.BusyResourceError("another ask goes on")
        collector = ReplyCollector(self.id)
        engine.collectors.add(collector)
        try:
            ready = await self._client.wait_ready()
            while engine.working:
                engine.raise_failure()
                await engine.changed.park()
            collector.accepted = not ready.capabilities.receipts
            await self._client.send_text(self._text, id=self.id)
        except BaseException:
            engine.collectors.discard(collector)
            raise
        return collector

    def _is_over(self, collector: ReplyCollector) -> bool:
        return (
            self._all_is_heard
            and not self._engine.working
            and (collector.begun or collector.answered)
        )

    @property
    def _all_is_heard(self) -> bool:
        """Whether the server has told on this connection what happened before it (D13)."""
        return self._client.ready and self._connection == self._engine.connections

    async def _wait(self) -> None:
        """Wait for something to happen to the reply."""
        if self._all_is_heard:
            await self._engine.changed.park()
        else:
            await self._ask_whether_it_works()

    async def _ask_whether_it_works(self) -> None:
        """Hear all that a connection has to say, by a ping that comes behind the text itself.

        A turn begins within the moment after its receipt: when the pong comes, either the agent is
        shown to work, or it has said everything.
        """
        try:
            await self._client.ping()
            self._connection = self._engine.connections
        except OfflineError:
            await self._client.wait_ready()
