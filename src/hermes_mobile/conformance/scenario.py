"""One thing that the protocol says, as something to play against a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import ModuleType

    from hermes_mobile.conformance.stage import Stage

Play: TypeAlias = "Callable[[Stage], Awaitable[None]]"

NEEDS: Final = {
    "demo": "the agent does not do this",
    "other": "no second app token is known (MOBILE_EXTRA_TOKENS)",
    "bound": "no token bound to a device is known (MOBILE_EXTRA_TOKENS)",
    "deliver": "no deliver token is known (MOBILE_DELIVER_TOKENS), or there is a home device",
    "allowed": "no allow-list is known (MOBILE_ALLOWED_DEVICES)",
    "devices": "the server has an allow-list: no device can be made up",
    "may deliver": "this address may not deliver",
    "remote": "this address may deliver",
    "receipts": "the server does not announce receipts",
    "time": "",  # what takes too long is skipped where it is known how long it takes
}
"""What a scenario may need of the server or of who plays it, and why it is skipped without."""


class Skip(Exception):  # noqa: N818 - not an error
    """This cannot be played here; the message says why."""


@frozen
class Scenario:
    """`play` returns when the server agrees. *Errors* of `play`: Difference, Skip."""

    group: str
    name: str
    rules: tuple[str, ...]
    reference: bool
    """The reference itself says so, and not only this project's decisions."""
    needs: frozenset[str]
    play: Play
    comes_last: bool = False
    """It looks back at all others."""

    def __str__(self) -> str:
        return f"{self.group}/{self.name}"


def scenario(
    *rules: str, reference: bool = False, needs: tuple[str, ...] = ()
) -> Callable[[Play], Scenario]:
    """Make a scenario of a function, named after it and grouped by its module."""

    def decorate(play: Play) -> Scenario:
        return Scenario(
            group=play.__module__.rpartition(".")[2],
            name=play.__name__.replace("_", " "),
            rules=rules,
            reference=reference,
            needs=frozenset(needs) | {"devices"},
            play=play,
        )

    return decorate


def declared_in(module: ModuleType) -> Iterator[Scenario]:
    """The scenarios of a module, in their order there."""
    return (value for value in vars(module).values() if isinstance(value, Scenario))
