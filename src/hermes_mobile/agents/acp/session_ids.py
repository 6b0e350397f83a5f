"""Which of the agent's sessions is whose: kept over restarts of the agent, and of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
import structlog
import trio

from hermes_mobile.agents.acp.jsonrpc import as_object
from hermes_mobile.ops.whole_file import replace_file

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger()

FILE_NAME: Final = "acp-sessions.json"
MAX_IDS: Final = 10_000
"""Devices that are remembered; the one that got its session first is forgotten first."""


class SessionIds:
    """The id of each device's session, in a file below `directory`; in memory only without one."""

    def __init__(self, directory: Path | None) -> None:
        self._file = None if directory is None else directory / FILE_NAME
        self._ids = {} if self._file is None else _read(self._file)
        self._writing = trio.Lock()

    def get(self, device_id: str) -> str | None:
        return self._ids.get(device_id)

    async def remember(self, device_id: str, session_id: str) -> None:
        """Take note of a device's session. One that cannot be written is remembered for this run."""
        self._ids.pop(device_id, None)
        self._ids[device_id] = session_id
        while len(self._ids) > MAX_IDS:
            del self._ids[next(iter(self._ids))]
        if self._file is None:
            return
        async with self._writing:
            try:
                await trio.to_thread.run_sync(_write, self._file, orjson.dumps(self._ids))
            except OSError as error:
                log.warning("agent's sessions cannot be kept", error=error.strerror)


def _read(file: Path) -> dict[str, str]:
    try:
        table = as_object(orjson.loads(file.read_bytes()))
    except FileNotFoundError:
        return {}
    except (OSError, orjson.JSONDecodeError) as error:
        log.warning("agent's sessions cannot be read", error=type(error).__name__)
        return {}
    return {device_id: known for device_id, known in table.items() if isinstance(known, str)}


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(file, content)
