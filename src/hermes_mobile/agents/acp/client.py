"""One life of the agent's program, from `initialize` to its end, with the sessions that it has open."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

import structlog
import trio
from attrs import field, frozen

from hermes_mobile import __version__
from hermes_mobile.agents.acp import elicitation, permission
from hermes_mobile.agents.acp.content import PromptCapabilities
from hermes_mobile.agents.acp.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Connection,
    ConnectionLostError,
    RpcError,
    as_object,
)
from hermes_mobile.agents.acp.prompt import Prompt
from hermes_mobile.protocol.limits import MAX_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes_mobile.agents import AgentSettings, Turn
    from hermes_mobile.agents.acp.content import Block
    from hermes_mobile.agents.acp.jsonrpc import Params
    from hermes_mobile.agents.acp.session_ids import SessionIds

log = structlog.get_logger()

PROTOCOL_VERSION: Final = 1
AUTH_REQUIRED: Final = -32000
"""The error of an agent that wants `authenticate` first."""
UNKNOWN_SESSION: Final = frozenset({-32002, INVALID_PARAMS})
"""The errors of an agent that has forgotten a session: what is not found, or not a right parameter."""
SETUP_SECONDS: Final = 120.0
"""For an agent to answer anything but a prompt: it may have to start tools of its own first."""
CANCEL_SECONDS: Final = 10.0
"""For a prompt to end after `session/cancel`. An agent that goes on all the same is restarted."""

CLIENT_CAPABILITIES: Final = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "elicitation": {"form": {}},
}
"""The agent has files and terminals of its own, on its own machine; people have only phones."""


class VersionError(Exception):
    """The agent speaks no version of ACP that we do."""


@frozen
class Capabilities:
    """What the agent said of itself."""

    name: str = ""
    version: str = ""
    prompt: PromptCapabilities = field(factory=PromptCapabilities)
    loads: bool = False
    forks: bool = False
    auth_methods: tuple[str, ...] = ()
    """Those that need nothing but being called."""

    @classmethod
    def of(cls, answer: Params) -> Capabilities:
        """Read the answer to `initialize`. Errors: VersionError."""
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            raise VersionError
        info = as_object(answer.get("agentInfo"))
        said = as_object(answer.get("agentCapabilities"))
        methods = answer.get("authMethods")
        found = [as_object(each) for each in (methods if isinstance(methods, list) else ())]
        return cls(
            name=str(info.get("name", ""))[:MAX_NAME_CHARS],
            version=str(info.get("version", ""))[:MAX_NAME_CHARS],
            prompt=PromptCapabilities.of(as_object(said.get("promptCapabilities"))),
            loads=said.get("loadSession") is True,
            forks=isinstance(as_object(said.get("sessionCapabilities")).get("fork"), dict),
            auth_methods=tuple(
                each["id"]
                for each in found
                if isinstance(each.get("id"), str) and each.get("type", "agent") == "agent"
            ),
        )


class Client:
    """Our side of the connection: after `initialize` it takes prompts, until the program ends."""

    def __init__(
        self,
        settings: AgentSettings,
        ids: SessionIds,
        incoming: trio.abc.ReceiveStream,
        outgoing: trio.abc.SendStream,
    ) -> None:
        self.connection = Connection(incoming, outgoing, self)
        self.capabilities = Capabilities()
        self._settings = settings
        self._ids = ids
        self._open: dict[str, str] = {}  # session ids, by device
        self._doubtful: set[str] = set()  # devices whose session may be stuck
        self._prompts: dict[str, Prompt] = {}  # by session id
        self._loading: dict[str, int] = {}  # reports so far, by the id of a session that is loaded

    async def initialize(self) -> None:
        """Introduce ourselves. Errors: RpcError, ConnectionLostError, VersionError, TooSlowError."""
        with trio.fail_after(SETUP_SECONDS):
            answer = await self.connection.call(
                "initialize",
                {
                    "protocolVersion": PROTOCOL_VERSION,
                    "clientCapabilities": CLIENT_CAPABILITIES,
                    "clientInfo": {"name": "hermes-mobile", "version": __version__},
                },
            )
        self.capabilities = Capabilities.of(answer)

    async def work_on(self, turn: Turn, blocks: Sequence[Block]) -> None:
        """Let the agent work on a prompt in the device's session, and show what it does.

        *Cancellation*: the agent is told, and has 10 s to end; else its program is restarted.
        *Errors*: RpcError, ConnectionLostError, TooSlowError, TooMuchError.
        """
        session_id = await self._session_of(turn.device_id)
        prompt = self._prompts[session_id] = Prompt(turn)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(prompt.show)
                stop_reason = await self._run(session_id, prompt, blocks)
                prompt.updates.close()
            await prompt.tell_why_it_ended(stop_reason)
        finally:
            prompt.end()
            del self._prompts[session_id]

    async def _run(self, session_id: str, prompt: Prompt, blocks: Sequence[Block]) -> object:
        """Run a prompt to its end; returns the reason that the agent gives for it."""
        call = await self.connection.request(
            "session/prompt", {"sessionId": session_id, "prompt": blocks}
        )
        try:
            return (await call.result()).get("stopReason")
        except RpcError as error:
            if error.code in UNKNOWN_SESSION:
                self._open.pop(prompt.turn.device_id, None)
            raise
        except trio.Cancelled:
            prompt.end()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CANCEL_SECONDS):
                try:
                    await self.connection.notify("session/cancel", {"sessionId": session_id})
                    await call.result()
                except RpcError:
                    self._doubt(prompt.turn.device_id)
                except ConnectionLostError:
                    pass
            if not call.ended:
                log.error("agent goes on after session/cancel: it is restarted")
                self.connection.close()
            raise

    # Sessions

    async def _session_of(self, device_id: str) -> str:
        """The session of a device: the one that is open, the one that was, or a new one."""
        if device_id not in self._open:
            with trio.fail_after(SETUP_SECONDS):
                session_id = await self._signed_in(device_id)
            self._open[device_id] = session_id
            if session_id != self._ids.get(device_id):
                await self._ids.remember(device_id, session_id)
        return self._open[device_id]

    async def _signed_in(self, device_id: str) -> str:
        """Open a session, signing in first where the agent wants that."""
        try:
            return await self._opened(device_id)
        except RpcError as error:
            if error.code != AUTH_REQUIRED:
                raise
            if not self.capabilities.auth_methods:
                log.error("agent wants somebody to sign in, where it runs")
                raise
        method = self.capabilities.auth_methods[0]
        await self.connection.call("authenticate", {"methodId": method})
        return await self._opened(device_id)

    async def _opened(self, device_id: str) -> str:
        known = self._ids.get(device_id)
        if known is not None:
            revived = await self._revived(known, stuck=device_id in self._doubtful)
            self._doubtful.discard(device_id)
            if revived is not None:
                return revived
        answer = await self.connection.call("session/new", self._place())
        return _session_id_in(answer)

    async def _revived(self, session_id: str, *, stuck: bool) -> str | None:
        """A session with the memory of one that was; None when the agent has none, or forgot it."""
        again = {"sessionId": session_id, **self._place()}
        try:
            if stuck:
                return _session_id_in(await self.connection.call("session/fork", again))
            if self.capabilities.loads:
                self._loading[session_id] = 0
                answer = await self.connection.call("session/load", again)
                # To an id that they never heard of, some agents answer that all is well.
                if answer or self._loading[session_id]:
                    return session_id
        except RpcError as error:
            if error.code == AUTH_REQUIRED:
                raise
        finally:
            self._loading.pop(session_id, None)
        log.info("agent's session cannot be taken up again", session=session_id)
        return None

    def _place(self) -> dict[str, Any]:
        return {"cwd": str(self._settings.directory.absolute()), "mcpServers": []}

    def _doubt(self, device_id: str) -> None:
        """Take note that a session may be stuck: its prompt was cancelled, and failed of it.

        Hermes 0.19 fails so when a tool runs, believes that it still works on the prompt, and only
        queues the next ones. A fork of the session is free. Without forks it is used as it is.
        """
        if self.capabilities.forks:
            self._open.pop(device_id, None)
            self._doubtful.add(device_id)

    # What the agent asks and tells

    async def answer(self, method: str, params: Params) -> Mapping[str, Any]:
        """Answer a request of the agent. Errors: RpcError."""
        match method:
            case "session/request_permission":
                prompt = self._prompts.get(params.get("sessionId", ""))
                if prompt is None:
                    return permission.CANCELLED
                tool = prompt.tool(as_object(params.get("toolCall")))
                patience = permission.PATIENCE.get(self.capabilities.name, inf)
                ttl = patience if patience < self._settings.prompt_ttl else None
                ask = partial(permission.ask, prompt.turn, params, tool, ttl)
                return await prompt.asked(ask, permission.CANCELLED)
            case "elicitation/create":
                prompt = self._prompts.get(params.get("sessionId", ""))
                if prompt is None:
                    return elicitation.CANCEL
                ask = partial(elicitation.ask, prompt.turn, params)
                return await prompt.asked(ask, elicitation.CANCEL)
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"{method}: not offered")

    def take_note(self, method: str, params: Params) -> None:
        """Take a notification of the agent; what belongs to no prompt is passed over."""
        if method != "session/update":
            return
        session_id = str(params.get("sessionId", ""))
        prompt = self._prompts.get(session_id)
        if prompt is not None:
            prompt.take_note(as_object(params.get("update")))
        elif session_id in self._loading:
            self._loading[session_id] += 1


def _session_id_in(answer: Params) -> str:
    session_id = answer.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise RpcError(INVALID_PARAMS, "sessionId: missing")
    return session_id
