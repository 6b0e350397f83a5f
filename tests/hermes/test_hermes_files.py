"""Hermes Agent and files: what a person sends, and what Hermes sends back."""

from __future__ import annotations

import base64
import re
from importlib.resources import files
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLES = files("hermes_mobile.agents") / "samples"


def sample(name):
    return (SAMPLES / name).read_bytes()


def told(stage, part):
    """The newest request to the model with `part` in what the person said."""
    return next(
        str(request["messages"])
        for request in reversed(stage.model.requests)
        if any(part in str(m["content"]) for m in request["messages"] if m["role"] == "user")
    )


def received(stage, request):
    """The contents of the files that Hermes tells the model of."""
    paths = re.findall(rf"{stage.gateway.home}/[^\s'\"\])]+", request.replace("\\n", " "))
    found = (Path(path.rstrip(".")) for path in paths)
    return [path.read_bytes() for path in found if path.is_file()]


async def test_an_image_comes_to_the_model(shared):
    """Its bytes, with the caption as the text."""
    async with shared.phone("image-in") as phone:
        image = sample("image.png")
        await phone.send(
            "media", image, kind="image", mime="image/png", filename="sky.png", caption="say A sky"
        )
        assert await phone.until_said("sky") == "A sky"
        seen = base64.b64encode(image).decode()
        assert any(seen in str(request["messages"]) for request in shared.model.requests)


@pytest.mark.parametrize(
    ("kind", "name", "mime"),
    [("document", "document.pdf", "application/pdf"), ("video", "video.mp4", "video/mp4")],
)
async def test_a_file_comes_to_hermes(shared, kind, name, mime):
    """The model is told where it lies, and there it is."""
    async with shared.phone(f"{kind}-in") as phone:
        data = sample(name)
        caption = f"say A {kind}, thank you"
        await phone.send("media", data, kind=kind, mime=mime, filename=name, caption=caption)
        await phone.until_said(f"A {kind}, thank you")
        assert data in received(shared, told(shared, caption))


async def test_a_voice_note_with_a_transcript_is_heard(shared):
    """The app recognised the words: Hermes takes them as said, without listening itself."""
    async with shared.phone("voice-in") as phone:
        words = "say I heard you well"
        await phone.send("audio", sample("voice.ogg"), format="ogg", text=words)
        assert await phone.until_said("heard") == "I heard you well"


async def test_a_voice_note_without_a_transcript_comes_to_hermes(shared):
    """Where Hermes may not listen (stt.enabled: false), the model is told so, and the person answered."""
    async with shared.phone("voice-only") as phone:
        before = len(shared.model.requests)
        await phone.send("audio", sample("voice.ogg"), format="ogg")
        await phone.reply()
        await phone.turn_ended()
        assert "voice" in str(shared.model.requests[before:]).lower()


@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("image.png", "image", "image/png"),
        ("voice.ogg", "voice", "audio/ogg"),
        ("video.mp4", "video", "video/mp4"),
        ("document.pdf", "document", "application/pdf"),
        ("animation.gif", "animation", "image/gif"),
    ],
)
async def test_a_file_of_hermes_comes_to_the_phone(shared, name, kind, mime):
    """What the model names with MEDIA: arrives as what it is, and the rest of the text as text."""
    path = shared.gateway.place / name
    path.write_bytes(sample(name))
    async with shared.phone(f"{kind}-out") as phone:
        await phone.say(f"say Here it is. MEDIA:{path}")
        assert (await phone.until_said("Here it is")).strip() == "Here it is."
        frame, data = await phone.file()
        assert (frame["kind"], frame["mime"], data) == (kind, mime, sample(name))
        await phone.turn_ended()


async def test_a_file_that_is_too_large_is_told(shared):
    """More than 8 MiB cannot be sent: the person learns why nothing comes."""
    path = shared.gateway.place / "large.pdf"
    path.write_bytes(b"%PDF-1.4" + bytes(8 << 20))
    async with shared.phone("large-out") as phone:
        await phone.say(f"say Here it is. MEDIA:{path}")
        assert "at most 8388608" in await phone.until_said("large.pdf")


async def test_an_image_that_is_none_is_told(shared):
    """What says that it is an image, and is not, never comes to the model: the person learns it."""
    async with shared.phone("unreadable") as phone:
        await phone.send("media", b"no image", kind="image", mime="image/png", filename="sky.png")
        assert await phone.reply() == "This image cannot be read."
        await phone.turn_ended()
