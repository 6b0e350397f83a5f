"""What one device is still owed: units that it has not confirmed, in the order they were made (D32)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hermes_mobile.server.units import StreamUnit, Unit


class Mailbox:
    """`max_units`, `max_bytes`: what it may hold; `max_age`: seconds that a unit is kept."""

    __slots__ = ("_max_age", "_max_bytes", "_max_units", "_units", "bytes")

    def __init__(self, max_units: int, max_bytes: int, max_age: float) -> None:
        self._units: dict[Unit, None] = {}
        self.bytes = 0
        self.bound(max_units, max_bytes, max_age)

    def bound(self, max_units: int, max_bytes: int, max_age: float) -> None:
        """Keep to these bounds from now on; what is beyond them is dropped when that is asked."""
        self._max_units = max_units
        self._max_bytes = max_bytes
        self._max_age = max_age

    def __len__(self) -> int:
        return len(self._units)

    def __contains__(self, unit: Unit | None) -> bool:
        return unit in self._units

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units)

    def has_room(self, size: int) -> bool:
        """Whether a unit of `size` bytes fits; where nothing is outstanding, any does.

        What is left then are streams that still grow, perhaps by whoever asks.
        """
        return (
            len(self._units) < self._max_units and self.bytes + size <= self._max_bytes
        ) or not any(unit.outstanding for unit in self._units)

    @property
    def pressing(self) -> bool:
        """Half of it is used: what was written should be confirmed now, not in a second."""
        return 2 * len(self._units) >= self._max_units or 2 * self.bytes >= self._max_bytes

    def add(self, unit: Unit) -> None:
        self._units[unit] = None
        self.bytes += unit.size

    def remove(self, unit: Unit) -> None:
        """Owe `unit` no more; whoever waits for it learns what became of it."""
        if unit in self._units:
            del self._units[unit]
            self.bytes -= unit.size
            unit.settle()

    def update(self, unit: StreamUnit, text: str, *, final: bool) -> bool:
        """Give a streamed unit its newer state; returns whether it is the first, which adds it."""
        before = unit.size
        unit.update(text, final=final)
        if unit in self._units:
            self.bytes += unit.size - before
            return False
        self.add(unit)
        return True

    def confirm(self, ping: int) -> list[Unit]:
        """Take the pong of `ping`: returns the units that are done, which are forgotten."""
        done: list[Unit] = []
        for unit in self._units:
            if unit.confirmed_by is None or unit.confirmed_by > ping:
                continue
            unit.confirmed_by = None
            unit.outstanding = unit.queued
            unit.mark_seen()
            if unit.complete and not unit.outstanding:
                done.append(unit)
        for unit in done:
            self.remove(unit)
        return done

    # Dropping returns how many units it dropped. Open cards stay, and streams that still grow.

    def drop_beyond_bounds(self) -> int:
        """Drop the oldest units until the bounds are kept."""
        return self._drop(
            lambda _: len(self._units) > self._max_units or self.bytes > self._max_bytes
        )

    def drop_expired(self, now: float) -> int:
        """Drop what is older than may be kept."""
        return self._drop(lambda unit: now >= unit.made_at + self._max_age)

    def drop_all(self) -> int:
        return self._drop(lambda _: True)

    def _drop(self, doomed: Callable[[Unit], bool]) -> int:
        dropped = 0
        for unit in list(self._units):
            if unit.may_be_dropped and doomed(unit):
                self.remove(unit)
                dropped += 1
        return dropped

    def next_expiry(self) -> float | None:
        """When the oldest unit will have been kept long enough; None when there is none.

        It need not be the first: while it waited for room, another may have been said.
        """
        made = (unit.made_at for unit in self._units if unit.may_be_dropped)
        return min((at + self._max_age for at in made), default=None)
