"""The wake hook: a command of the operator's runs when something is kept for a device that is away.

It may have APNs, FCM or ntfy wake the phone. It learns which device and what kind of unit, never what
is said, and inherits none of the server's secrets (D32, D39).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
import trio

if TYPE_CHECKING:
    from hermes_mobile.server.hub import Hub

log = structlog.get_logger()

RunCommand: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], Awaitable[int]]

KINDS: Final = {"message", "media", "prompt"}
"""What a phone is woken for; the end of a card is no reason."""
COMMANDS_AT_A_TIME: Final = 4
COMMAND_SECONDS: Final = 10.0
"""After that it is killed."""
INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""The variables that a command gets beside those of the hook."""


class Wake:
    """Runs `MOBILE_WAKE_COMMAND`, at most once per device within `MOBILE_WAKE_INTERVAL`.

    A unit that is kept within the interval wakes at its end, if the device is still away then.
    """

    def __init__(self, hub: Hub, run: RunCommand | None = None) -> None:
        self._hub = hub
        self._run = run or run_command
        self._places = trio.CapacityLimiter(COMMANDS_AT_A_TIME)
        self._kept: dict[str, str | None] = {}
        """Devices that were woken lately, and the kind of what was kept since."""

    def kept(self, device_id: str, kind: str) -> None:
        """Take note that a unit is kept for a device that is away."""
        hub = self._hub
        if hub.settings.wake_command is None or hub.stopping or kind not in KINDS:
            return
        if device_id in self._kept:
            self._kept[device_id] = self._kept[device_id] or kind
        else:
            self._kept[device_id] = kind
            hub.turns.start_soon(self._keep_waking, device_id)

    async def _keep_waking(self, device_id: str) -> None:
        try:
            while (kind := self._kept[device_id]) is not None:
                async with self._places:
                    over_at = trio.current_time() + self._hub.settings.wake_interval
                    self._kept[device_id] = None
                    if self._waits_for(device_id):
                        await self._wake(device_id, kind)
                await trio.sleep_until(over_at)
        finally:
            del self._kept[device_id]

    def _waits_for(self, device_id: str) -> bool:
        """Whether the device is away, and something is kept for it."""
        session = self._hub.registry.get(device_id)
        return session is not None and session.connection is None and len(session.mailbox) > 0

    async def _wake(self, device_id: str, kind: str) -> None:
        command = self._hub.settings.wake_command
        if command is None:
            return  # a reload has taken it away
        failure: dict[str, object] = {"error": "took too long"}
        with trio.move_on_after(COMMAND_SECONDS):
            try:
                status = await self._run(command.argv, environment(device_id, kind))
                failure = {"status": status} if status else {}
            except (OSError, ValueError) as error:
                failure = {"error": getattr(error, "strerror", None) or type(error).__name__}
        self._hub.metrics.wakes["failed" if failure else "done"] += 1
        if failure:
            log.warning("wake failed", device=device_id, kind=kind, **failure)
        else:
            log.debug("woken", device=device_id, kind=kind)


def environment(device_id: str, kind: str) -> dict[str, str]:
    """All that a command is told."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return inherited | {"HERMES_MOBILE_DEVICE": device_id, "HERMES_MOBILE_KIND": kind}


async def run_command(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a program without input or output, in a process group of its own; returns its status.

    *Cancellation*: the group is killed. *Errors*: OSError when the program cannot be started.
    """
    ended = await trio.run_process(
        argv,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        start_new_session=True,
        deliver_cancel=_kill_group,
    )
    return ended.returncode


async def _kill_group(process: trio.Process) -> None:
    # One that has become another user's may be killed by nobody but them, and is waited for.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
