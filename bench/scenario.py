"""What a scenario is: a way to drive devices, and what is told of it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from bench.plan import Load
    from bench.run import Run
    from bench.worker import Worker


@frozen
class Figure:
    """A number that a scenario tells beside its latencies."""

    name: str
    value: float
    unit: str = ""


def _no_figures(_: Run) -> Iterable[Figure]:
    return ()


def _no_settings(_: Load) -> Mapping[str, object]:
    return {}


@frozen(kw_only=True)
class Scenario:
    """`unit` names the series whose count is the throughput; `options` the fields of `Load` in use.

    `drive` runs in every worker process, with that worker's share of the devices. `figures` looks at
    the whole run. `settings` are those of a server that the bench starts itself.
    """

    name: str
    unit: str
    about: str
    load: Load
    tiny: Load
    options: tuple[str, ...]
    drive: Callable[[Worker], Coroutine[Any, Any, None]]
    figures: Callable[[Run], Iterable[Figure]] = field(default=_no_figures)
    settings: Callable[[Load], Mapping[str, object]] = field(default=_no_settings)
