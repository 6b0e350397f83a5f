"""The demo agent, row by row of the table that users rely on."""

from hashlib import sha256

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, assert_no_checkpoints

from hermes_mobile.agents import Answer, FileInput, Input, OutgoingFile, VoiceInput, load_agent
from hermes_mobile.agents.demo import COMMANDS, DemoAgent
from hermes_mobile.protocol.frames import AudioFormat, CardKind, MediaIn, MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB
from hermes_mobile.testing import Asked, FakeTurn, Record, Said, Sent, Streamed


async def talk(input: Input | str, *answers: Answer) -> list[Record]:
    """Give the agent one message; return all that it said."""
    turn = FakeTurn(input, answers=answers)
    await DemoAgent().handle(turn)
    return turn.said


async def reply_to(input: Input | str, *answers: Answer) -> str:
    """Give the agent one message; return its last words."""
    *_, said = await talk(input, *answers)
    assert isinstance(said, Said)
    return said.text


async def file_for(text: str) -> OutgoingFile:
    """Give the agent one message; return the file that is all it sends."""
    [sent] = await talk(text)
    assert isinstance(sent, Sent)
    return sent.file


# The echo


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "  spaces, and a line break \n",
        "no /help at its start",
        " /help",
        "/",
        "/nosuchcommand with Words ",
        "/longer 5",
        "//help",
        "привет 👩‍👩‍👧",
    ],
)
async def test_other_text_is_echoed_exactly(text: str) -> None:
    """What is no command comes back as it was sent, untrimmed, unknown commands included."""
    assert await talk(text) == [Said(text)]


@given(st.text(min_size=1).filter(lambda text: not text.startswith("/")))
def test_any_text_is_echoed_exactly(text: str) -> None:
    """The echo holds for every text that does not begin like a command."""
    assert trio.run(talk, text) == [Said(text)]


async def test_the_echo_waits_for_nothing_but_the_reply() -> None:
    """Between the message and the reply the scheduler is not entered."""

    class Instant(FakeTurn):
        async def reply(self, text: str) -> str:
            return text

    with assert_no_checkpoints():
        await DemoAgent().handle(Instant("hello"))


# The commands


async def test_help_lists_every_command() -> None:
    """`/help` names every command with its arguments, and `/stop`."""
    lines = (await reply_to("/help")).splitlines()
    assert [line.partition(" - ")[0] for line in lines[: len(COMMANDS)]] == [
        "/help",
        "/long N",
        "/stream N",
        "/think S",
        "/run COMMAND",
        "/confirm TEXT",
        "/ask QUESTION | A | B ...",
        "/image",
        "/voice",
        "/video",
        "/document",
        "/animation",
        "/file N",
        "/link",
        "/fail",
    ]
    assert lines[len(COMMANDS)].startswith("/stop")


@pytest.mark.parametrize("text", ["/LONG 9", "/Long 9", "/long\t9 ", "/long\n9", "/long   9  "])
async def test_commands_are_case_insensitive(text: str) -> None:
    """Case, and the white space around the argument, do not matter."""
    assert len(await reply_to(text)) == 9


@pytest.mark.parametrize("length", [1, 2, 3_499, 3_500, 3_501, 12_001, 1_000_000])
async def test_long_replies_with_exactly_n_characters(length: int) -> None:
    """`/long N` is N characters, the same ones each time."""
    text = await reply_to(f"/long {length}")
    assert len(text) == length
    assert text == await reply_to(f"/long {length}")


async def test_long_replies_can_be_cut_between_words() -> None:
    """The text has spaces and line breaks, and its pieces differ: a lost one is seen (D28)."""
    text = await reply_to("/long 9000")
    assert text.startswith("Sentence 1 of a hundred stands in its place. Sentence 2 ")
    assert text.count("\n") > 5
    assert max(map(len, text.split())) < 20
    assert len({text[:3000], text[3000:6000], text[6000:]}) == 3


@pytest.mark.parametrize("argument", ["", "0", "-1", "x", "1.5", "1000001", "9" * 5_000])
async def test_long_without_a_sane_number_says_what_it_wants(argument: str) -> None:
    """No number, no whole one, or one out of range: the reply is the usage with the range."""
    assert await talk(f"/long {argument}") == [
        Said("Usage: /long N, where N is a whole number from 1 to 1,000,000.")
    ]


async def test_stream_grows_by_one_word_every_twentieth_of_a_second(
    autojump_clock: MockClock,
) -> None:
    """`/stream N` shows N states, each a word longer, 0.05 s apart, and ends with the last."""
    turn = FakeTurn("/stream 5")
    await DemoAgent().handle(turn)
    assert autojump_clock.current_time() == 4 * 0.05
    assert turn.said == [
        Streamed(
            (
                "Sentence",
                "Sentence 1",
                "Sentence 1 of",
                "Sentence 1 of a",
                "Sentence 1 of a hundred",
            )
        )
    ]


async def test_a_stream_may_be_longer_than_the_text_it_is_made_of(
    autojump_clock: MockClock,
) -> None:
    """A thousand words are a thousand states."""
    [streamed] = await talk("/stream 1000")
    assert isinstance(streamed, Streamed)
    assert len(streamed.states) == len(streamed.states[-1].split()) == 1000


async def test_a_cancelled_stream_has_shown_what_it_said(autojump_clock: MockClock) -> None:
    """What `/stop` cuts short stays as it was at that moment."""
    turn = FakeTurn("/stream 100")
    with trio.move_on_after(0.12):
        await DemoAgent().handle(turn)
    assert turn.said == [Streamed(("Sentence", "Sentence 1", "Sentence 1 of"))]


@pytest.mark.parametrize("argument", ["", "0", "x", "10001"])
async def test_stream_without_a_sane_number_says_what_it_wants(argument: str) -> None:
    """`/stream` takes 1 to 10,000 words."""
    assert (await reply_to(f"/stream {argument}")).startswith("Usage: /stream N, where N is")


@pytest.mark.parametrize(
    ("argument", "seconds", "words"),
    [("0", 0, "0"), ("2.5", 2.5, "2.5"), ("3600", 3600, "3600")],
)
async def test_think_works_for_exactly_that_long(
    argument: str, seconds: float, words: str, autojump_clock: MockClock
) -> None:
    """`/think S` is silent for S seconds, decimals included, then says so."""
    assert await talk(f"/think {argument}") == [Said(f"Thought for {words} s.")]
    assert autojump_clock.current_time() == seconds


@pytest.mark.parametrize("argument", ["", "soon", "-1", "3601", "inf", "nan"])
async def test_think_without_a_sane_duration_says_what_it_wants(
    argument: str, autojump_clock: MockClock
) -> None:
    """A duration that is none does not hold a turn for ever."""
    assert await talk(f"/think {argument}") == [
        Said("Usage: /think S, where S is a number of seconds from 0 to 3,600.")
    ]


@pytest.mark.parametrize("option", ["once", "session", "always", "deny"])
async def test_run_asks_for_approval_and_names_the_option(option: str) -> None:
    """`/run` shows the command whole, with a description, and replies with what was applied."""
    assert await talk("/run ls  -l | wc", Answer(option)) == [
        Asked(
            CardKind.EXEC_APPROVAL,
            "ls  -l | wc",
            ("once", "session", "always", "deny"),
            "The demo agent only asks: nothing is executed.",
        ),
        Said(f"Applied: {option}"),
    ]


@pytest.mark.parametrize("option", ["once", "always", "cancel"])
async def test_confirm_asks_and_names_the_option(option: str) -> None:
    """`/confirm` shows the text and replies with what was applied."""
    assert await talk("/confirm Go on?", Answer(option)) == [
        Asked(CardKind.SLASH_CONFIRM, "Go on?", ("once", "always", "cancel")),
        Said(f"Applied: {option}"),
    ]


@pytest.mark.parametrize(("command", "safe"), [("/run ls", "deny"), ("/confirm ok?", "cancel")])
async def test_an_expired_card_applies_the_safe_option(command: str, safe: str) -> None:
    """Without an answer the safe option counts, and the reply says why (D23)."""
    assert await reply_to(command) == f"No answer in time. Applied: {safe}"


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("/ask Tea or coffee? | Tea|Coffee ", ("Tea", "Coffee")),
        ("/ask Tea or coffee? || Tea |", ("Tea",)),
        ("/ask Tea or coffee?", ()),
    ],
)
async def test_ask_asks_with_the_choices_given(text: str, choices: tuple[str, ...]) -> None:
    """The question and its choices are trimmed, empty choices dropped; none at all is fine."""
    assert await talk(text, Answer("other", "Water")) == [
        Asked(CardKind.CLARIFY, "Tea or coffee?", choices),
        Said("Answer: Water"),
    ]


async def test_an_expired_question_is_said_to_be_so() -> None:
    """A clarification without an answer has no safe option (D23)."""
    assert await reply_to("/ask Tea? | Yes | No") == "No answer in time."


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ("/run", "Usage: /run COMMAND, where COMMAND is not empty."),
        ("/confirm  ", "Usage: /confirm TEXT, where TEXT is not empty."),
        ("/ask", "Usage: /ask QUESTION | A | B ..., where QUESTION is not empty."),
        ("/ask | A", "Usage: /ask QUESTION | A | B ..., where QUESTION is not empty."),
    ],
)
async def test_a_card_without_words_is_not_shown(text: str, usage: str) -> None:
    """A command that needs words says so instead of asking nothing."""
    assert await talk(text) == [Said(usage)]


@pytest.mark.parametrize(
    ("command", "kind", "name", "mime"),
    [
        ("/image", MediaOut.IMAGE, "image.png", "image/png"),
        ("/voice", MediaOut.VOICE, "voice.ogg", "audio/ogg"),
        ("/video", MediaOut.VIDEO, "video.mp4", "video/mp4"),
        ("/document", MediaOut.DOCUMENT, "document.pdf", "application/pdf"),
        ("/animation", MediaOut.ANIMATION, "animation.gif", "image/gif"),
    ],
)
async def test_each_kind_of_file_has_a_sample(
    command: str, kind: MediaOut, name: str, mime: str
) -> None:
    """The file comes alone, named, typed, and in reply to the message that asked for it."""
    file = await file_for(command)
    assert (file.kind, file.filename, file.mime) == (kind, name, mime)
    assert 0 < len(file.data) < 8 * 1024
    assert file.reply_to == FakeTurn("").input.id


@pytest.mark.parametrize("size", [1, 4096, MAX_MEDIA_BYTES])
async def test_file_sends_a_document_of_exactly_n_bytes(size: int) -> None:
    """`/file N` is a readable document of N bytes, up to the limit itself."""
    file = await file_for(f"/file {size}")
    assert len(file.data) == size
    assert (file.kind, file.filename) == (MediaOut.DOCUMENT, f"{size}-bytes.txt")
    assert file.data.startswith(b"S")


async def test_a_file_beyond_the_limit_is_declined_politely() -> None:
    """What the server refuses the agent to send (D31) the person is told in words."""
    assert await talk(f"/file {MAX_MEDIA_BYTES + 1}") == [
        Said("That is not possible: a file has at most 8 MiB.")
    ]


@pytest.mark.parametrize("argument", ["", "0", "much", str(2 * MAX_MEDIA_BYTES + 1)])
async def test_file_without_a_sane_size_says_what_it_wants(argument: str) -> None:
    """A size that would only cost memory is not even made."""
    assert (await reply_to(f"/file {argument}")).startswith("Usage: /file N, where N is")


async def test_link_sends_a_url_and_no_data() -> None:
    """`/link` leaves the download to the app."""
    file = await file_for("/link")
    assert file.url.startswith("https://")
    assert file.data == b""
    assert file.filename


async def test_fail_raises() -> None:
    """`/fail` ends in an exception that the agent does not handle."""
    turn = FakeTurn("/fail")
    with pytest.raises(RuntimeError):
        await DemoAgent().handle(turn)
    assert turn.said == []


# What is not text


@pytest.mark.parametrize(
    ("transcript", "words"), [("hello there", "hello there"), (None, "(none)")]
)
async def test_a_recording_is_described(transcript: str | None, words: str) -> None:
    """An audio frame is answered with format, size and transcript."""
    voice = VoiceInput("v1", AudioFormat.OGG, b"12345", transcript)
    assert await talk(voice) == [Said(f"format: ogg\nsize: 5 bytes\ntranscript: {words}")]


@pytest.mark.parametrize("size", [1, MIB, MIB + 1], ids=["small", "inline", "in a thread"])
async def test_a_file_is_described(size: int) -> None:
    """A file is answered with kind, name, mime, size and SHA-256, whatever its size."""
    data = b"\xa5" * size
    file = FileInput("f1", MediaIn.IMAGE, "image/png", data, "cat.png", "My cat")
    assert await talk(file) == [
        Said(
            f"kind: image\nname: cat.png\nmime: image/png\nsize: {size} bytes\n"
            f"sha256: {sha256(data).hexdigest()}"
        )
    ]


async def test_a_file_without_a_name_is_described() -> None:
    """A missing name is said to be missing."""
    file = FileInput("f1", MediaIn.AUDIO, "audio/mpeg", b"x")
    assert "\nname: (none)\n" in await reply_to(file)


def test_the_demo_is_the_agent_called_demo() -> None:
    """`--agent demo` is this one."""
    assert type(load_agent("demo")) is DemoAgent
