"""What an agent may do: the port of `hermes_mobile.agents`, on a session."""

from __future__ import annotations

from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from hermes_mobile.agents import TurnError
from hermes_mobile.protocol import cards
from hermes_mobile.protocol.frames import User
from hermes_mobile.protocol.limits import KIB, MAX_MEDIA_BYTES, REPLY_PIECE_CHARS
from hermes_mobile.protocol.slicing import cut
from hermes_mobile.protocol.uploads import guess_mime
from hermes_mobile.server.units import FileUnit, MessageUnit, StreamUnit, text_size
from hermes_mobile.server.values import MAX_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from hermes_mobile.agents import Answer, Input, OutgoingFile, ReplyStream
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.session import Session
    from hermes_mobile.server.units import Unit

# What an app could not read would end each connection that it is sent on.
MAX_WORDS_CHARS: Final = 256 * KIB
"""All words of a card, or beside a file, in code points."""
MAX_CHOICES: Final = 256
"""Of a clarification."""


class Conversation:
    """What may be said to one device, inside or outside a turn."""

    def __init__(self, hub: Hub, device_id: str) -> None:
        self._hub = hub
        self._device_id = device_id
        self._open_cards: set[str] = set()

    @property
    def _session(self) -> Session:
        """The device's session now: one that is away with nothing to keep is forgotten meanwhile."""
        return self._hub.registry.open(self._device_id)

    @property
    def device_id(self) -> str:
        return self._device_id

    @property
    def session(self) -> str:
        return f"mobile:{self._device_id}"

    @property
    def user(self) -> User:
        session = self._hub.registry.get(self._device_id)
        return User() if session is None else session.user

    async def reply(self, text: str) -> str:
        _check_text(text, "a reply")
        if not text:
            raise TurnError("a reply needs text")
        self._check_size(text_size(text))
        unit = MessageUnit(self.make_id(), trio.current_time(), text)
        await self._say(unit)
        return unit.id

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[ReplyStream]:
        stream = Stream(self)
        try:
            yield stream
        finally:
            stream.finish()

    async def send_file(self, file: OutgoingFile) -> str:
        if not file.data and not file.url:
            raise TurnError("a file needs data or a url")
        if len(file.data) > MAX_MEDIA_BYTES:
            raise TurnError(f"a file has at most {MAX_MEDIA_BYTES} bytes: give a url instead")
        _check_words(file.filename, file.mime, file.caption, file.url)
        mime = file.mime or guess_mime(file.filename)
        chunk_bytes = self._hub.settings.media_chunk_bytes
        unit = FileUnit(self.make_id(), trio.current_time(), file, mime, chunk_bytes)
        self._check_size(unit.size)
        await self._say(unit)
        return unit.id

    async def ask_approval(
        self,
        command: str,
        description: str = "",
        *,
        options: Sequence[str] = ("once", "session", "always", "deny"),
        ttl: float | None = None,
    ) -> Answer:
        return await self._ask(
            lambda id, deadline: cards.approval(
                id, self.session, command, description, options, deadline
            ),
            ttl,
        )

    async def ask_confirmation(
        self,
        text: str,
        *,
        options: Sequence[str] = ("once", "always", "cancel"),
        ttl: float | None = None,
    ) -> Answer:
        return await self._ask(
            lambda id, deadline: cards.confirmation(id, self.session, text, options, deadline),
            ttl,
        )

    async def ask(
        self, question: str, choices: Sequence[str] = (), *, ttl: float | None = None
    ) -> Answer:
        return await self._ask(
            lambda id, deadline: cards.clarification(id, self.session, question, choices, deadline),
            ttl,
        )

    async def _ask(self, make: Callable[[str, float], cards.Card], ttl: float | None) -> Answer:
        if ttl is not None and not 0 < ttl < inf:
            raise TurnError("ttl: a number of seconds above 0")
        lifetime = min(ttl or self._hub.settings.prompt_ttl, MAX_SECONDS)
        deadline = trio.current_time() + lifetime
        try:
            card = make(self.make_id(), deadline)
        except ValueError as error:
            raise TurnError(str(error)) from error
        if len(card.choices) > MAX_CHOICES:
            raise TurnError(f"a card has at most {MAX_CHOICES} choices")
        words = (card.text, card.command, card.description, *card.choices)
        for text in words:
            _check_text(text, "a card")
        _check_words(*words)
        await self.room(1, text_size(card.text + card.command))
        return await self._session.questions.ask(card, self._open_cards)

    async def _say(self, unit: Unit) -> None:
        await self.room(unit.frame_count, unit.size)
        self._session.say(unit)
        self.spoke()

    def say_state(self, unit: StreamUnit, text: str, *, final: bool) -> None:
        """Say what a streamed unit is now."""
        self._session.say_newer(unit, text, final=final)
        self.spoke()

    async def room(self, frames: int, size: int, growing: Unit | None = None) -> None:
        """Wait until that much may be said."""
        session = self._hub.registry.get(self._device_id)
        if session is None:
            await trio.lowlevel.checkpoint()
        else:
            await session.room(frames, size, growing)

    def spoke(self) -> None:
        """Show that the agent speaks; outside a turn, what is said changes no state."""

    def make_id(self) -> str:
        return self._hub.make_id()

    def _check_size(self, size: int) -> None:
        limit = self._hub.settings.keep_bytes
        if size > limit:
            raise TurnError(f"at most {limit} bytes can be kept for a device")


class Turn(Conversation):
    """One message of a person, being worked on; `scope` is cancelled to end it."""

    before: trio.Event | None = None
    """Set once the turn before it, of those that run beside each other, is with the agent."""
    begun: trio.Event | None = None
    """Set once this one is."""

    def __init__(self, session: Session, message: Input, scope: trio.CancelScope) -> None:
        super().__init__(session.hub, session.device_id)
        self.input = message
        self.scope = scope
        self.cut = False
        """The server ended it, not the agent and not the person."""

    async def show_working(self) -> None:
        await self.room(1, 0)
        self._session.show(self._session.presence.show_working(trio.current_time()))

    def spoke(self) -> None:
        self._session.show(self._session.presence.spoke(trio.current_time()))

    def let_next_begin(self) -> None:
        """Turns that run beside each other reach the agent in the order of their messages."""
        if self.begun is not None:
            self.begun.set()

    def withdraw_cards(self) -> None:
        """Close the cards that are still open: nobody waits for their answers any more (D34)."""
        for card_id in list(self._open_cards):
            self._session.questions.withdraw(card_id)


class Stream:
    """A reply that grows. It never exceeds one frame: at a cut it goes on under a new id (D29)."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._text = ""
        self._shown = 0  # code points of the text that stand in messages which are final
        self._unit: StreamUnit | None = None
        self._ended = False

    async def append(self, text: str) -> None:
        await self.update(self._text + text)

    async def update(self, text: str) -> None:
        _check_text(text, "a stream")
        if self._ended:
            raise TurnError("the stream has ended")
        if text == self._text:
            await trio.lowlevel.checkpoint()
            return
        self._text = text
        while True:
            if self._unit is not None and self._unit.queued:
                await trio.lowlevel.checkpoint()  # what waits is replaced: no room is needed
            else:
                piece = text[self._shown : self._shown + REPLY_PIECE_CHARS]
                await self._conversation.room(1, text_size(piece), self._unit)
            if not self._show_piece():
                return

    def finish(self) -> None:
        """Show the last state as final. Nothing here waits: it also ends a stream that is cancelled."""
        while self._show_piece():
            pass
        if self._unit is not None:
            self._conversation.say_state(self._unit, self._text[self._shown :], final=True)
            self._unit = None
        self._ended = True

    def _show_piece(self) -> bool:
        """Show what fits one frame; returns whether there is more."""
        rest = self._text[self._shown :]
        if not rest:
            return False
        end = cut(rest)
        final = end < len(rest)
        if self._unit is None:
            self._unit = StreamUnit(self._conversation.make_id(), trio.current_time())
        self._conversation.say_state(self._unit, rest[:end], final=final)
        if final:
            self._shown += end
            self._unit = None
        return final


def _check_text(text: object, what: str) -> None:
    """Refuse what would only fail when it is encoded, for each connection anew. *Errors*: TurnError."""
    if not isinstance(text, str):
        raise TurnError(f"{what} is made of str, not {type(text).__name__}")


def _check_words(*texts: str) -> None:
    if sum(map(len, texts)) > MAX_WORDS_CHARS:
        raise TurnError(f"at most {MAX_WORDS_CHARS} characters of text go with a card or a file")
