"""The files of the console and the avatar page: few and small, so they are held in memory.

Names are looked up as they are, so there is no path that could lead elsewhere.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from attrs import field, frozen

from hermes_mobile.protocol.uploads import guess_mime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable


@frozen
class Asset:
    """`etag` follows from the content alone: it is the same on every machine that serves it."""

    content: bytes = field(repr=False)
    media_type: str
    etag: str


def load_assets() -> Mapping[str, Asset]:
    """All files that came with the package, by their path; empty when it came without."""
    static = files("hermes_mobile.http") / "static"
    return dict(_load(static, "")) if static.is_dir() else {}


def _load(directory: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for entry in directory.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _load(entry, f"{name}/")
        else:
            yield name, asset(name, entry.read_bytes())


def asset(name: str, content: bytes) -> Asset:
    media_type = guess_mime(name)
    if media_type.startswith("text/"):
        media_type += "; charset=utf-8"
    return Asset(content, media_type, f'"{sha256(content).hexdigest()[:32]}"')
