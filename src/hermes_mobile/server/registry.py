"""All sessions, and the bounds on what is kept for devices that are away (D32)."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import structlog
import trio

from hermes_mobile.server.session import Session
from hermes_mobile.server.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_mobile.server.hub import Hub

log = structlog.get_logger()


class Registry:
    """Sessions by device id. One that is away and has nothing worth keeping is forgotten at once."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._sessions: dict[str, Session] = {}
        self._away: dict[str, Session] = {}  # the longest away first
        self._kept: dict[str, int] = {}  # bytes, of each session that is away
        self.kept_bytes = 0
        self._next_expiry = math.inf
        self._janitor = Timer(lambda: self._next_expiry, self._expire)

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    @property
    def units(self) -> int:
        """What devices have not confirmed."""
        return sum(len(session.mailbox) for session in self._sessions.values())

    def get(self, device_id: str) -> Session | None:
        return self._sessions.get(device_id)

    def open(self, device_id: str) -> Session:
        """The session of a device, made when there is none."""
        session = self._sessions.get(device_id)
        if session is None:
            session = self._sessions[device_id] = Session(self._hub, device_id)
        return session

    def settle(self, session: Session) -> None:
        """Account for a session whose connection, mailbox or work has changed."""
        device_id = session.device_id
        if self._sessions.get(device_id) is not session:
            return
        if session.connection is not None:
            self._away.pop(device_id, None)
            self.kept_bytes -= self._kept.pop(device_id, 0)
            return
        now = trio.current_time()
        if not session.worth_keeping(now):
            self._forget(session)
            return
        self._away.setdefault(device_id, session)
        self._account(session, session.mailbox.bytes)
        self._keep_bounds()
        if now < (expiry := session.expiry) < self._next_expiry:
            self._next_expiry = expiry
            self._janitor.touch(expiry)

    async def run(self) -> None:
        """Let go of what was kept long enough, when it is due."""
        await self._janitor.run()

    def _keep_bounds(self) -> None:
        settings = self._hub.settings
        excess = max(0, len(self._away) - settings.max_sessions)
        idle = (session for session in self._away.values() if not session.in_use)
        for session in list(islice(idle, excess)):
            self._drop_units(session)
            self._forget(session)
        holding = (session for session in self._away.values() if self._kept[session.device_id])
        while self.kept_bytes > settings.keep_total_bytes and (longest := next(holding, None)):
            self._drop_units(longest)

    def _drop_units(self, session: Session) -> None:
        dropped = session.mailbox.drop_all()
        log.warning("units dropped", session=session.name, units=dropped)
        session.give_up(dropped)
        self._account(session, session.mailbox.bytes)

    def _account(self, session: Session, kept_bytes: int) -> None:
        self.kept_bytes += kept_bytes - self._kept.get(session.device_id, 0)
        self._kept[session.device_id] = kept_bytes

    def _forget(self, session: Session) -> None:
        self._away.pop(session.device_id, None)
        self.kept_bytes -= self._kept.pop(session.device_id, 0)
        del self._sessions[session.device_id]

    def _expire(self, now: float) -> None:
        self._next_expiry = math.inf
        for session in list(self._away.values()):
            session.give_up(session.mailbox.drop_expired(now))
            self.settle(session)
