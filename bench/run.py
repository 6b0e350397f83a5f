"""A scenario from begin to end, as the parent process sees it: workers, windows, the server."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from bench.histogram import Latencies
from bench.process import Usage, read_usage, reset_peak
from bench.worker import TICK_SECONDS, Ended, Stage, Tick, run_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection

    from bench.plan import Load, Target
    from bench.scenario import Scenario

BUSY: Final = 0.9
"""The share of a core above which the generator itself may be what limits a throughput."""
LEAST_SECOND: Final = 0.2
"""A shorter rest of a window is no second of its timeline: its rates would be noise."""
EXIT_SECONDS: Final = 5.0
"""For a worker that said its last word to be gone."""


class WorkerFailedError(Exception):
    """A worker process ended in an exception; the message is its traceback."""


@define
class Second:
    """About one second of a window: counts per second, latencies in seconds, the server's state."""

    at: float
    rate: float
    p50: float
    p99: float
    errors: int
    load_cpu: float
    server_cpu: float | None
    server_rss: int | None


@define
class Window:
    """What was measured between two moments at which all workers met.

    `load_cpu` is the share of a core that the busiest worker used. `before` and `after` are None
    for a server that is not on this machine.
    """

    name: str
    seconds: float = 0.0
    latencies: dict[str, Latencies] = field(factory=dict)
    errors: Counter[str] = field(factory=Counter)
    load_cpu: float = 0.0
    before: Usage | None = None
    after: Usage | None = None
    timeline: list[Second] = field(factory=list)

    def count(self, series: str) -> int:
        return len(self.latencies.get(series, ()))

    def rate(self, series: str) -> float:
        return self.count(series) / self.seconds if self.seconds else 0.0

    def percentile(self, series: str, percent: float) -> float:
        """In seconds; 0 when there was nothing."""
        latencies = self.latencies.get(series)
        return 0.0 if latencies is None else latencies.percentile(percent)

    @property
    def server_cpu(self) -> float | None:
        """Seconds of CPU that the server used."""
        return None if self.after is None else self.after.cpu_since(self.before)

    def cpu_per(self, series: str) -> float | None:
        """The server's CPU per unit, in seconds."""
        count, cpu = self.count(series), self.server_cpu
        return cpu / count if cpu is not None and count else None

    @property
    def counts(self) -> bool:
        """Whether a throughput says something of the server, and not of the generator."""
        return self.load_cpu < BUSY


@define
class Run:
    """All that a run of a scenario told.

    `at_rest` is the server's process, and `gauges` its own metrics, before and after all connections.
    """

    scenario: str
    unit: str
    load: Load
    windows: dict[str, Window] = field(factory=dict)
    at_rest: tuple[Usage | None, Usage | None] = (None, None)
    gauges: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {})

    @property
    def first(self) -> Window:
        return next(iter(self.windows.values()))


@define
class _Recording:
    """The run that is going on."""

    run: Run
    pid: Callable[[], int | None]
    show: Callable[[str, Second], None]
    _window: Window | None = None
    _usage: Usage | None = None
    _usage_at: float = 0.0
    _unit: Latencies = field(factory=Latencies)
    _ticks: dict[int, list[Tick]] = field(factory=lambda: defaultdict(list))
    """By worker; both since the last second ended."""
    _cpu: dict[int, float] = field(factory=lambda: defaultdict(float))
    _seconds: dict[int, float] = field(factory=lambda: defaultdict(float))

    def usage(self) -> Usage | None:
        pid = self.pid()
        if pid is None:
            return None
        with suppress(OSError):  # it ended, or is being restarted
            return read_usage(pid)
        return None

    def begin(self, name: str) -> None:
        pid = self.pid()
        if pid is not None:
            reset_peak(pid)
        self._usage, self._usage_at = self.usage(), time.monotonic()
        self._window = self.run.windows[name] = Window(name, before=self._usage)
        self._cpu.clear()
        self._seconds.clear()

    def end(self) -> None:
        window = self._window
        if window is None:
            return
        if not window.timeline or self._lasted >= LEAST_SECOND:
            self._end_second(window)
        window.after = self.usage()
        self._window = None
        self._new_second()

    def tick(self, worker: int, tick: Tick) -> None:
        window = self._window
        if window is None:
            return
        window.errors.update(tick.errors)
        for series, encoded in tick.histograms.items():
            window.latencies.setdefault(series, Latencies()).add(encoded)
            if series == self.run.unit:
                self._unit.add(encoded)
        self._cpu[worker] += tick.cpu
        self._seconds[worker] += tick.seconds
        window.seconds = max(self._seconds.values())
        window.load_cpu = max(cpu / self._seconds[each] for each, cpu in self._cpu.items())
        self._ticks[worker].append(tick)
        if len(self._ticks) == self.run.load.processes and self._lasted >= TICK_SECONDS:
            self._end_second(window)

    @property
    def _lasted(self) -> float:
        """How long the current second is so far."""
        return max((sum(tick.seconds for tick in each) for each in self._ticks.values()), default=0)

    def _end_second(self, window: Window) -> None:
        ticks = [tick for ticks in self._ticks.values() for tick in ticks]
        before, before_at = self._usage, self._usage_at
        self._usage, self._usage_at = now, now_at = self.usage(), time.monotonic()
        cpu = None if now is None else now.cpu_since(before)
        second = Second(
            at=window.seconds,
            rate=len(self._unit) / self._lasted,
            p50=self._unit.percentile(50),
            p99=self._unit.percentile(99),
            errors=sum(sum(tick.errors.values()) for tick in ticks),
            load_cpu=max(tick.cpu / tick.seconds for tick in ticks),
            server_cpu=None if cpu is None else cpu / (now_at - before_at),
            server_rss=None if now is None else now.rss,
        )
        self._new_second()
        window.timeline.append(second)
        self.show(window.name, second)

    def _new_second(self) -> None:
        self._ticks.clear()
        self._unit = Latencies()


def run(
    scenario: Scenario,
    target: Target,
    load: Load,
    *,
    pid: Callable[[], int | None] = lambda: None,
    show: Callable[[str, Second], None] = lambda _name, _second: None,
    stages: Mapping[str, Callable[[], Any]] | None = None,
    gauges: Callable[[], Mapping[str, float]] = dict,
    core: int | None = None,
) -> Run:
    """Run a scenario to its end.

    `pid` is the server's, where it can be looked at; `show` is told each second of a window;
    `stages` is what to do when all workers have come to a stage of that name, `gauges` reads the
    server's own metrics.

    *Errors*: WorkerFailedError.
    """
    made = Run(scenario.name, scenario.unit, load)
    recording = _Recording(made, pid, show)
    at_rest, gauges_before = recording.usage(), gauges()
    context = multiprocessing.get_context("spawn")
    pipes: dict[Connection, int] = {}
    processes = []
    try:
        for share in range(load.processes):
            ours, theirs = context.Pipe()
            arguments = (theirs, scenario.name, target, load, share, core)
            process = context.Process(target=run_worker, args=arguments, daemon=True)
            process.start()
            theirs.close()
            pipes[ours] = share
            processes.append(process)
        _listen(pipes, recording, stages or {})
    finally:
        for process in processes:
            process.join(0 if sys.exc_info()[0] else EXIT_SECONDS)
            process.terminate()
            process.join()
    made.at_rest = at_rest, recording.usage()
    made.gauges = gauges_before, gauges()
    return made


def _listen(
    pipes: dict[Connection, int], recording: _Recording, stages: Mapping[str, Callable[[], Any]]
) -> None:
    """Hear the workers out."""
    waiting: list[Connection] = []
    while pipes:
        ready = wait(list(pipes))
        for pipe, share in [each for each in pipes.items() if each[0] in ready]:
            match _receive(pipe):
                case Tick() as tick:
                    recording.tick(share, tick)
                case Stage(name):
                    waiting.append(pipe)
                    if len(waiting) == len(pipes):
                        answer = _reach(name, recording, stages)
                        for each in waiting:
                            each.send(answer)
                        waiting.clear()
                case Ended(failure):
                    if failure:
                        raise WorkerFailedError(failure)
                    del pipes[pipe]


def _receive(pipe: Any) -> Tick | Stage | Ended:
    try:
        message: Tick | Stage | Ended = pipe.recv()
    except EOFError:
        return Ended("a worker process ended without a word")
    return message


def _reach(name: str, recording: _Recording, stages: Mapping[str, Callable[[], Any]]) -> Any:
    kind, _, window = name.partition(" ")
    if kind == "begin":
        recording.begin(window)
    elif kind == "end":
        recording.end()
    elif name in stages:
        return stages[name]()
    return None
