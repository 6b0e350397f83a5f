"""An agent that writes down each message before it answers: what it did is known when it was killed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio

from hermes_mobile.agents import Agent

if TYPE_CHECKING:
    from hermes_mobile.agents import Turn

WORK_SECONDS = 0.02
"""What a message takes, so that some always wait."""


class LedgerAgent(Agent):
    """Answers with the message's id; the file that `LEDGER` names has a line for each."""

    def __init__(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._ledger = os.open(os.environ["LEDGER"], flags, 0o600)

    async def handle(self, turn: Turn) -> None:
        os.write(self._ledger, f"{turn.input.id}\n".encode())
        await trio.sleep(WORK_SECONDS)
        await turn.reply(turn.input.id)
