"""Questions to a person: shown as cards by the server, answered to Hermes in its own words."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.redact import redact_sensitive_text
from tools import approval, clarify_gateway, slash_confirm

from .link import LinkLostError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .link import Link, Message
    from .turns import Turns

MARGIN = 1.0
"""Seconds that a card closes before Hermes stops waiting: its answer must not come too late."""


@dataclass(eq=False)
class Approval:
    """A command that Hermes wants to run, and waits to be allowed."""

    device: str
    entry: Any
    """Hermes' own: what is asked, and its place in the queue of answers."""
    deadline: float


@dataclass(eq=False)
class Card:
    """A card that is shown; `wanted` tells whether Hermes still waits for its answer."""

    id: str
    wanted: Callable[[], bool]


class Cards:
    """The open questions, of all devices."""

    def __init__(self, link: Link, turns: Turns, say: Callable[[str, str], Awaitable[Any]]) -> None:
        self._link = link
        self._turns = turns
        self._say = say
        self._shown: set[Card] = set()
        self._approvals: defaultdict[str, list[Approval]] = defaultdict(list)
        """By Hermes' session, in the order in which it takes their answers."""
        self._tasks: set[asyncio.Task[None]] = set()

    def approve(self, device: str, session: str) -> None:
        """Ask for the next approval of `session`, as soon as those before it are done.

        An answer has no address in Hermes: it goes to the oldest approval of a session. So only that one
        is shown, and what its card says is read from Hermes' queue: threads may tell of two in any order.
        """
        self.sweep()
        queue = self._approvals[session]
        known = [each.entry for each in queue]
        entry = next((each for each in _pending(session) if each not in known), None)
        if entry is None:
            return  # it has its answer already
        deadline = _now() + approval._get_approval_timeout() - MARGIN
        queue.append(Approval(device, entry, deadline))
        if len(queue) == 1:
            self._start(self._approve(session, queue))

    async def _approve(self, session: str, queue: list[Approval]) -> None:
        while queue:
            waiting = queue[0]

            def wanted(waiting: Approval = waiting) -> bool:
                return waiting.entry in _pending(session)

            fields = _approval_fields(waiting.entry.data)
            done = await self._ask(waiting.device, waiting.deadline, wanted, fields)
            if done is not None and _pending(session)[:1] == [waiting.entry]:
                approval.resolve_gateway_approval(session, done.get("option", "deny"))
            queue.remove(waiting)
        if self._approvals.get(session) is queue:
            del self._approvals[session]

    def clarify(self, device: str, id: str, question: str, choices: list[str]) -> None:
        """Ask for one of `choices`, or for words."""
        self._start(self._clarify(device, id, question, choices))

    async def _clarify(self, device: str, id: str, question: str, choices: list[str]) -> None:
        def wanted() -> bool:
            entry = clarify_gateway._entries.get(id)
            return entry is not None and not entry.event.is_set()

        fields = {"kind": "clarify", "text": question, "choices": choices}
        deadline = _now() + clarify_gateway.get_clarify_timeout() - MARGIN
        done = await self._ask(device, deadline, wanted, fields)
        if done is not None:
            clarify_gateway.resolve_gateway_clarify(id, done.get("text") or "")

    def confirm(self, device: str, session: str, id: str, text: str) -> None:
        """Ask whether to go on with a command. It waits in no turn: the one that asks has ended."""
        self._start(self._confirm(device, session, id, text))

    async def _confirm(self, device: str, session: str, id: str, text: str) -> None:
        def wanted() -> bool:
            return (slash_confirm.get_pending(session) or {}).get("confirm_id") == id

        fields = {"kind": "slash_confirm", "text": text}
        deadline = _now() + slash_confirm.DEFAULT_TIMEOUT_SECONDS - MARGIN
        done = await self._ask(device, deadline, wanted, fields, in_turn=False)
        if done is not None:
            said = await slash_confirm.resolve(session, id, done.get("option", "cancel"))
            if said:
                await self._say(device, said)

    def sweep(self) -> None:
        """Close the cards that Hermes no longer waits for: they were answered in another way."""
        for card in list(self._shown):
            if not card.wanted():
                self._link.withdraw(card.id)

    async def close(self) -> None:
        """Stop waiting for answers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(
        self,
        device: str,
        deadline: float,
        wanted: Callable[[], bool],
        fields: Message,
        *,
        in_turn: bool = True,
    ) -> Message | None:
        """How the card ended, empty when it cannot be shown; None when nobody wants to know.

        A server that restarts is asked anew.
        """
        while wanted() and (left := deadline - _now()) > 0:
            turn = self._turns.current(device) if in_turn else None
            where = {"device": device} if turn is None else {"turn": turn.id}
            card = Card(self._link.make_id(), wanted)
            self._shown.add(card)
            try:
                return await self._link.ask(card.id, ttl=left, **where, **fields)
            except LinkLostError:
                continue
            except RefusedError:
                return {} if wanted() else None
            finally:
                self._shown.discard(card)
        return None

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _approval_fields(data: Message) -> Message:
    """The card for what Hermes asks, without what looks like a secret."""
    options = ["once", "deny"]
    if not data.get("smart_denied"):
        options[1:1] = ["session", "always"] if data.get("allow_permanent", True) else ["session"]
    return {
        "kind": "exec_approval",
        "command": redact_sensitive_text(str(data.get("command") or "?"), force=True),
        "description": str(data.get("description") or ""),
        "options": options,
    }


def _pending(session: str) -> list[Any]:
    """What Hermes waits to be allowed in `session`, oldest first."""
    return list(approval._gateway_queues.get(session, ()))


def _now() -> float:
    return asyncio.get_running_loop().time()
