"""The demo agent: an echo, and one command for every part of the protocol.

It is deterministic and needs nothing, so it is what tests, benches and a person who tries the
project talk to. `COMMANDS`, at the end, is all it can do; `/help` is written from it.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from importlib.resources import files
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

import trio
from attrs import evolve, frozen

from hermes_mobile.agents import (
    Agent,
    FileInput,
    OutgoingFile,
    TextInput,
    TurnError,
    VoiceInput,
)
from hermes_mobile.protocol.frames import MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermes_mobile.agents import Answer, Turn

MAX_LONG_CHARS: Final = 1_000_000
MAX_STREAM_WORDS: Final = 10_000
MAX_THINK_SECONDS: Final = 3600
MAX_FILE_BYTES: Final = 2 * MAX_MEDIA_BYTES
"""Of `/file`; above what may be sent, so that the refusal can be seen too."""
WORD_INTERVAL: Final = 0.05
"""Seconds between two states of `/stream`."""
HASHED_INLINE_BYTES: Final = MIB
"""Up to here hashing takes about a millisecond; what is larger goes to a worker thread."""

PROSE: Final = "".join(
    f"Sentence {n} of a hundred stands in its place." + ("\n" if n % 20 == 0 else " ")
    for n in range(1, 101)
)
"""Paragraphs long enough that replies are cut at spaces as well as at line breaks (D28)."""


class DemoAgent(Agent):
    """Obeys its commands, describes recordings and files, and echoes any other text exactly."""

    async def handle(self, turn: Turn) -> None:
        match turn.input:
            case TextInput(text=text):
                if text.startswith("/"):
                    await obey(turn, text)
                else:
                    await turn.reply(text)
            case VoiceInput() as voice:
                await describe_voice(turn, voice)
            case FileInput() as file:
                await describe_file(turn, file)


@frozen
class Command:
    usage: str
    does: str
    run: Callable[[Turn, str], Awaitable[None]]


class UsageError(Exception):
    """The argument is not what the command needs; the message says what that is."""


async def obey(turn: Turn, text: str) -> None:
    """Run the command that `text` begins with; an unknown one is a text like any other."""
    name, *rest = text.split(maxsplit=1)
    command = COMMANDS.get(name.lower())
    if command is None:
        await turn.reply(text)
        return
    try:
        await command.run(turn, rest[0].rstrip() if rest else "")
    except UsageError as error:
        await turn.reply(f"Usage: {command.usage}, where {error}.")
    except TurnError as error:
        await turn.reply(f"That is not possible: {error}.")


async def describe_voice(turn: Turn, voice: VoiceInput) -> None:
    transcript = "(none)" if voice.transcript is None else voice.transcript
    await turn.reply(
        f"format: {voice.format}\nsize: {len(voice.data)} bytes\ntranscript: {transcript}"
    )


async def describe_file(turn: Turn, file: FileInput) -> None:
    if len(file.data) <= HASHED_INLINE_BYTES:
        digest = sha256(file.data)
    else:
        digest = await trio.to_thread.run_sync(sha256, file.data)
    await turn.reply(
        f"kind: {file.kind}\nname: {file.filename or '(none)'}\nmime: {file.mime}\n"
        f"size: {len(file.data)} bytes\nsha256: {digest.hexdigest()}"
    )


async def list_commands(turn: Turn, _: str) -> None:
    lines = [f"{command.usage} - {command.does}" for command in COMMANDS.values()]
    lines.append("/stop - cancels what is going on")
    lines.append("Any other text is echoed; recordings and files are described.")
    await turn.reply("\n".join(lines))


async def reply_long(turn: Turn, argument: str) -> None:
    await turn.reply(prose(whole_number(argument, MAX_LONG_CHARS)))


async def stream_words(turn: Turn, argument: str) -> None:
    words = islice(cycle(PROSE.split()), whole_number(argument, MAX_STREAM_WORDS))
    async with turn.stream() as stream:
        await stream.update(next(words))
        for word in words:
            await trio.sleep(WORD_INTERVAL)
            await stream.append(f" {word}")


async def think(turn: Turn, argument: str) -> None:
    seconds = duration(argument, MAX_THINK_SECONDS)
    await trio.sleep(seconds)
    await turn.reply(f"Thought for {seconds:g} s.")


async def ask_to_run(turn: Turn, argument: str) -> None:
    command = required("COMMAND", argument)
    answer = await turn.ask_approval(command, "The demo agent only asks: nothing is executed.")
    await turn.reply(applied(answer))


async def ask_to_confirm(turn: Turn, argument: str) -> None:
    answer = await turn.ask_confirmation(required("TEXT", argument))
    await turn.reply(applied(answer))


async def ask_question(turn: Turn, argument: str) -> None:
    question, *choices = (part.strip() for part in argument.split("|"))
    answer = await turn.ask(
        required("QUESTION", question), [choice for choice in choices if choice]
    )
    await turn.reply("No answer in time." if answer.expired else f"Answer: {answer.text}")


async def send(file: OutgoingFile, turn: Turn, _: str) -> None:
    await turn.send_file(evolve(file, reply_to=turn.input.id))


async def send_document(turn: Turn, argument: str) -> None:
    data = prose(whole_number(argument, MAX_FILE_BYTES)).encode()
    await turn.send_file(
        OutgoingFile(MediaOut.DOCUMENT, data, f"{len(data)}-bytes.txt", "text/plain")
    )


async def fail(_turn: Turn, _: str) -> None:
    raise RuntimeError("/fail was asked for")


def applied(answer: Answer) -> str:
    """Name what counts, which need not be what was pressed."""
    return f"{'No answer in time. ' if answer.expired else ''}Applied: {answer.option}"


def prose(length: int) -> str:
    """Make `length` characters of text, the same each time; each is one byte in UTF-8."""
    return (PROSE * (length // len(PROSE) + 1))[:length]


def required(name: str, argument: str) -> str:
    if not argument:
        raise UsageError(f"{name} is not empty")
    return argument


def whole_number(argument: str, most: int) -> int:
    try:
        number = int(argument)
    except ValueError:
        number = 0
    if not 1 <= number <= most:
        raise UsageError(f"N is a whole number from 1 to {most:,}")
    return number


def duration(argument: str, most: float) -> float:
    try:
        seconds = float(argument)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= most:  # nor is NaN
        raise UsageError(f"S is a number of seconds from 0 to {most:,}")
    return seconds


def sample(kind: MediaOut, name: str, mime: str) -> OutgoingFile:
    data = (files("hermes_mobile.agents") / "samples" / name).read_bytes()
    return OutgoingFile(kind, data, name, mime, caption=f"A sample: {kind}")


IMAGE: Final = sample(MediaOut.IMAGE, "image.png", "image/png")
VOICE: Final = sample(MediaOut.VOICE, "voice.ogg", "audio/ogg")
VIDEO: Final = sample(MediaOut.VIDEO, "video.mp4", "video/mp4")
DOCUMENT: Final = sample(MediaOut.DOCUMENT, "document.pdf", "application/pdf")
ANIMATION: Final = sample(MediaOut.ANIMATION, "animation.gif", "image/gif")
LINK: Final = OutgoingFile(
    MediaOut.DOCUMENT,
    filename="rfc6455.txt",
    mime="text/plain",
    caption="The WebSocket protocol, by link",
    url="https://www.rfc-editor.org/rfc/rfc6455.txt",
)

COMMANDS: Final = {
    command.usage.partition(" ")[0]: command
    for command in (
        Command("/help", "lists these commands", list_commands),
        Command("/long N", "replies with exactly N characters", reply_long),
        Command("/stream N", "streams N words, about 20 a second", stream_words),
        Command("/think S", "works for S seconds, then replies", think),
        Command("/run COMMAND", "asks for approval (nothing is executed)", ask_to_run),
        Command("/confirm TEXT", "asks for confirmation", ask_to_confirm),
        Command("/ask QUESTION | A | B ...", "asks a question with choices", ask_question),
        Command("/image", "sends an image", partial(send, IMAGE)),
        Command("/voice", "sends a voice message", partial(send, VOICE)),
        Command("/video", "sends a video", partial(send, VIDEO)),
        Command("/document", "sends a document", partial(send, DOCUMENT)),
        Command("/animation", "sends an animation", partial(send, ANIMATION)),
        Command("/file N", "sends a document of N bytes", send_document),
        Command("/link", "sends a document by link", partial(send, LINK)),
        Command("/fail", "fails inside the agent", fail),
    )
}
"""By name, in lower case."""
