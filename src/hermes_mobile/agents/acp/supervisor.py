"""Keeps the agent's program running: one at a time, started again when it ends."""

from __future__ import annotations

from math import inf
from random import random
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
import trio

from hermes_mobile.agents.acp.client import Client, VersionError
from hermes_mobile.agents.acp.jsonrpc import ConnectionLostError, RpcError
from hermes_mobile.agents.acp.process import log_standard_error
from hermes_mobile.protocol.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from hermes_mobile.agents import AgentSettings
    from hermes_mobile.agents.acp.process import Program
    from hermes_mobile.agents.acp.session_ids import SessionIds

    Opener: TypeAlias = Callable[[AgentSettings], AbstractAsyncContextManager[Program]]

log = structlog.get_logger()

LONGEST_PAUSE: Final = 30.0
"""Seconds before the program is started again."""
DRAIN_SECONDS: Final = 1.0
"""Between the end of the program and that of its streams, whichever comes first."""
WAIT_SECONDS: Final = 120.0
"""For a message that finds no program: it may be starting."""


class AgentAwayError(Exception):
    """The agent's program does not run, and did not come back in time."""


class Supervisor:
    """The one program of `settings`; `run` has to run while it is used."""

    def __init__(self, settings: AgentSettings, ids: SessionIds, open_program: Opener) -> None:
        self._settings = settings
        self._open = open_program
        self._ids = ids
        self._client: Client | None = None
        self._started = trio.Event()
        self._ready_at = inf

    @property
    def ready(self) -> bool:
        return self._client is not None

    async def client(self) -> Client:
        """The program that runs, waited for. Errors: AgentAwayError."""
        with trio.move_on_after(WAIT_SECONDS):
            while self._client is None:
                await self._started.wait()
            return self._client
        raise AgentAwayError

    async def run(self) -> None:
        """Start the program again and again, with longer and longer pauses while it fails."""
        backoff = Backoff(LONGEST_PAUSE, random)
        while True:
            lived = await self._live()
            pause = backoff.pause(lived)
            log.warning("agent is started again", seconds=round(pause, 1), attempt=backoff.attempt)
            await trio.sleep(pause)

    async def _live(self) -> float:
        """Run the program once; returns for how many seconds it was ready."""
        self._ready_at = inf
        try:
            async with self._open(self._settings) as program, trio.open_nursery() as nursery:
                client = Client(self._settings, self._ids, program.stdout, program.stdin)
                nursery.start_soon(log_standard_error, program.stderr)
                nursery.start_soon(self._introduce, client)
                nursery.start_soon(_watch, program, client)
                await client.connection.run()
                self._withdraw()
                await _tell_end(program, client)
                nursery.cancel_scope.cancel()
        except OSError as error:
            log.error("agent cannot be started", error=error.strerror)
        finally:
            self._withdraw()
        return max(0.0, trio.current_time() - self._ready_at)

    async def _introduce(self, client: Client) -> None:
        """Offer the program to turns, once it has introduced itself."""
        try:
            await client.initialize()
        except ConnectionLostError:
            return
        except (RpcError, VersionError, trio.TooSlowError) as error:
            log.error("agent does not answer as ACP wants", error=type(error).__name__)
            client.connection.close()
            return
        said = client.capabilities
        log.info("agent ready", agent=said.name, version=said.version)
        self._ready_at = trio.current_time()
        self._client = client
        self._started.set()

    def _withdraw(self) -> None:
        if self._client is not None:
            self._client = None
            self._started = trio.Event()


async def _watch(program: Program, client: Client) -> None:
    """See the program end, even where something that it started keeps its streams open."""
    await program.wait()
    await trio.sleep(DRAIN_SECONDS)
    client.connection.close()


async def _tell_end(program: Program, client: Client) -> None:
    """Log how the program ended; one that we gave up on, or that only fell silent, runs still."""
    status = None
    if not client.connection.closed:
        with trio.move_on_after(DRAIN_SECONDS):
            status = await program.wait()
    log.warning("agent ended", status=status)
