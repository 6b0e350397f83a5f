"""A prompt that the agent works on, and the cards that it has open meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from hermes_mobile.agents.acp import reply
from hermes_mobile.agents.acp.updates import Updates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from hermes_mobile.agents import Turn

Answer = TypeVar("Answer")

MAX_TOOLS: Final = 16
"""Tool calls whose details are remembered, for a permission that names only their id."""
DETAILS: Final = ("title", "kind", "rawInput", "content")
NEWS: Final = ("title", "kind", "rawInput")
"""Of them, what a call that goes on may tell anew; its content then is what came out."""

WHY_IT_ENDED: Final = {
    "refusal": "The agent refuses to go on.",
    "max_tokens": "The agent stopped: the answer is as long as it may be.",
    "max_turn_requests": "The agent stopped: it has taken as many steps as it may.",
}
"""What a person is told about ends that the reply itself does not show."""


class Prompt:
    """What runs for `turn`."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.updates = Updates()
        self._seen = False
        self._tools: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._asking: set[trio.CancelScope] = set()
        self._ended = False

    async def show(self) -> None:
        """Show what the agent reports, until there is no more."""
        self._seen = await reply.show(self.turn, self.updates)

    async def tell_why_it_ended(self, stop_reason: object) -> None:
        """Say what the reply does not show."""
        if isinstance(stop_reason, str) and stop_reason in WHY_IT_ENDED:
            await self.turn.reply(WHY_IT_ENDED[stop_reason])
        elif stop_reason == "cancelled" and not self._seen:
            await self.turn.reply("The agent broke off.")

    def take_note(self, update: Mapping[str, Any]) -> None:
        """Take a report of the agent."""
        match update.get("sessionUpdate"):
            case "tool_call":
                self.tool(update)
            case "tool_call_update":
                self.tool(update, NEWS)
            case _:
                pass
        self.updates.take_note(update)

    def tool(self, call: Mapping[str, Any], details: Sequence[str] = DETAILS) -> Mapping[str, Any]:
        """All that is known of a tool call, with what `call` tells now."""
        call_id = str(call.get("toolCallId", ""))
        known = self._tools.pop(call_id, {})
        known |= {name: call[name] for name in details if call.get(name) is not None}
        self._tools[call_id] = known
        while len(self._tools) > MAX_TOOLS:
            self._tools.popitem(last=False)
        return known

    async def asked(self, ask: Callable[[], Awaitable[Answer]], cancelled: Answer) -> Answer:
        """The answer to a question; `cancelled` when the prompt ends before the card does."""
        scope = trio.CancelScope()
        if self._ended:
            scope.cancel()
        self._asking.add(scope)
        try:
            with scope:
                await self.updates.wait_shown()
                answer = await ask()
                # `/stop` cancels the turn and closes its cards in one step. When the card's end is
                # seen here first, the turn's own comes now, and it is what the agent is told.
                await trio.lowlevel.checkpoint()
                return answer
        finally:
            self._asking.discard(scope)
        return cancelled

    def end(self) -> None:
        """Close the cards that are open, and open no other."""
        self._ended = True
        for scope in self._asking:
            scope.cancel()
