"""A chat, whatever it is shown on: what becomes of events, and of the lines that a person writes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

import trio

from hermes_mobile.cli import card as cards
from hermes_mobile.cli.printable import printable
from hermes_mobile.cli.saving import save
from hermes_mobile.cli.view import Style
from hermes_mobile.client import (
    Avatar,
    AvatarState,
    CardKind,
    ClientError,
    ConnectionState,
    Delivered,
    Error,
    Message,
    OfflineError,
    PromptCard,
    PromptDone,
    Ready,
    ReceivedFile,
    RefusedError,
    StateChanged,
    TransportError,
    Typing,
    make_id,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import TypeAlias

    from hermes_mobile.cli.view import View
    from hermes_mobile.client import Event, HermesClient

    Action: TypeAlias = Callable[[], Awaitable[object]]

SEND: Final = "/send"
QUIT: Final = "/quit"
STOP: Final = "/stop"
GROWING_CHARS: Final = 10_000
SETTLED_SECONDS: Final = 1.0
"""After a reconnection: from the answer to a ping until what came before it has been shown."""


class Talk:
    """`folder` is where received files are saved."""

    def __init__(self, client: HermesClient, view: View, folder: Path) -> None:
        self._client = client
        self._view = view
        self._folder = folder
        self._changed = trio.lowlevel.ParkingLot()
        self._was_ready = False
        self._trouble = ""
        """Why the connection was lost, or not made."""
        self._reconnecting = ""
        self._uploading = ""
        self._avatar = AvatarState.IDLE
        self._working = False
        self._awaited = False
        """Something was sent that the agent is not known to be done with."""
        self._unsure = False
        """There was a reconnection since it was sent."""
        self._growing: dict[str, dict[int, str]] = {}
        """The pieces of messages that are not whole, by id and index."""
        self._cards: dict[str, PromptCard] = {}
        """Those that are open and not answered, the oldest first."""
        self._answered: dict[str, PromptCard] = {}
        self._wants_words = ""
        """The card whose next answer is in words."""

    # What is told

    async def show_events(self) -> None:
        """Show whatever comes.

        *Errors*: AccessDeniedError, ReplacedError; TransportError when there is no server at the
        beginning. Later ones are reconnected to.
        """
        self._show_status()
        async for event in self._client:
            await self._show(event)
            self._show_status()
            self._changed.unpark_all()

    async def _show(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case per event
        match event:
            case StateChanged():
                self._show_state(event)
            case Ready():
                self._welcome(event)
            case Message():
                self._show_message(event)
            case Typing(stop):
                self._working = not stop
                self._awaited = self._awaited and not stop
            case Avatar(state):
                self._avatar = state
            case PromptCard():
                self._cards[event.id] = event
                self._view.say(cards.shown(event), Style.CARD)
            case PromptDone():
                self._close_card(event)
            case ReceivedFile():
                await self._take_file(event)
                self._nothing_follows()
            case Error(code="transport"):
                self._trouble = event.message
            case Error(fatal=True):
                pass  # it is raised as well
            case Error():
                self._show_error(event.code, event.message)
                self._nothing_follows()
            case Delivered():
                pass  # only to those who deliver
            case _:
                assert_never(event)

    def _show_state(self, change: StateChanged) -> None:
        self._reconnecting = ""
        if change.state is ConnectionState.RECONNECTING:
            if not self._was_ready:
                raise TransportError(self._trouble or "the server closed the connection")
            if change.attempt == 1:
                self._notice(f"{self._trouble or 'The connection was closed'}; connecting again")
            self._reconnecting = f"reconnecting ({change.attempt})"

    def _welcome(self, ready: Ready) -> None:
        if self._was_ready:
            self._notice("connected again")
        else:
            self._notice(f"connected as {ready.session}; {SEND} PATH sends a file, {QUIT} leaves")
        self._unsure = self._was_ready
        self._was_ready = True
        self._working = False
        self._avatar = AvatarState.IDLE

    def _show_message(self, message: Message) -> None:
        pieces = self._growing.setdefault(message.id, {})
        pieces[message.index] = message.text
        if message.final:
            del self._growing[message.id]
            self._view.grow(self._all_that_grows())
            self._view.say(_joined(pieces), Style.AGENT)
            self._nothing_follows()
        else:
            self._view.grow(self._all_that_grows())

    def _all_that_grows(self) -> str:
        """The end of it, which is more than a screen."""
        return "\n".join(_joined(pieces, GROWING_CHARS) for pieces in self._growing.values())

    def _nothing_follows(self) -> None:
        """The agent has answered without showing that it works, as to `/stop`."""
        self._awaited = self._awaited and self._working

    def _close_card(self, done: PromptDone) -> None:
        card = self._cards.pop(done.id, None) or self._answered.pop(done.id, None)
        if card is None:
            return
        if done.expired:
            self._notice("the card was not answered in time, or was withdrawn")
        else:
            self._notice(f"answered: {cards.label_of(card, done.option_id)}")
        if self._cards:
            self._view.say(cards.shown(next(iter(self._cards.values()))), Style.CARD)

    async def _take_file(self, file: ReceivedFile) -> None:
        if file.caption:
            self._view.say(printable(file.caption), Style.AGENT)
        if file.data is None:
            self._notice(f"{file.kind}: {file.filename} {file.url}")
            return
        try:
            path = await trio.to_thread.run_sync(save, self._folder, file)
        except OSError as error:
            self._show_error(f"{file.kind} not saved", error.strerror or "")
        else:
            self._notice(f"{file.kind}, {len(file.data):,} bytes: {path}")

    # What is written

    def read(self, line: str) -> Action | None:
        """What to do about a line: None for a blank one. It means what it means when it is written."""
        said = line.strip()
        if not said:
            return None
        self._view.say(printable(line), Style.PERSON)
        command, _, argument = said.partition(" ")
        if command == SEND:
            return partial(self._send_file, _unquoted(argument.strip()))
        if self._cards and said.lower() != STOP:
            return self._read_answer(next(iter(self._cards.values())), line)
        return partial(self._send_text, line)

    def _read_answer(self, card: PromptCard, line: str) -> Action | None:
        if self._wants_words == card.id:
            answer = cards.Answer(cards.OTHER, line)
        else:
            answer = cards.read(card, line)
        if not answer.option_id:
            self._notice(f"not sent: the card comes first; a number from 1 to {len(card.options)}")
            return None
        if card.kind is CardKind.CLARIFY and answer == cards.Answer(cards.OTHER):
            self._wants_words = card.id
            self._notice("in your own words:")
            return None
        self._answered[card.id] = self._cards.pop(card.id)
        return partial(
            self._send, lambda: self._client.answer_prompt(card.id, answer.option_id, answer.text)
        )

    async def _send_text(self, text: str) -> None:
        message_id = make_id()
        await self._send(lambda: self._client.send_text(text, id=message_id), awaited=True)

    async def _send_file(self, path: str) -> None:
        message_id = make_id()

        async def send() -> None:
            source = await trio.Path(path).expanduser()
            await self._client.send_file(source, id=message_id, progress=self._show_upload)

        try:
            await self._send(send, awaited=True)
        except (OSError, RuntimeError, ValueError) as error:  # no home, or no path at all
            self._awaited = False
            self._show_error("not sent", getattr(error, "strerror", "") or "no such file")
        finally:
            self._uploading = ""
            self._show_status()

    async def _send(self, send: Action, *, awaited: bool = False) -> None:
        """Send until the server has it, over as many connections as it takes."""
        self._awaited = self._awaited or awaited
        while True:
            try:
                await send()
            except RefusedError as refusal:
                self._awaited = False
                self._show_error(f"not sent: {refusal.code}", refusal.message)
                return
            except OfflineError:
                await self._changed.park()
            except ClientError:
                await trio.sleep_forever()  # the client has failed, of which `show_events` tells
            else:
                return

    def _show_upload(self, sent: int, size: int) -> None:
        self._uploading = f"sending {sent * 100 // size} %"
        self._show_status()

    @property
    def asks(self) -> bool:
        """Whether a card is open."""
        return bool(self._cards)

    async def wait_answer(self) -> None:
        """Wait until the agent is done with what was sent, or asks something."""
        while (self._awaited or self._working) and not self._cards:
            if self._unsure:
                await self._make_sure()
            else:
                await self._changed.park()

    async def _make_sure(self) -> None:
        """After a reconnection the server tells what it still works on, and then answers a ping."""
        self._unsure = False
        try:
            await self._client.ping()
        except ClientError:
            return  # another reconnection follows, or nothing any more
        await trio.sleep(SETTLED_SECONDS)
        self._awaited = self._awaited and self._working

    # How it is shown

    def _show_status(self) -> None:
        self._view.show_status(self._status)

    @property
    def _status(self) -> str:
        if self._reconnecting or self._uploading:
            return self._reconnecting or self._uploading
        if not self._was_ready:
            return "connecting"
        if self._cards:
            return "your answer"
        if self._avatar is not AvatarState.IDLE:
            return self._avatar
        return "working" if self._working else ""

    def _notice(self, text: str) -> None:
        self._view.say(_on_one_line(text), Style.NOTICE)

    def _show_error(self, what: str, why: str) -> None:
        self._view.say(_on_one_line(f"{what}: {why}"), Style.ERROR)


def _joined(pieces: dict[int, str], last: int = 0) -> str:
    return printable("".join(pieces[index] for index in sorted(pieces))[-last:])


def _on_one_line(text: str) -> str:
    return printable(text).replace("\n", " ")


def _unquoted(path: str) -> str:
    """A path as it is, or as a terminal writes one that is dropped on it."""
    if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"":
        return path[1:-1]
    return path
