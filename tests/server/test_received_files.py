"""Recordings and files of the app, through real connections."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from cast import Recorder
from hermes_mobile.agents import FileInput, VoiceInput
from hermes_mobile.protocol.frames import AudioFormat, MediaIn
from house import audio, chunk, open_house

if TYPE_CHECKING:
    from trio.testing import MockClock


MIB = 1024 * 1024


class Looker(Recorder):
    takes = frozenset({MediaIn.IMAGE})


async def test_wrapped_base64_is_understood(autojump_clock: MockClock) -> None:
    """D16: ASCII white space inside base64 is tolerated, and the words come with the recording."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.send(audio("m1", "T2dn\r\nUw ==\n", text="light off"))
        await peer.expect("message")
    assert agent.inputs == [VoiceInput("m1", AudioFormat.OGG, b"OggS", "light off")]


@pytest.mark.parametrize("data", ["", " ", "T2dnUw", "T2dnUw=", "_-__", "T2dn!w==", 7, None])
async def test_other_base64_is_refused(autojump_clock: MockClock, data: Any) -> None:
    """D16: the URL alphabet, missing padding, an empty payload: `bad_frame`."""
    async with open_house() as house:
        peer = await house.connect()
        assert await peer.refusal(audio("m1", data)) == ("bad_frame", False, "m1")


async def test_a_recording_has_at_most_8_mib(autojump_clock: MockClock) -> None:
    """D16: the decoded size decides: 8 MiB are taken, a byte more is `too_big`."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.send(audio("m1", base64.b64encode(bytes(8 * MIB)).decode()))
        await peer.expect("message")
        too_big = base64.b64encode(bytes(8 * MIB + 1)).decode()
        assert await peer.refusal(audio("m2", too_big)) == ("too_big", False, "m2")
    assert agent.ids == ["m1"]


async def test_what_the_agent_cannot_take_is_refused(autojump_clock: MockClock) -> None:
    """D18: `unsupported_frame` for each try, because it is not recorded; `ready` tells before."""
    async with open_house(agent := Looker()) as house:
        peer = await house.connect()
        assert peer.ready["capabilities"]["media_in"] == ["image"]
        for _ in range(2):
            answer = await peer.refusal(audio("m1", "T2dnUw=="))
            assert answer == ("unsupported_frame", False, "m1")
            answer = await peer.refusal(chunk("f1", b"%PDF"))
            assert answer == ("unsupported_frame", False, "f1")
        await peer.send(chunk("f1", b"PNG", kind="image"))
        await peer.expect("message")
    assert agent.ids == ["f1"]


@pytest.mark.parametrize("format", ["mp3", "WAVE", ""])
async def test_an_unknown_audio_format_is_refused(autojump_clock: MockClock, format: str) -> None:
    """The reference: `wav` or `ogg`, others are `unsupported_frame`; none at all is `bad_frame`."""
    async with open_house() as house:
        peer = await house.connect()
        code = "unsupported_frame" if format else "bad_frame"
        frame = audio("m1", "T2dnUw==", format=format)
        assert await peer.refusal(frame) == (code, False, "m1")


async def test_chunks_come_in_any_order(autojump_clock: MockClock) -> None:
    """D17, D18: a repeated part is ignored, and metadata comes from the first chunk that has it."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.send(chunk("f1", b"c", 2, 3, caption="first words"))
        await peer.send(chunk("f1", b"a", 0, 3, filename="../../.b\\.secret\x07.PDF", caption="x"))
        await peer.send(chunk("f1", b"A", 0, 3))
        await peer.send(chunk("f1", b"b", 1, 3))
        await peer.expect("message")
    assert agent.inputs == [
        FileInput("f1", MediaIn.DOCUMENT, "application/pdf", b"abc", "secret.PDF", "first words")
    ]


@pytest.mark.parametrize(
    ("part", "parts"),
    [(0, 0), (0, 2049), (1, 1), (-1, 2), (True, 2), (0, True), (0.0, 1), ("0", "1")],
)
async def test_a_part_that_cannot_be_is_refused(
    autojump_clock: MockClock, part: Any, parts: Any
) -> None:
    """D17: integers, no booleans, 1 to 2048 parts, and the part is one of them."""
    async with open_house() as house:
        peer = await house.connect()
        assert await peer.refusal(chunk("f1", b"a", part, parts)) == ("bad_frame", False, "f1")


async def test_a_file_that_changes_on_the_way_is_dropped(autojump_clock: MockClock) -> None:
    """D17: another kind, or number of parts: `bad_frame`, and it has to begin with part 0 again."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        for changed in (chunk("f1", b"b", 1, 3, kind="image"), chunk("f1", b"b", 1, 4)):
            await peer.send(chunk("f1", b"a", 0, 3))
            assert await peer.refusal(changed) == ("bad_frame", False, "f1")
            await peer.send(chunk("f1", b"b", 1, 3))
            assert await peer.drain() == []
        for part, data in enumerate((b"x", b"y", b"z")):
            await peer.send(chunk("f1", data, part, 3))
        await peer.expect("message")
    assert [each.data for each in agent.inputs] == [b"xyz"]


async def test_a_ninth_open_upload_is_too_big(autojump_clock: MockClock) -> None:
    """D17: it is refused and its later chunks ignored; the eight go on."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        for number in range(8):
            await peer.send(chunk(f"f{number}", b"a", 0, 2))
        assert await peer.refusal(chunk("f8", b"a", 0, 2)) == ("too_big", False, "f8")
        await peer.send(chunk("f8", b"b", 1, 2))
        await peer.send(chunk("single", b"whole"))
        await peer.send(chunk("f0", b"b", 1, 2))
        assert [(await peer.expect("message"))["text"] for _ in range(2)] == ["noted"] * 2
    assert agent.ids == ["single", "f0"]


async def test_open_uploads_share_8_mib(autojump_clock: MockClock) -> None:
    """D17: beyond it the upload that asked for more is dropped, the others are kept."""
    async with open_house(agent := Recorder()) as house:
        peer = await house.connect()
        await peer.send(chunk("f1", bytes(5 * MIB), 0, 2))
        assert await peer.refusal(chunk("f2", bytes(4 * MIB), 0, 2)) == ("too_big", False, "f2")
        await peer.send(chunk("f1", bytes(3 * MIB), 1, 2))
        await peer.expect("message")
    assert agent.ids == ["f1"]
    assert len(agent.inputs[0].data) == 8 * MIB


async def test_half_a_file_ends_with_its_connection(autojump_clock: MockClock) -> None:
    """D17: a reconnection has the whole budget, and sends the file from the start."""
    async with open_house(agent := Recorder()) as house:
        old = await house.connect()
        for number in range(8):
            await old.send(chunk(f"f{number}", bytes(MIB), 0, 2))
        await old.drain()
        new = await house.connect()
        await new.send(chunk("f7", b"b", 1, 2))
        await new.send(chunk("f7", b"a", 0, 2))
        await new.expect("message")
        await new.send(chunk("big", bytes(7 * MIB), 0, 2))
        assert "error" not in [frame["t"] for frame in await new.drain()]
    assert [each.data for each in agent.inputs] == [b"ab"]
