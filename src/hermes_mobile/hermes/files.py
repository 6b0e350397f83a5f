"""Files for the app, as the link carries them."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from typing import Any

MAX_FILE_BYTES = 8 << 20


class FileRefusedError(Exception):
    """A file cannot be sent; the message, for the person, says why."""


def read_file(
    path: str, kind: str, caption: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """The fields of a `file` request for what is at `path`.

    Errors: FileRefusedError.
    """
    file = Path(path)
    name = name or file.name
    try:
        size = file.stat().st_size
        if size > MAX_FILE_BYTES:
            raise FileRefusedError(
                f"{name} has {size} bytes; at most {MAX_FILE_BYTES} can be sent."
            )
        data = file.read_bytes()
    except OSError as error:
        raise FileRefusedError(f"{name} cannot be read.") from error
    if not data:
        raise FileRefusedError(f"{name} is empty.")
    return {
        "kind": kind,
        "data": base64.b64encode(data).decode(),
        "mime": mimetypes.guess_type(name)[0] or "",
        "filename": name,
        "caption": caption or "",
    }
