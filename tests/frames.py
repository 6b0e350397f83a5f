"""What tests do with the frames that a peer receives, however it receives them."""

from __future__ import annotations

from typing import Any


class FrameReader:
    """What comes until something is there, for a class that has `receive` and `closed`."""

    closed: tuple[int, str] | None
    """The server's close code and reason."""

    async def receive(self) -> dict[str, Any] | None:
        """The next frame; None when the server ended the connection, in words or without."""
        raise NotImplementedError

    async def receive_until(self, t: str, **fields: Any) -> list[dict[str, Any]]:
        """Frames up to and with the first of type `t` that has `fields`."""
        frames = []
        while True:
            frame = await self.receive()
            assert frame is not None, f"closed {self.closed} before {t} {fields}: {frames}"
            frames.append(frame)
            if frame["t"] == t and fields.items() <= frame.items():
                return frames

    async def expect(self, t: str, **fields: Any) -> dict[str, Any]:
        """The next frame of type `t` with `fields`, whatever passes before it."""
        return (await self.receive_until(t, **fields))[-1]
