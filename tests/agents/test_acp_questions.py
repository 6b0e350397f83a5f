"""What an agent asks: permissions by their options, forms by their fields."""

from __future__ import annotations

import pytest

from hermes_mobile.agents import Answer
from hermes_mobile.agents.acp import elicitation, permission
from hermes_mobile.protocol.frames import CardKind
from hermes_mobile.testing import Asked, FakeTurn, Said


def option(id, kind):
    return {"optionId": id, "name": id.title(), "kind": kind}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([option("a", "allow_once"), option("r", "reject_once")], {"once": "a", "deny": "r"}),
        (
            [option("a", "allow_always"), option("b", "allow_always")],
            {"always": "a"},
        ),
        (
            [option("allow_session", "allow_always"), option("x", "allow_always")],
            {"session": "allow_session", "always": "x"},
        ),
        (
            [option("x", "allow_always"), option("allow_always", "allow_always")],
            {"always": "allow_always"},
        ),
        ([option("r", "reject_always"), option("s", "reject_once")], {"deny": "r"}),
        ([option("deny", "reject_once"), option("r", "reject_always")], {"deny": "deny"}),
        ([option("deny", "allow_once")], {"once": "deny"}),
        ([option("allow_once", "reject_once")], {"deny": "allow_once"}),
        ([option("a", "maybe"), {"optionId": 7, "kind": "allow_once"}, "odd", {}], {}),
        ({"optionId": "a"}, {}),
    ],
)
def test_options_by_id_then_by_kind(options, found):
    """Issue 7: an id tells more than a kind, but never turns a refusal into a permission."""
    assert permission.options_of(options) == found


NO_ARGUMENTS = "The agent does not tell with what arguments."


@pytest.mark.parametrize(
    ("call", "subject"),
    [
        (
            {"title": "T", "kind": "execute"}
            | {"rawInput": {"command": "ls -l", "description": "List"}},
            ("ls -l", "List"),
        ),
        (
            {"title": "T", "kind": "execute"}
            | {"rawInput": {"command": ["ls", "a b"], "cwd": "/srv"}},
            ("ls 'a b'", 'T\n\n{\n  "cwd": "/srv"\n}'),
        ),
        (
            {"title": "T", "kind": "edit", "rawInput": {"command": "create", "path": "/a"}},
            ('T\n\n{\n  "command": "create",\n  "path": "/a"\n}', ""),
        ),
        (
            {"title": "T", "rawInput": {"path": "/a"}}
            | {"content": [{"type": "content", "content": {"type": "text", "text": "Edit a"}}]},
            ('T\n\nEdit a\n\n{\n  "path": "/a"\n}', ""),
        ),
        ({"title": "Write", "rawInput": {"path": "/a"}}, ('Write\n\n{\n  "path": "/a"\n}', "")),
        (
            {"title": "Edit", "content": [{"type": "diff", "path": "/a", "newText": "b"}]},
            ("Edit\n\n/a\n+b\n", ""),
        ),
        ({"title": " ", "rawInput": {}}, ("A tool of the agent", NO_ARGUMENTS)),
        (
            {"title": 7, "rawInput": {"command": []}},
            ('A tool of the agent\n\n{\n  "command": []\n}', ""),
        ),
        ({}, ("A tool of the agent", NO_ARGUMENTS)),
    ],
)
def test_what_a_permission_is_for(call, subject):
    """D23: the command, or the call with all that is known of it; what is not known is said."""
    assert permission.subject_of(call) == subject


async def test_a_refusal_without_an_option_for_it():
    """Issue 7: it is told as cancelled, which no agent takes for a yes."""
    turn = FakeTurn("hello", answers=[Answer("deny")])
    params = {"options": [option("a", "allow_once")]}
    assert await permission.ask(turn, params, {"title": "T"}, None) == permission.CANCELLED


def form(message="Which?", **properties):
    return {"message": message, "mode": "form", "requestedSchema": {"properties": properties}}


def asked(question, *choices):
    return Asked(CardKind.CLARIFY, question, choices)


@pytest.mark.parametrize(
    ("field", "choices", "answer", "value"),
    [
        ({"type": "string"}, (), Answer("other", "green"), "green"),
        ({"type": "string", "enum": ["a", "b"]}, ("a", "b"), Answer("c1", "b"), "b"),
        (
            {"type": "string", "oneOf": [{"const": "x", "title": "The X"}, {"const": "y"}]},
            ("The X", "y"),
            Answer("c0", "The X"),
            "x",
        ),
        ({"type": "boolean"}, ("Yes", "No"), Answer("c1", "No"), False),
        ({"type": "boolean"}, ("Yes", "No"), Answer("other", "y"), True),
        ({"type": "boolean"}, ("Yes", "No"), Answer("other", "FALSE"), False),
        ({"type": "integer"}, (), Answer("other", " 12 "), 12),
        ({"type": "number"}, (), Answer("other", "1.5"), 1.5),
    ],
)
async def test_a_field(field, choices, answer, value):
    """Issue 7: one field is one card; its answer is told as the value that the field wants."""
    turn = FakeTurn("hello", answers=[answer])
    assert await elicitation.ask(turn, form(it=field)) == {
        "action": "accept",
        "content": {"it": value},
    }
    assert turn.said == [asked("Which?", *choices)]


async def test_fields_are_asked_one_after_the_other():
    """Issue 7: each with its title and what it is for."""
    turn = FakeTurn("hello", answers=[Answer("other", "Ada"), Answer("other", "36")])
    name = {"type": "string", "title": "Name", "description": "As on the passport"}
    assert await elicitation.ask(turn, form("About you", name=name, age={"type": "integer"})) == {
        "action": "accept",
        "content": {"name": "Ada", "age": 36},
    }
    assert turn.said == [
        asked("About you\n\nName\n\nAs on the passport"),
        asked("About you\n\nage"),
    ]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "9" * 20),
        ({"type": "number"}, "nan"),
        ({"type": "boolean"}, "maybe"),
        ({"type": "string", "enum": ["a"]}, "b"),
    ],
)
async def test_an_answer_that_does_not_fit(field, wrong):
    """Issue 7: it is asked again, three times in all; then the form is cancelled."""
    turn = FakeTurn("hello", answers=[Answer("other", wrong)] * 3)
    assert await elicitation.ask(turn, form("", it=field)) == {"action": "cancel"}
    assert len([said for said in turn.said if isinstance(said, Said)]) == 3
    assert turn.said[0].text == "it"


async def test_a_form_that_nobody_answers():
    """D23: an expired card cancels the form; the next field is not asked for."""
    turn = FakeTurn("hello")
    fields = {"a": {"type": "string"}, "b": {"type": "string"}}
    assert await elicitation.ask(turn, form(**fields)) == {"action": "cancel"}
    assert len(turn.said) == 1


@pytest.mark.parametrize(
    "params",
    [
        form(),
        form(a={"type": "array"}),
        form(a={"type": ["string", "null"]}),
        form(a={"type": "string"}, b={"type": "object"}),
        form(**{f"f{n}": {"type": "string"} for n in range(9)}),
        form(a={"type": "string"}) | {"mode": "url"},
        {},
    ],
)
async def test_forms_that_a_phone_cannot_show(params):
    """Issue 7: they are declined before anything is asked."""
    turn = FakeTurn("hello")
    assert await elicitation.ask(turn, params) == {"action": "decline"}
    assert turn.said == []
