"""Any agent that speaks the Agent Client Protocol (ACP), as a program of its own beside the server.

What happens to a message reads in this order: `AcpAgent.handle`, `content.py` (what a person sent, as
blocks), `client.py` (sessions, the prompt), `reply.py` (what the agent reports, as a reply),
`permission.py` and `elicitation.py` (what it asks). Below them: `supervisor.py`, `process.py`,
`jsonrpc.py`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from hermes_mobile.agents import Agent, AgentSettingsError
from hermes_mobile.agents.acp.content import RefusalError, prompt_of
from hermes_mobile.agents.acp.process import open_program
from hermes_mobile.agents.acp.session_ids import SessionIds
from hermes_mobile.agents.acp.supervisor import Supervisor

if TYPE_CHECKING:
    from typing import Self

    from hermes_mobile.agents import AgentSettings, Conversations, Turn
    from hermes_mobile.agents.acp.supervisor import Opener


class AcpAgent(Agent):
    """One program for all devices, and a session of its own for each."""

    def __init__(self, settings: AgentSettings, open_program: Opener = open_program) -> None:
        self._supervisor = Supervisor(settings, SessionIds(settings.state_dir), open_program)

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> Self:
        if not settings.command:
            raise AgentSettingsError("MOBILE_AGENT_COMMAND must be set for the agent acp")
        if not settings.directory.is_dir():
            raise AgentSettingsError("MOBILE_AGENT_DIR must be a directory that is there")
        program = settings.command[0]
        place = str(settings.directory / program) if "/" in program else program
        if shutil.which(place, path=settings.environ.get("PATH")) is None:
            raise AgentSettingsError(f"MOBILE_AGENT_COMMAND: no program {program!r} is found")
        return cls(settings)

    @property
    def ready(self) -> bool:
        return self._supervisor.ready

    async def run(self, conversations: Conversations) -> None:  # noqa: ARG002 - it never begins to speak
        """Keep the program running."""
        await self._supervisor.run()

    async def handle(self, turn: Turn) -> None:
        """Let the program work on a message, waiting for it where it is being started."""
        client = await self._supervisor.client()
        try:
            blocks = prompt_of(turn.input, client.capabilities.prompt)
        except RefusalError as refusal:
            await turn.reply(str(refusal))
        else:
            await client.work_on(turn, blocks)
