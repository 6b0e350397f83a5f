"""The server's figures in the text format of Prometheus; `docs/http.md` tells what they mean.

Series whose labels are known from the start are there from the start, at zero.
"""

from __future__ import annotations

import platform
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import trio
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from hermes_mobile import __version__
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.server.metrics import (
    CARD_OUTCOMES,
    CLIENT_FRAMES,
    HELLO_REFUSALS,
    INVALID,
    SERVER_FRAMES,
    TURN_OUTCOMES,
    WAKE_OUTCOMES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric

    from hermes_mobile.http.lag import LoopLag
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.metrics import Histogram

MEDIA_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
PREFIX: Final = "hermes_mobile_"
PROCESS: Final = ProcessCollector(registry=None)


def write(hub: Hub, lag: LoopLag) -> bytes:
    """All figures as they stand now."""
    return generate_latest(Figures(hub, lag))


class Figures(Collector):
    """What the server counts, and what is looked up at the moment of asking."""

    def __init__(self, hub: Hub, lag: LoopLag) -> None:
        self._hub = hub
        self._metrics = hub.metrics
        self._lag = lag

    def collect(self) -> Iterator[Metric]:
        yield from self._connections()
        yield from self._frames()
        yield from self._sessions()
        yield from self._turns()
        yield from self._cards_and_uploads()
        tasks = trio.lowlevel.current_statistics().tasks_living
        yield gauge("tasks", "Trio tasks that live.", tasks)
        yield gauge("loop_lag_seconds", "How late the event loop was last.", self._lag.last)
        yield gauge("loop_lag_max_seconds", "How late it was at most.", self._lag.most)
        versions = {"python": platform.python_version(), "trio": trio.__version__}
        build = {"version": __version__, **versions}
        yield InfoMetricFamily(f"{PREFIX}build", "What runs here.", build)
        yield from PROCESS.collect()

    def _connections(self) -> Iterator[Metric]:
        metrics, connections = self._metrics, self._hub.connections
        yield gauge("connections_open", "Open connections.", len(connections))
        yield counter("connections", "Connections accepted.", [((), metrics.connections)])
        yield counter(
            "hello_refusals",
            "Connections refused before they were ready.",
            (((reason,), metrics.hello_refusals[reason]) for reason in HELLO_REFUSALS),
            "reason",
        )
        outboxes = [connection.outbox for connection in connections]
        frames, size = sum(box.frames for box in outboxes), sum(box.bytes for box in outboxes)
        yield gauge("outbox_frames", "Frames that wait to be written.", frames)
        yield gauge("outbox_bytes", "Bytes that wait to be written.", size)

    def _frames(self) -> Iterator[Metric]:
        metrics = self._metrics
        for name, text, received, sent in (
            ("frames", "Frames.", metrics.frames_in, metrics.frames_out),
            ("frame_bytes", "Bytes of frames.", metrics.bytes_in, metrics.bytes_out),
        ):
            inward = [(("in", t), received[t]) for t in (*CLIENT_FRAMES.values(), INVALID)]
            outward = [(("out", t), sent[t]) for t in SERVER_FRAMES.values()]
            errors = [(("out", "error"), sum(sent[code] for code in ErrorCode))]
            yield counter(name, text, inward + outward + errors, "direction", "type")
        codes = [((code.value,), metrics.frames_out[code]) for code in ErrorCode]
        yield counter("errors", "Error frames sent.", codes, "code")

    def _sessions(self) -> Iterator[Metric]:
        sessions = list(self._hub.registry)
        connected = sum(session.connection is not None for session in sessions)
        known = GaugeMetricFamily(f"{PREFIX}sessions", "Known devices.", labels=["state"])
        known.add_metric(["connected"], connected)
        known.add_metric(["away"], len(sessions) - connected)
        yield known
        waiting = sum(len(session.inbox) for session in sessions)
        yield gauge("messages_waiting", "Messages that wait for the agent.", waiting)
        units, size = sum(len(s.mailbox) for s in sessions), sum(s.mailbox.bytes for s in sessions)
        yield gauge("units_kept", "Units that their device has not confirmed.", units)
        yield gauge("units_kept_bytes", "Bytes of those units.", size)
        metrics = self._metrics
        yield counter("units_confirmed", "Units that arrived.", [((), metrics.units_confirmed)])
        yield counter("units_dropped", "Units given up.", [((), metrics.units_dropped)])
        wakes = [((outcome,), metrics.wakes[outcome]) for outcome in WAKE_OUTCOMES]
        yield counter("wakes", "Times that the wake command ran.", wakes, "outcome")

    def _turns(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield gauge("turns_running", "Turns that the agent works on.", self._hub.running_turns)
        outcomes = [((outcome,), metrics.turns[outcome]) for outcome in TURN_OUTCOMES]
        yield counter("turns", "Turns that ended.", outcomes, "outcome")
        yield histogram("turn_seconds", "How long turns took.", metrics.turn_seconds)

    def _cards_and_uploads(self) -> Iterator[Metric]:
        metrics = self._metrics
        yield gauge("cards_open", "Cards without an answer.", len(self._hub.card_sessions))
        cards = [
            ((kind.value, outcome), metrics.cards[kind, outcome])
            for kind, outcomes in CARD_OUTCOMES.items()
            for outcome in outcomes
        ]
        yield counter("cards", "Cards that closed.", cards, "kind", "outcome")
        uploads = [
            (("completed",), metrics.uploads_completed),
            (("refused",), metrics.uploads_refused),
        ]
        yield counter("uploads", "Files from apps.", uploads, "outcome")
        yield counter("upload_bytes", "Bytes of completed files.", [((), metrics.upload_bytes)])
        received = self._hub.received
        files, size = (0, 0) if received is None else (len(received), received.bytes)
        yield gauge("received_files", "Files of apps that are kept on disk.", files)
        yield gauge("received_bytes", "Bytes of those files.", size)
        failed = [((), metrics.received_failed)]
        yield counter("received_failed", "Files that could not be kept.", failed)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value)


def counter(
    name: str, text: str, values: Iterable[tuple[tuple[str, ...], float]], *label_names: str
) -> Metric:
    """`values` after the values of their labels; the format adds `_total` to the name."""
    family = CounterMetricFamily(PREFIX + name, text, labels=label_names)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def histogram(name: str, text: str, values: Histogram) -> Metric:
    bounds = [*(str(bound) for bound in values.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(values.counts), strict=True))
    return HistogramMetricFamily(PREFIX + name, text, buckets, values.sum)
