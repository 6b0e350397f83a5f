"""The wire as data: where the vectors are, and how they are read. Their form: README.md there."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

CHECKOUT: Final = Path(__file__).parents[3] / "tests" / "vectors"


def directory() -> Traversable:
    """In the wheel beside this module; in a checkout, where there is one copy, with the tests."""
    packaged = files(__package__) / "vectors"
    return packaged if packaged.is_dir() else CHECKOUT


def read(name: str) -> list[dict[str, Any]]:
    """All vectors in one file."""
    vectors: list[dict[str, Any]] = json.loads((directory() / name).read_text("utf-8"))
    return vectors


def spell_out(value: Any, names: dict[str, str] | None = None) -> Any:
    """`value` with each `$repeat` and `$join` in it as the string that it describes.

    Strings that stand in `names` are replaced.
    """
    match value:
        case {"$repeat": [unit, times]}:
            return unit * times
        case {"$join": pieces}:
            return "".join(spell_out(piece, names) for piece in pieces)
        case dict():
            return {name: spell_out(inner, names) for name, inner in value.items()}
        case list():
            return [spell_out(inner, names) for inner in value]
        case str() if names:
            return names.get(value, value)
        case _:
            return value
