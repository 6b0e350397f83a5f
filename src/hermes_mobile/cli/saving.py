"""Where received files go."""

from __future__ import annotations

import mimetypes
from itertools import count
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from hermes_mobile.protocol.fields import clean_filename

if TYPE_CHECKING:
    from hermes_mobile.client import ReceivedFile

DEFAULT_FOLDER: Final = Path("~/Downloads/hermes-mobile")
"""A place of its own: what an agent sends must not lie where programs look for their files."""
MAX_NAME_BYTES: Final = 200
MAX_SUFFIX_BYTES: Final = 20


def save(folder: Path, file: ReceivedFile) -> Path:
    """Write a file into `folder`, which is made if need be, under a name that is new there.

    *Errors*: OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem, suffix = name_for(file)
    for number in count(1):
        path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem} ({number}){suffix}")
        try:
            with path.open("xb") as target:
                target.write(file.data or b"")
        except FileExistsError:
            continue
        return path
    raise AssertionError("unreachable")


def name_for(file: ReceivedFile) -> tuple[str, str]:
    """A name that is nothing but a name, and its suffix; made up where the file has none (D18)."""
    name = PurePath(clean_filename(file.filename))
    stem, suffix = name.stem, name.suffix
    if not stem:
        stem, suffix = file.kind.value, mimetypes.guess_extension(file.mime) or ""
    if len(suffix.encode()) > MAX_SUFFIX_BYTES:
        stem, suffix = stem + suffix, ""
    return stem.encode()[:MAX_NAME_BYTES].decode(errors="ignore"), suffix
