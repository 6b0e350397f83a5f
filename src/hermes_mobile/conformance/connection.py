"""A client of the protocol, that waits for what the protocol says comes next."""

from __future__ import annotations

import json
import secrets
from itertools import count
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from hermes_mobile.conformance.difference import Closed, Difference, Frame, contains
from hermes_mobile.conformance.websocket import Opcode, WebSocket, websocket_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_mobile.conformance.shapes import Shapes
    from hermes_mobile.conformance.target import Target

PRESENCE = {"avatar", "typing"}
"""What may come between any two frames."""


def fresh_ids() -> Iterator[str]:
    """Ids of messages that no other connection of the device has used (D19)."""
    mark = secrets.token_hex(4)
    return (f"m{number}-{mark}" for number in count(1))


@define(eq=False, kw_only=True)
class Connection(WebSocket):
    """An app's end of a connection; frames are dictionaries.

    *Errors*: Difference, from whatever waits for the server.
    """

    target: Target
    shapes: Shapes
    ready: Frame = field(factory=Frame)
    """Once the server has said so."""
    _ids: Iterator[str] = field(factory=fresh_ids)

    async def send(self, message: object) -> None:
        """Send one message: bytes as binary, a string as it stands, anything else as JSON."""
        if isinstance(message, bytes):
            await self.send_raw(websocket_frame(Opcode.BINARY, message))
        else:
            text = message if isinstance(message, str) else as_json(message)
            await self.send_raw(websocket_frame(Opcode.TEXT, text.encode()))

    async def say(self, text: str, id: str | None = None) -> str:
        """Send a `text`; returns its id."""
        used = id or next(self._ids)
        await self.send({"t": "text", "id": used, "text": text})
        return used

    async def receive(self, expected: object) -> Frame | Closed:
        """Whatever an app would look at next; `expected` is for the report, if nothing comes."""
        with trio.move_on_after(self.target.timeout):
            while not isinstance(message := await self.take_message(), Closed):
                frame = self.shapes.hear(message)
                if frame is not None:
                    return frame
            return message
        raise Difference(expected, f"nothing within {self.target.timeout:g} s")

    async def expect(self, t: str, **fields: object) -> Frame:
        """The next frame, avatar and typing aside: it is of type `t` and has at least `fields`."""
        if t == "error" and self.target.reference_only:
            fields.pop("id", None)
        wanted = {"t": t, **fields}
        while True:
            got = await self.receive(wanted)
            if isinstance(got, Frame):
                if contains(got, wanted):
                    return got
                if got["t"] in PRESENCE:
                    continue
            raise Difference(wanted, got)

    async def receive_until(self, t: str, **fields: object) -> list[Frame]:
        """All frames up to and with the first of type `t` that has at least `fields`."""
        wanted = {"t": t, **fields}
        frames: list[Frame] = []
        while not frames or not contains(frames[-1], wanted):
            got = await self.receive(wanted)
            if isinstance(got, Closed):
                raise Difference(wanted, got)
            frames.append(got)
        return frames

    async def expect_closed(self, code: int | None = None, reason: str | None = None) -> None:
        """The next thing, avatar and typing aside, is the end; without `code`, any end."""
        wanted = Closed(code, reason or "") if code is not None else "the end of the connection"
        while isinstance(got := await self.receive(wanted), Frame):
            if got["t"] not in PRESENCE:
                raise Difference(wanted, got)
        other_code = code is not None and got.code != code
        if other_code or (reason is not None and got.reason != reason):
            raise Difference(wanted, got)

    async def expect_refusal(self, code: str) -> None:
        """A fatal error, and the close that follows it."""
        await self.expect("error", code=code, fatal=True)
        await self.expect_closed(1008, code)

    async def expect_nothing(self) -> None:
        """Nothing, avatar and typing aside, comes before the answer to a ping sent now."""
        await self.send({"t": "ping", "ts": "nothing before this"})
        await self.expect("pong", ts="nothing before this")

    async def message(self) -> list[Frame]:
        """All pieces of the next message, which is not a stream."""
        pieces = [await self.expect("message")]
        while not pieces[-1]["final"]:
            pieces.append(await self.expect("message", id=pieces[0]["id"]))
        return pieces

    async def reply(self) -> str:
        """The text of the next message."""
        return "".join(piece["text"] for piece in await self.message())


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
