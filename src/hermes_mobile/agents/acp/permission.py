"""`session/request_permission`: an approval card, and what its answer means to the agent."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import orjson

from hermes_mobile.agents.acp.content import has_diff, texts_in
from hermes_mobile.agents.acp.jsonrpc import INVALID_PARAMS, RpcError, as_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_mobile.agents import Turn

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
"""The answer to a question whose prompt was cancelled."""

BY_ID: Final = {
    "allow_once": "once",
    "allow_session": "session",
    "allow_always": "always",
    "deny": "deny",
}
"""Options of a card, by the ids that agents call them by: of two of one kind they tell which is which."""
BY_KIND: Final = {
    "allow_once": "once",
    "allow_always": "always",
    "reject_once": "deny",
    "reject_always": "deny",
}
ORDER: Final = ("once", "session", "always", "deny")

PATIENCE: Final = {"hermes-agent": 58.0}
"""Seconds that an agent waits for an answer, where it says nothing when it gives up; by its name."""


async def ask(
    turn: Turn, params: Mapping[str, Any], tool: Mapping[str, Any], ttl: float | None
) -> Any:
    """Ask for a permission, and answer the agent with the option that was chosen.

    `tool` is what is known of the tool call. An expired card is a refusal.

    *Errors*: RpcError for a request without an option that can be chosen.
    """
    options = options_of(params.get("options"))
    if not options:
        raise RpcError(INVALID_PARAMS, "options: none of a known kind")
    command, description = subject_of(tool)
    offered = [option for option in ORDER if option in options]
    answer = await turn.ask_approval(command, description, options=offered, ttl=ttl)
    chosen = options.get(answer.option)
    if chosen is None:  # denied, where the agent knows no option for that
        return CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


def options_of(options: object) -> dict[str, str]:
    """The agent's option for each option of the card; of two that mean the same, the first.

    What an id tells counts before what a kind tells.
    """
    given = [
        (option, str(option["kind"]))
        for each in (options if isinstance(options, list) else ())
        if isinstance((option := as_object(each)).get("optionId"), str) and "kind" in option
    ]
    found: dict[str, str] = {}
    unnamed = []
    for option, kind in given:
        named = BY_ID.get(option["optionId"])
        # An id must not turn a refusal into a permission.
        if named is not None and (named == "deny") == (BY_KIND.get(kind) == "deny"):
            found.setdefault(named, option["optionId"])
        else:
            unnamed.append((option, kind))
    for option, kind in unnamed:
        if kind in BY_KIND:
            found.setdefault(BY_KIND[kind], option["optionId"])
    return found


def subject_of(tool: Mapping[str, Any]) -> tuple[str, str]:
    """What a permission is asked for, and more about it.

    The first is a command, or else the call with all that the agent tells of it: nobody shall approve
    what an app does not show, and every app shows the command (D23).
    """
    title = tool.get("title")
    title = title.strip() if isinstance(title, str) else ""
    given = as_object(tool.get("rawInput"))
    # Only of a tool that executes: with editors, "command" is what they do to a file.
    command = _command_in(given) if tool.get("kind") == "execute" else ""
    if command:
        purpose = given.get("description")
        more = {name: given[name] for name in given if name not in {"command", "description"}}
        told = [purpose if isinstance(purpose, str) else title, *_as_json(more)]
        return command, "\n\n".join(part for part in told if part)
    details = texts_in(tool.get("content"))
    if not has_diff(tool.get("content")):
        details += _as_json(tool.get("rawInput"))
    subject = "\n\n".join((title or "A tool of the agent", *details))
    return subject, "" if details else "The agent does not tell with what arguments."


def _as_json(given: object) -> list[str]:
    if given is None or given == {}:
        return []
    return [orjson.dumps(given, option=orjson.OPT_INDENT_2).decode()]


def _command_in(given: Mapping[str, Any]) -> str:
    match given.get("command"):
        case str(command) if command.strip():
            return command
        case [*words] if words and all(isinstance(word, str) for word in words):
            return shlex.join(words)
        case _:
            return ""
