"""How often an address may fail, and how many may be waited for (D37). Time is an argument."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from ipaddress import IPv6Network
from typing import TYPE_CHECKING, Final

from attrs import define

if TYPE_CHECKING:
    from hermes_mobile.server.settings import Settings

WINDOW: Final = 60.0
"""Seconds within which failures count together, and for which their address is then refused."""
HELLO_SECONDS: Final = 1.0
"""What each hello of a slowed address takes."""
MAX_HELLO_DELAY: Final = 30.0
"""Seconds; abandoned hellos cannot make the next one wait longer."""
MAX_ADDRESSES: Final = 10_000
"""Addresses with failures that are remembered; beyond it the oldest goes."""


@define
class _Record:
    failures: deque[float]
    refused_until: float = 0.0
    hello_free_at: float = 0.0


class Throttle:
    """Failed hellos, by client address; IPv6 counts by /64. None as the client is exempt."""

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.throttle_failures
        self._records: OrderedDict[str, _Record] = OrderedDict()
        """In the order of the last failure."""
        self._sessions: Counter[str] = Counter()

    def apply(self, settings: Settings) -> None:
        """Count to another limit from now on, with what was counted so far."""
        self._limit = settings.throttle_failures
        if not self._limit:
            self._records.clear()
        for record in self._records.values():
            record.failures = deque(record.failures, maxlen=self._limit)

    def failed(self, client: str | None, now: float) -> None:
        """Count an `auth_failed` or a `forbidden`."""
        if client is None or not self._limit:
            return
        self._forget(now)
        key = _key(client)
        record = self._records.setdefault(key, _Record(deque(maxlen=self._limit)))
        self._records.move_to_end(key)
        record.failures.append(now)
        if len(record.failures) == self._limit and now - record.failures[0] <= WINDOW:
            record.refused_until = now + WINDOW
        if len(self._records) > MAX_ADDRESSES:
            self._records.popitem(last=False)

    def refuse_upgrade(self, client: str | None, now: float) -> bool:
        """Whether an upgrade is answered 429: after too many failures, without a live session."""
        if client is None:
            return False
        self._forget(now)
        key = _key(client)
        record = self._records.get(key)
        return record is not None and now < record.refused_until and not self._sessions[key]

    def hello_delay(self, client: str | None, now: float) -> float:
        """Take the next turn to say hello; return the seconds until it is over.

        Zero without too many failures, else the hellos of an address take a second each.
        """
        record = None if client is None else self._records.get(_key(client))
        if record is None or now >= record.refused_until:
            return 0.0
        over_at = max(now, record.hello_free_at) + HELLO_SECONDS
        record.hello_free_at = min(over_at, now + MAX_HELLO_DELAY)
        return record.hello_free_at - now

    def session_opened(self, client: str | None) -> None:
        """Spare an address while it has a live session."""
        if client is not None:
            self._sessions[_key(client)] += 1

    def session_closed(self, client: str | None) -> None:
        if client is not None:
            _decrement(self._sessions, _key(client))

    def _forget(self, now: float) -> None:
        while self._records:
            key, record = next(iter(self._records.items()))
            if now - record.failures[-1] <= WINDOW:
                return
            del self._records[key]


class PendingHellos:
    """Connections that have not said hello yet, in all and by client address."""

    def __init__(self, settings: Settings) -> None:
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Keep to other limits from now on; who waits already goes on waiting."""
        self._limit = settings.max_pending
        self._limit_per_address = settings.max_pending_per_address

    def enter(self, client: str | None) -> bool:
        """Count a new connection, or refuse it with 503; a None client counts only in all."""
        if self._limit and self._total >= self._limit:
            return False
        if client is not None:
            key = _key(client)
            if self._limit_per_address and self._by_address[key] >= self._limit_per_address:
                return False
            self._by_address[key] += 1
        self._total += 1
        return True

    def leave(self, client: str | None) -> None:
        """Stop counting a connection that entered."""
        self._total -= 1
        if client is not None:
            _decrement(self._by_address, _key(client))


def _key(client: str) -> str:
    return str(IPv6Network((client, 64), strict=False)) if ":" in client else client


def _decrement(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
