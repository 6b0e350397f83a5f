"""An agent on the Python package `agent-client-protocol`: the other end of ACP, not of our making.

It is a program: `python acp_peer.py`. What it does with a prompt is the first word of it; all else it
says again, word by word. `--plain` leaves out what an agent need not offer, `--signed-in-only` wants
`authenticate` first. Its sessions are files in the directory that it is started in.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    image_block,
    run_agent,
    start_tool_call,
    update_agent_message,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.interfaces import Agent
from acp.schema import (
    AgentCapabilities,
    AuthMethodAgent,
    ElicitationFormSessionMode,
    Implementation,
    PermissionOption,
    PromptCapabilities,
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DRINKS = {"drink": {"type": "string", "enum": ["Tea", "Coffee"]}}
OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="always", name="Yes, always", kind="allow_always"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Peer(Agent):
    """Answers prompts; `conn` is the client that it speaks to."""

    def __init__(self) -> None:
        self.signed_in = "--signed-in-only" not in sys.argv
        self.plain = "--plain" in sys.argv
        self.cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: Any) -> None:
        self.conn = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="peer", title="Peer", version="1"),
            agent_capabilities=AgentCapabilities(
                load_session=not self.plain,
                prompt_capabilities=PromptCapabilities(
                    image=not self.plain, audio=False, embedded_context=not self.plain
                ),
            ),
            auth_methods=[AuthMethodAgent(id="key", name="A key")],
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        self.signed_in = method_id == "key"

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        if not self.signed_in:
            raise RequestError.auth_required()
        assert Path(cwd).is_absolute()
        session_id = f"session-{time.monotonic_ns()}"
        self._file(session_id).write_text("[]")
        return NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse | None:
        if not self._file(session_id).exists():
            raise RequestError.resource_not_found(session_id)
        for text in self._history(session_id):
            await self.conn.session_update(session_id, update_user_message_text(text))
            await self.say(session_id, f"(again) {text}")
        return LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled[session_id].set()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        self.cancelled[session_id] = asyncio.Event()
        text = next((block.text for block in prompt if block.type == "text"), "")
        others = [block for block in prompt if block.type != "text"]
        self._file(session_id).write_text(json.dumps([*self._history(session_id), text]))
        work = asyncio.ensure_future(self.work(session_id, text, others))
        stop = asyncio.ensure_future(self.cancelled[session_id].wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            stop.cancel()
            return PromptResponse(stop_reason=work.result() or "end_turn")
        work.cancel()
        return PromptResponse(stop_reason="cancelled")

    async def work(  # noqa: C901, PLR0912 - one branch for each word
        self, session_id: str, text: str, others: list[Any]
    ) -> str | None:
        command, _, argument = text.partition(" ")
        match command:
            case "/run":
                await self.run(session_id, argument)
            case "/ask":
                await self.ask(session_id, argument)
            case "/history":
                await self.say(session_id, " | ".join(self._history(session_id)[:-1]) or "(none)")
            case "/pid":
                await self.say(session_id, str(os.getpid()))
            case "/child":
                child = await asyncio.create_subprocess_exec("sleep", "1000")
                await self.say(session_id, str(child.pid))
            case "/long":
                while True:
                    await self.say(session_id, "word ")
                    await asyncio.sleep(0.02)
            case "/exit":
                await self.say(session_id, "half a sen")
                os._exit(7)
            case "/exit-in-image":
                line = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
                sys.stdout.buffer.write(line + session_id.encode())
                sys.stdout.buffer.flush()
                os._exit(7)
            case "/image":
                data = base64.b64encode(PIXEL).decode()
                await self.conn.session_update(
                    session_id, update_agent_message(image_block(data, "image/png"))
                )
            case "/refuse":
                return "refusal"
            case "/environment":
                names = [name for name in sorted(os.environ) if name.startswith("MOBILE_")]
                await self.say(session_id, f"{Path.cwd()} {names} {os.environ.get('ACP_KEY')}")
            case _ if others:
                for block in others:
                    shown = block.model_dump(by_alias=True, exclude_none=True)
                    await self.say(session_id, f"{text}{' ' if text else ''}{json.dumps(shown)}")
            case _:
                await self.conn.session_update(session_id, update_agent_thought_text("hm"))
                await self.conn.session_update(session_id, update_plan([]))
                for word in text.split(" "):
                    await self.say(session_id, f"{word} ")
        return None

    async def run(self, session_id: str, command: str) -> None:
        call = start_tool_call(
            "call-1", "Run a command", kind="execute", raw_input={"command": command}
        )
        await self.say(session_id, "I shall run it.")
        await self.conn.session_update(session_id, call)
        answer = await self.conn.request_permission(
            session_id=session_id, tool_call=update_tool_call("call-1"), options=OPTIONS
        )
        outcome = answer.outcome
        await self.conn.session_update(session_id, update_tool_call("call-1", status="completed"))
        await self.say(session_id, f"\n\nIt was {getattr(outcome, 'option_id', outcome.outcome)}.")

    async def ask(self, session_id: str, question: str) -> None:
        answer = await self.conn.create_elicitation(
            message=question,
            mode=ElicitationFormSessionMode.model_validate(
                {"sessionId": session_id, "requestedSchema": {"properties": DRINKS}}
            ),
        )
        await self.say(session_id, json.dumps(answer.model_dump(exclude_none=True)))

    async def say(self, session_id: str, text: str) -> None:
        await self.conn.session_update(session_id, update_agent_message_text(text))

    @staticmethod
    def _file(session_id: str) -> Path:
        return Path(f"{session_id}.json")

    def _history(self, session_id: str) -> list[str]:
        return list(json.loads(self._file(session_id).read_text()))


if __name__ == "__main__":
    sys.stderr.write("the peer begins\n")
    asyncio.run(run_agent(Peer(), use_unstable_protocol=True))
