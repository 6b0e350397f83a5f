"""Latencies in HdrHistograms: three significant digits from a microsecond to an hour."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LOWEST_US: Final = 1
HIGHEST_US: Final = 3_600_000_000
DIGITS: Final = 3
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)


class Latencies:
    """A distribution of durations. They come in seconds, or in what another one encoded."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)

    def __len__(self) -> int:
        total: int = self._histogram.get_total_count()
        return total

    def record(self, seconds: Iterable[float]) -> None:
        """Take in many at once: equal microseconds are counted before they are recorded."""
        for value, count in Counter(round(each * 1e6) for each in seconds).items():
            self._histogram.record_value(min(max(value, LOWEST_US), HIGHEST_US), count)

    def encode(self) -> bytes:
        encoded: bytes = self._histogram.encode()
        return encoded

    def add(self, encoded: bytes) -> None:
        self._histogram.decode_and_add(encoded)

    def percentile(self, percent: float) -> float:
        """In seconds; 100 is the greatest. 0 when nothing was recorded."""
        if not len(self):
            return 0.0
        if percent == 100:  # noqa: PLR2004 - percent
            return float(self._histogram.get_max_value()) / 1e6
        return float(self._histogram.get_value_at_percentile(percent)) / 1e6

    def curve(self) -> list[tuple[float, float]]:
        """Percentiles below 100 with their values in seconds, denser towards the end."""
        return [
            (item.percentile_level_iterated_to, item.value_iterated_to / 1e6)
            for item in self._histogram.get_percentile_iterator(5)
            if item.percentile_level_iterated_to < 100  # noqa: PLR2004 - percent
        ]

    def summary(self) -> dict[str, float]:
        """What goes into JSON: the count, and seconds."""
        percentiles = {f"p{percent:g}": self.percentile(percent) for percent in PERCENTILES}
        return {"count": len(self), **percentiles, "max": self.percentile(100)}


class Recorder:
    """Durations by the name of their series, gathered as cheaply as can be until they are taken."""

    def __init__(self) -> None:
        self._series: dict[str, list[float]] = {}

    def series(self, name: str) -> list[float]:
        """The list to append to, in seconds; it stays the same for ever."""
        return self._series.setdefault(name, [])

    def take(self) -> Mapping[str, bytes]:
        """All that came since the last time, as encoded `Latencies`."""
        taken = {}
        for name, values in self._series.items():
            if values:
                latencies = Latencies()
                latencies.record(values)
                taken[name] = latencies.encode()
                values.clear()
        return taken
