"""How what an agent reports of its work becomes a reply that a person watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import trio

from hermes_mobile.agents import OutgoingFile, TurnError
from hermes_mobile.agents.acp.updates import Mark, Pause

if TYPE_CHECKING:
    from hermes_mobile.agents import Turn
    from hermes_mobile.agents.acp.updates import Updates

EDIT_SECONDS: Final = 0.1
"""Between two states of a reply that grows: faster than anybody reads."""


async def show(turn: Turn, updates: Updates) -> bool:
    """Show what is reported, until the end; returns whether there was anything to see.

    *Errors*: TooMuchError.
    """
    seen = False
    while (item := await updates.next()) is not None:
        match item:
            case str():
                seen = await _show_text(turn, updates, item) or seen
            case OutgoingFile():
                await _send_file(turn, item)
                seen = True
            case Pause.WORK:
                await turn.show_working()
            case Pause.NEXT_MESSAGE:
                pass
            case Mark():
                item.passed.set()
            case _:
                assert_never(item)
    return seen


async def _show_text(turn: Turn, updates: Updates, text: str) -> bool:
    """Show a message that begins with `text`, as it grows; returns whether it says anything."""
    seen = False
    async with turn.stream() as stream:
        more: str | None = text
        while more is not None:
            # Agents part messages by empty lines; here each is a message of its own.
            more = more if seen else more.lstrip()
            if more:
                seen = True
                await stream.append(more)
                with trio.move_on_after(EDIT_SECONDS):
                    await updates.wait_closed()
            more = await updates.next_text()
    return seen


async def _send_file(turn: Turn, file: OutgoingFile) -> None:
    try:
        await turn.send_file(file)
    except TurnError as error:
        await turn.reply(f"A file of the agent cannot be shown: {error}.")
