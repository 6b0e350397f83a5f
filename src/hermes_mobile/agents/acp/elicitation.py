"""`elicitation/create`: the fields of a form, asked one after the other by clarify cards."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from hermes_mobile.agents.acp.jsonrpc import as_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes_mobile.agents import Turn

CANCEL: Final = {"action": "cancel"}
DECLINE: Final = {"action": "decline"}
MAX_FIELDS: Final = 8
"""A longer form is nothing for a phone, and is declined."""
MAX_INTEGER: Final = 2**53
"""Beyond it JSON's numbers are not exact."""
MAX_TRIES: Final = 3
"""For an answer that fits its field."""


async def ask(turn: Turn, params: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for each field of the form, and answer the agent with the values.

    A card that expires cancels the whole form. A form with a field that cannot be asked for in words
    is declined before anything is asked.
    """
    schema = as_object(params.get("requestedSchema"))
    properties = {
        name: as_object(field) for name, field in as_object(schema.get("properties")).items()
    }
    fields = {
        name: Field(field)
        for name, field in properties.items()
        if str(field.get("type")) in READERS
    }
    if params.get("mode", "form") != "form" or not 0 < len(fields) == len(properties) <= MAX_FIELDS:
        return DECLINE
    message = params.get("message")
    content: dict[str, Any] = {}
    for name, field in fields.items():
        question = field.question(message if isinstance(message, str) else "", name, len(fields))
        value = await _ask_field(turn, question, field)
        if value is None:
            return CANCEL
        content[name] = value
    return {"action": "accept", "content": content}


async def _ask_field(turn: Turn, question: str, field: Field) -> str | float | bool | None:
    """Ask until the answer fits; None when nobody answers, or never rightly."""
    for _ in range(MAX_TRIES):
        answer = await turn.ask(question, list(field.choices))
        if answer.expired:
            return None
        try:
            return field.read(answer.text)
        except ValueError:
            await turn.reply(f"That does not fit: {field.wanted}.")
    return None


class Field:
    """One field of a form, of a type that words can answer."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._read, self.wanted = READERS[schema["type"]]
        self.choices = choices_of(schema)
        """What may be chosen, as it is shown, with what it means to the agent."""

    def question(self, message: str, name: str, count: int) -> str:
        """What is asked; a form with one field speaks by its message alone, if it has one."""
        label = self._schema.get("title") or name
        described = self._schema.get("description")
        parts = [message] if count == 1 and message else [message, str(label), described]
        return "\n\n".join(part for part in parts if isinstance(part, str) and part.strip()) or name

    def read(self, answer: str) -> str | float | bool:
        """The value that the answer means. Errors: ValueError when it does not fit."""
        if answer in self.choices:
            return self.choices[answer]
        if self.choices and self._schema["type"] == "string":
            raise ValueError
        return self._read(answer.strip())


def choices_of(schema: Mapping[str, Any]) -> dict[str, str | bool]:
    if schema["type"] == "boolean":
        return {"Yes": True, "No": False}
    match schema:
        case {"oneOf": [*options]}:
            known = [as_object(option) for option in options]
            titled = {
                str(each.get("title") or each.get("const")): each.get("const") for each in known
            }
        case {"enum": [*values]}:
            titled = {str(value): value for value in values}
        case _:
            return {}
    return {
        title: value for title, value in titled.items() if title.strip() and isinstance(value, str)
    }


def _truth(answer: str) -> bool:
    match answer.lower():
        case "yes" | "y" | "true" | "1":
            return True
        case "no" | "n" | "false" | "0":
            return False
        case _:
            raise ValueError


def _integer(answer: str) -> int:
    if abs(value := int(answer)) > MAX_INTEGER:
        raise ValueError
    return value


def _number(answer: str) -> float:
    if not isfinite(value := float(answer)):
        raise ValueError
    return value


READERS: Final[Mapping[str, tuple[Callable[[str], str | float | bool], str]]] = {
    "string": (str, "one of the choices is wanted"),
    "number": (_number, "a number is wanted"),
    "integer": (_integer, "a whole number is wanted"),
    "boolean": (_truth, "yes or no is wanted"),
}
"""How an answer in words is read, by the type of the field, and what is wanted."""
