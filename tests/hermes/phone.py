"""A person's app, as tests of a whole agent need it."""

from __future__ import annotations

import base64
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from street import Caller

Frame = dict[str, Any]


class Phone:
    """A device that is connected, and takes what comes in the order in which it comes."""

    _ids = count(1)

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    async def say(self, text: str) -> str:
        """Send a text; its id."""
        message_id = f"m{next(self._ids)}"
        await self.caller.say(message_id, text)
        return message_id

    async def send(self, t: str, data: bytes, **fields: Any) -> None:
        """Send an `audio` frame, or a `media` frame of one part."""
        whole = {"part": 0, "parts": 1} if t == "media" else {}
        frame = {"t": t, "id": f"m{next(self._ids)}", "data": base64.b64encode(data).decode()}
        await self.caller.send_frame(frame | whole | fields)

    async def reply(self) -> str:
        """The next whole message of the agent."""
        return (await self.states())[-1]

    async def states(self) -> list[str]:
        """The states of the next message, whose last one is final."""
        frames = await self.caller.receive_until("message", final=True)
        texts = [frame["text"] for frame in frames if frame["t"] == "message"]
        return ["".join(texts)] if frames[-1]["chunk"]["total"] > 1 else texts

    async def until_said(self, part: str) -> str:
        """The first whole message with `part` in it; what comes before it is passed over."""
        while part not in (text := await self.reply()):
            pass
        return text

    async def card(self, kind: str) -> Frame:
        """The next card, which is of this kind."""
        card = await self.caller.expect("prompt")
        assert card["kind"] == kind, card
        return card

    async def answer(self, card: Frame, **answer: str) -> Frame:
        """Answer a card with `option_id` or `text`; how it ended."""
        await self.caller.send_frame({"t": "prompt", "prompt_id": card["id"], **answer})
        return await self.ended(card)

    async def ended(self, card: Frame) -> Frame:
        return await self.caller.expect("prompt_done", id=card["id"])

    async def file(self) -> tuple[Frame, bytes]:
        """The next file, which comes in one part."""
        frame = await self.caller.expect("media", final=True)
        return frame, base64.b64decode(frame["data"])

    async def turn_ended(self) -> None:
        await self.caller.expect("typing", stop=True)


def options(card: Frame) -> list[str]:
    return [option["id"] for option in card["options"]]
