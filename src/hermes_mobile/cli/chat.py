"""`hermes-mobile chat`."""

from __future__ import annotations

import codecs
import os
import platform
import signal
import sys
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio

from hermes_mobile import __version__
from hermes_mobile.cli import remote
from hermes_mobile.cli.conventions import config_option, examples, version_option
from hermes_mobile.cli.editor import LineEditor
from hermes_mobile.cli.saving import DEFAULT_FOLDER
from hermes_mobile.cli.talk import QUIT, Talk
from hermes_mobile.cli.view import PlainView, Style, TerminalView, View, key_by_key, set_key_by_key
from hermes_mobile.client import ClientError, Device, open_client
from hermes_mobile.client.background import open_background
from hermes_mobile.protocol import fields
from hermes_mobile.protocol.errors import ProtocolError
from hermes_mobile.protocol.limits import MAX_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from ssl import SSLContext
    from typing import TypeAlias

    from hermes_mobile.cli.talk import Action
    from hermes_mobile.client import HermesClient

    Person: TypeAlias = Callable[[HermesClient, Talk], Awaitable[None]]

READ_BYTES: Final = 4096
CONFIRMED_SECONDS: Final = 1.5
"""1 s after its last word a server asks whether it arrived (D32); who has left by then hears it again."""


def _device_id(_ctx: click.Context, _param: click.Parameter, device: str | None) -> str:
    if device is None:
        return f"chat-{os.getuid()}-{platform.node()}"[:MAX_NAME_CHARS]
    try:
        return fields.required_identifier(device, "--device")
    except ProtocolError as refusal:
        raise click.BadParameter(refusal.message.removeprefix("--device: ")) from None


@click.command(
    epilog=examples(
        "hermes-mobile chat",
        "hermes-mobile chat --url wss://agent.example.com/ws --token-file token --device laptop",
        'echo "How is the backup?" | hermes-mobile chat',
    )
)
@remote.url_option
@click.option(
    "--device",
    metavar="ID",
    callback=_device_id,
    help="What this chat is to the server.  [default: chat-, the user's number, and the host]",
)
@click.option(
    "--save",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Where received files go.",
)
@remote.token_file_option
@config_option
@version_option
def chat(
    url: str | None, device: str, folder: Path, token_file: Path | None, config: Path | None
) -> None:
    """Chat with the agent.

    A card is answered with the number of an option, or in words. /send PATH sends a file, /quit or
    Ctrl-D leaves; every other line goes to the agent, /stop among them. The token comes from
    MOBILE_TOKEN.

    Without a terminal each line of standard input is sent when the one before it is answered, and
    the chat ends after the last answer.

    The exit status is 0 at the end, 4 when the server refuses or another chat connects as the same
    device, 5 when there is no server.
    """
    open_chat = partial(
        converse,
        url or remote.server_url(config),
        remote.app_token(config, token_file),
        Device(device, "Terminal", "terminal", __version__),
        folder.expanduser(),
        tls=remote.trust(url, config),
    )
    try:
        if sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            on_terminal(open_chat)
        else:
            view = PlainView()
            reader = TextReader(sys.stdin.fileno())
            remote.run(partial(open_chat, view, partial(follow_lines, reader, view)))
    except ClientError as error:
        raise remote.error_of(error) from error


async def converse(
    url: str,
    token: str,
    device: Device,
    folder: Path,
    view: View,
    person: Person,
    *,
    tls: SSLContext | None = None,
) -> None:
    """Chat until the `person` is done. *Errors*: ClientError."""
    async with (
        open_client(url, token=token, device=device, ssl_context=tls) as client,
        open_background() as beside,
    ):
        talk = Talk(client, view, folder)

        async def hear() -> None:
            try:
                await person(client, talk)
            except ClientError:
                return  # the client has failed, of which `show_events` tells
            scope.cancel()

        with trio.CancelScope() as scope:
            beside.start_soon(hear)
            await talk.show_events()


class TextReader:
    """What can be read from a file, pipe or terminal; bytes that are not UTF-8 are replaced."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unread = ""

    async def read(self) -> str:
        """Some text, as soon as there is any; empty at the end."""
        while True:
            try:
                # In a thread, for not every file can be waited for. It may be left behind: a plain
                # read holds no lock that the end of the program would wait for.
                data = await trio.to_thread.run_sync(
                    os.read, self._fd, READ_BYTES, abandon_on_cancel=True
                )
            except OSError:
                data = b""  # the terminal is gone
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return text

    async def read_line(self) -> str | None:
        """A line, without its end; None after the last one."""
        while "\n" not in self._unread and (text := await self.read()):
            self._unread += text
        line, end, self._unread = self._unread.partition("\n")
        return line if line or end else None


# Without a terminal


async def follow_lines(reader: TextReader, view: View, client: HermesClient, talk: Talk) -> None:
    """Send lines, each when the agent is done with the one before."""
    await client.wait_ready()
    while (line := await reader.read_line()) is not None and line.strip() != QUIT:
        if (action := talk.read(line)) is not None:
            await action()
            await talk.wait_answer()
    if talk.asks:
        view.say("a card is left unanswered", Style.ERROR)
    await trio.sleep(CONFIRMED_SECONDS)


# On a terminal


def on_terminal(open_chat: Callable[[View, Person], Awaitable[None]]) -> None:
    keyboard, screen = sys.stdin.fileno(), sys.stdout
    editor = LineEditor()

    def write(text: str) -> None:
        screen.write(text)
        screen.flush()

    view = TerminalView(
        editor,
        write,
        partial(os.get_terminal_size, screen.fileno()),
        coloured="NO_COLOR" not in os.environ,
    )
    person = partial(follow_keys, TextReader(keyboard), editor, view)
    with key_by_key(keyboard):
        view.open()
        try:
            remote.run(partial(open_chat, view, partial(redrawing, keyboard, view, person)))
        finally:
            view.close()


async def redrawing(
    keyboard: int, view: TerminalView, person: Person, client: HermesClient, talk: Talk
) -> None:
    """Draw anew when the window has another size, or the shell gave the terminal back (Ctrl-Z)."""

    async def redraw_on_signals() -> None:
        async for number in signals:
            if number == signal.SIGCONT:
                set_key_by_key(keyboard)
            view.refresh()

    with trio.open_signal_receiver(signal.SIGWINCH, signal.SIGCONT) as signals:
        async with open_background() as beside:
            beside.start_soon(redraw_on_signals)
            await person(client, talk)


async def follow_keys(
    reader: TextReader, editor: LineEditor, view: TerminalView, client: HermesClient, talk: Talk
) -> None:
    """Edit the line, and do what finished lines say, one after the other."""
    queue, actions = trio.open_memory_channel["Action"](inf)
    done = trio.Event()

    async def act() -> None:
        async for action in actions:
            await action()
        done.set()

    async with open_background() as beside:
        beside.start_soon(act)
        with queue:
            await take_keys(reader, editor, view, talk, queue)
        if client.ready:
            await done.wait()


async def take_keys(
    reader: TextReader,
    editor: LineEditor,
    view: TerminalView,
    talk: Talk,
    queue: trio.MemorySendChannel[Action],
) -> None:
    """Edit until the person leaves."""
    while typed := await reader.read():
        for line in editor.feed(typed):
            if line.strip() == QUIT:
                return
            if (action := talk.read(line)) is not None:
                queue.send_nowait(action)
        if editor.ended:
            return
        view.refresh()
