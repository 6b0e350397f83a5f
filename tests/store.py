"""Where known devices are kept, in memory."""

from __future__ import annotations

import trio
from attrs import define, field

from hermes_mobile.server.devices import AccessFileError, KnownDevice


@define
class FakeStore:
    """Keeps what was written, when; fails while it has a `failure`."""

    known: list[KnownDevice] = field(factory=list)
    written_at: list[float] = field(factory=list)
    failure: str = ""
    seconds: float = 0.0
    """What a write takes."""

    async def read(self):
        await trio.sleep(self.seconds)
        if self.failure:
            raise AccessFileError(self.failure)
        return list(self.known)

    async def write(self, known):
        await trio.sleep(self.seconds)
        if self.failure:
            raise AccessFileError(self.failure)
        self.known = list(known)
        self.written_at.append(trio.current_time())
