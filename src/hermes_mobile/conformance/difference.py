"""What a server sent, how it is compared with what the protocol says, and how both are shown."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from attrs import frozen

MAX_SHOWN_CHARS: Final = 300
"""Of what was expected or got, in a report."""
MAX_SHOWN_STRING: Final = 60


class Difference(Exception):  # noqa: N818 - it is what is looked for
    """The server did something else than the protocol says."""

    def __init__(self, expected: object, got: object) -> None:
        self.expected = shown(expected)
        self.got = shown(got)
        super().__init__(f"expected {self.expected}, got {self.got}")


class Frame(dict[str, Any]):
    """An object that the server sent. A field that it lacks is a difference, not a KeyError."""

    def __missing__(self, name: str) -> NoReturn:
        raise Difference(f"a field {name}", self)


@frozen
class Closed:
    """The server ended the connection; the code is None where it sent no Close frame."""

    code: int | None
    reason: str = ""

    def __str__(self) -> str:
        if self.code is None:
            return f"an end without a Close frame{self.reason and f' ({self.reason})'}"
        return f"close {self.code} {self.reason}".rstrip()


def contains(got: object, wanted: object) -> bool:
    """Whether `got` is `wanted`, or an object with at least its fields, inside objects too."""
    if isinstance(wanted, dict):
        return isinstance(got, dict) and all(
            name in got and contains(got[name], value) for name, value in wanted.items()
        )
    return same(got, wanted)


def same(got: object, wanted: object) -> bool:
    """Equality of JSON values: 1 is 1.0, but neither is `true`."""
    match got, wanted:
        case (bool(), _) | (_, bool()):
            return got is wanted
        case list(), list():
            return len(got) == len(wanted) and all(map(same, got, wanted))
        case dict(), dict():
            return got.keys() == wanted.keys() and all(
                same(value, wanted[name]) for name, value in got.items()
            )
        case _:
            return got == wanted


def check(got: object, wanted: object, what: str) -> None:
    """Compare one value. *Errors*: Difference."""
    if not same(got, wanted):
        raise Difference(f"{what}: {_as_json(wanted)}", _as_json(got))


def check_that(holds: bool, expected: str, got: object) -> None:
    """Demand what is more than an equality. *Errors*: Difference."""
    if not holds:
        raise Difference(expected, got)


def shown(value: object) -> str:
    """`value` in one printable line; words and a `Closed` as they stand, anything else as JSON."""
    text = str(value) if isinstance(value, str | Closed) else _as_json(value)
    text = "".join(char if char.isprintable() else _escaped(char) for char in text)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}..."


def _as_json(value: object) -> str:
    return json.dumps(_shortened(value), ensure_ascii=False, default=repr)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _shortened(value: object) -> object:
    match value:
        case str() if len(value) > MAX_SHOWN_STRING:
            return f"{value[:MAX_SHOWN_STRING]}... ({len(value)} characters)"
        case dict():
            return {name: _shortened(inner) for name, inner in value.items()}
        case list():
            return [_shortened(inner) for inner in value]
        case _:
            return value
