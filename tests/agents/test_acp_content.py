"""What people send, as blocks of ACP, and what blocks of an agent say."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_mobile.agents import FileInput, OutgoingFile, TextInput, VoiceInput
from hermes_mobile.agents.acp.content import (
    PromptCapabilities,
    RefusalError,
    prompt_of,
    said_by,
    texts_in,
)
from hermes_mobile.protocol.frames import AudioFormat, MediaIn, MediaOut

ALL = PromptCapabilities(image=True, audio=True, embedded=True)
NONE = PromptCapabilities()
EMBEDDED = PromptCapabilities(embedded=True)
KEPT = Path("/state/received/1-notes.txt")


def file(data=b"words", mime="text/plain", kind=MediaIn.DOCUMENT, **more):
    return FileInput("f1", kind, mime, data, **{"filename": "notes.txt"} | more)


def text(words):
    return {"type": "text", "text": words}


def resource(**contents):
    return {"type": "resource", "resource": {"uri": "attachment:///notes.txt", **contents}}


NAMED = text("A file: notes.txt")
LINK = {
    "type": "resource_link",
    "uri": "file:///state/received/1-notes.txt",
    "name": "notes.txt",
    "mimeType": "text/plain",
    "size": 5,
}


@pytest.mark.parametrize(
    ("message", "can", "blocks"),
    [
        (TextInput("m1", " as sent "), NONE, [text(" as sent ")]),
        (VoiceInput("v1", AudioFormat.OGG, b"Ogg", "said"), ALL, [text("said")]),
        (
            VoiceInput("v1", AudioFormat.WAV, b"RIFF", " "),
            ALL,
            [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}],
        ),
        (
            file(b"ID3", "audio/mpeg", MediaIn.AUDIO),
            ALL,
            [{"type": "audio", "data": "SUQz", "mimeType": "audio/mpeg"}],
        ),
        (
            file(b"PNG", "image/png", MediaIn.IMAGE, caption="Look"),
            ALL,
            [text("Look"), {"type": "image", "data": "UE5H", "mimeType": "image/png"}],
        ),
        (file(), ALL, [NAMED, resource(mimeType="text/plain", text="words")]),
        (
            file(mime="application/json"),
            ALL,
            [NAMED, resource(mimeType="application/json", text="words")],
        ),
        (file(b"\xff"), EMBEDDED, [NAMED, resource(mimeType="text/plain", blob="/w==")]),
        (file(b"\0"), EMBEDDED, [NAMED, resource(mimeType="text/plain", blob="AA==")]),
        (
            file(mime="application/pdf"),
            EMBEDDED,
            [NAMED, resource(mimeType="application/pdf", blob="d29yZHM=")],
        ),
        (file(), NONE, [text("notes.txt:\n\nwords")]),
        (file(path=KEPT), NONE, [NAMED, LINK]),
        (file(path=KEPT, filename=""), NONE, [text("A file: f1"), LINK | {"name": "1-notes.txt"}]),
        (
            file(mime="application/pdf", path=KEPT),
            ALL,
            [NAMED, LINK | {"mimeType": "application/pdf"}],
        ),
        (file(b"x" * (513 << 10), path=KEPT), ALL, [NAMED, LINK | {"size": 513 << 10}]),
        (
            file(filename=""),
            EMBEDDED,
            [
                text("A file: f1"),
                {
                    "type": "resource",
                    "resource": {
                        "uri": "attachment:///f1",
                        "mimeType": "text/plain",
                        "text": "words",
                    },
                },
            ],
        ),
    ],
)
def test_what_a_person_sends(message, can, blocks):
    """Issue 7: each input in the form that the agent can take; a path before a binary blob."""
    assert prompt_of(message, can) == blocks


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (VoiceInput("v1", AudioFormat.OGG, b"Ogg"), "came without a transcript"),
        (file(b"PNG", "image/png", MediaIn.IMAGE), "of this kind (image, image/png)"),
        (file(b"\xff"), "of this kind (document, text/plain)"),
    ],
)
def test_what_an_agent_cannot_be_given(message, words):
    """Issue 7: the refusal names what it is."""
    with pytest.raises(RefusalError, match=r"^This agent ") as refusal:
        prompt_of(message, NONE)
    assert words in str(refusal.value)


def sent(kind, data, filename="", mime=""):
    return OutgoingFile(kind, data, filename, mime)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (text("words"), "words"),
        (
            {
                "type": "image",
                "data": "UE5H",
                "mimeType": "image/png",
                "uri": "file:///a/b%20c.png",
            },
            sent(MediaOut.IMAGE, b"PNG", "b c.png", "image/png"),
        ),
        ({"type": "image", "data": "UE5H", "mimeType": 7}, sent(MediaOut.IMAGE, b"PNG")),
        (
            {"type": "audio", "data": "T2dn", "mimeType": "audio/ogg"},
            sent(MediaOut.VOICE, b"Ogg", "", "audio/ogg"),
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a/n.md", "text": "# N"}},
            sent(MediaOut.DOCUMENT, b"# N", "n.md", "text/plain"),
        ),
        (
            {
                "type": "resource",
                "resource": {"uri": "x:/p.png", "blob": "UE5H", "mimeType": "image/png"},
            },
            sent(MediaOut.IMAGE, b"PNG", "p.png", "image/png"),
        ),
        (
            {"type": "resource", "resource": {"uri": "//[", "blob": "AAE="}},
            sent(MediaOut.DOCUMENT, b"\0\1"),
        ),
        ({"type": "resource_link", "uri": "https://a.org", "name": "A"}, "A: https://a.org"),
        (
            {"type": "resource_link", "uri": "https://a.org", "name": "https://a.org"},
            "https://a.org",
        ),
        ({"type": "resource_link", "uri": "https://a.org"}, "https://a.org"),
        ({"type": "image", "data": "A"}, None),
        ({"type": "resource", "resource": {}}, None),
        ({"type": "hologram"}, None),
        ({}, None),
    ],
)
def test_what_an_agent_says(block, said):
    """Issue 7: texts, files and links; nothing else says anything."""
    assert said_by(block) == said


def test_what_a_tool_call_shows():
    """D23: texts and diffs, line by line; what is not known is left out."""
    content = [
        {"type": "content", "content": text("Before")},
        {"type": "diff", "path": "/a.py", "oldText": "one\ntwo", "newText": "three"},
        {"type": "diff", "path": "/b.py", "oldText": None, "newText": "new\n"},
        {"type": "terminal", "terminalId": "t"},
        "odd",
    ]
    assert texts_in(content) == ["Before", "/a.py\n-one\n-two\n+three\n", "/b.py\n+new\n"]
    assert texts_in(None) == []
