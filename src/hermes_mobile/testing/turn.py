"""What an agent does, seen without a server."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from itertools import count
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen
from trio.lowlevel import checkpoint

from hermes_mobile.agents import Answer, TextInput, TurnError, User
from hermes_mobile.protocol import cards
from hermes_mobile.protocol.frames import CardKind
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MIB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from hermes_mobile.agents import Input, OutgoingFile
    from hermes_mobile.protocol.cards import Card


@frozen
class Said:
    """A reply. Ids tell records of one turn apart and do not count when records are compared."""

    text: str
    id: str = field(default="", eq=False)


@frozen
class Streamed:
    """A reply that grew: every state that was shown, each the whole text so far."""

    states: tuple[str, ...]
    id: str = field(default="", eq=False)


@frozen
class Sent:
    file: OutgoingFile
    id: str = field(default="", eq=False)


@frozen
class Asked:
    """A card: the command, text or question, and the options or choices that it offers."""

    kind: CardKind
    text: str
    choices: tuple[str, ...]
    description: str = ""
    ttl: float | None = None


@frozen
class ShowedWorking:
    """The agent showed again that it works."""


Record: TypeAlias = Said | Streamed | Sent | Asked | ShowedWorking


class FakeTurn:
    """A `Turn`, and so a `Conversation`, in memory. `said` has what the agent said, oldest first.

    The input is given whole, or as the text of one. Each card takes the next of `answers`; without
    one left it expires at once. Methods are checkpoints, as the server's are, and raise TurnError
    where those do, except for limits that are settings. A test of an agent reads:

        async def test_a_denied_command_is_not_run() -> None:
            turn = FakeTurn("clean up", answers=[Answer("deny")])
            await Cleaner().handle(turn)
            assert turn.said == [
                Asked(CardKind.EXEC_APPROVAL, "rm -r build", ("once", "deny")),
                Said("Then it stays."),
            ]

    *Errors*: AssertionError where the next answer names an option that the card does not offer.
    """

    def __init__(
        self,
        input: Input | str,
        *,
        answers: Iterable[Answer] = (),
        device_id: str = "phone",
        user: User = User(),  # noqa: B008 - frozen
    ) -> None:
        self.input: Input = TextInput("input-1", input) if isinstance(input, str) else input
        self.device_id = device_id
        self.user = user
        self.said: list[Record] = []
        self._answers = iter(answers)
        self._ids = (f"reply-{n}" for n in count(1))

    @property
    def session(self) -> str:
        return f"mobile:{self.device_id}"

    async def reply(self, text: str) -> str:
        await checkpoint()
        if not text:
            raise TurnError("a reply is not empty")
        said = Said(text, next(self._ids))
        self.said.append(said)
        return said.id

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[FakeStream]:
        yield FakeStream(self.said, next(self._ids))

    async def send_file(self, file: OutgoingFile) -> str:
        await checkpoint()
        if not file.data and not file.url:
            raise TurnError("a file has data or a url")
        if len(file.data) > MAX_MEDIA_BYTES and not file.url:
            raise TurnError(f"a file has at most {MAX_MEDIA_BYTES // MIB} MiB")
        sent = Sent(file, next(self._ids))
        self.said.append(sent)
        return sent.id

    async def ask_approval(
        self,
        command: str,
        description: str = "",
        *,
        options: Sequence[str] = ("once", "session", "always", "deny"),
        ttl: float | None = None,
    ) -> Answer:
        with value_errors_as_turn_errors():
            card = cards.approval("", self.session, command, description, options, inf)
        return await self._answer(card, ttl)

    async def ask_confirmation(
        self,
        text: str,
        *,
        options: Sequence[str] = ("once", "always", "cancel"),
        ttl: float | None = None,
    ) -> Answer:
        with value_errors_as_turn_errors():
            card = cards.confirmation("", self.session, text, options, inf)
        return await self._answer(card, ttl)

    async def ask(
        self, question: str, choices: Sequence[str] = (), *, ttl: float | None = None
    ) -> Answer:
        with value_errors_as_turn_errors():
            card = cards.clarification("", self.session, question, choices, inf)
        return await self._answer(card, ttl)

    async def show_working(self) -> None:
        await checkpoint()
        self.said.append(ShowedWorking())

    async def _answer(self, card: Card, ttl: float | None) -> Answer:
        await checkpoint()
        clarifies = card.kind is CardKind.CLARIFY
        choices = card.choices if clarifies else tuple(option.id for option in card.options)
        text = card.command or card.text
        self.said.append(Asked(card.kind, text, choices, card.description, ttl))
        answer = next(self._answers, None)
        if answer is None or answer.expired:
            return Answer("" if clarifies else card.safe_option, expired=True)
        if not card.offers(answer.option):
            offered = ", ".join(option.id for option in card.options)
            raise AssertionError(f"the card offers {offered}, not {answer.option!r}")
        return answer


@contextmanager
def value_errors_as_turn_errors() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise TurnError(str(error)) from error


class FakeStream:
    """The `ReplyStream` of a `FakeTurn`; its place in `said` is that of its first state."""

    def __init__(self, said: list[Record], id: str) -> None:
        self._said = said
        self._id = id
        self._states: tuple[str, ...] = ()
        self._place = 0

    async def update(self, text: str) -> None:
        await checkpoint()
        if not self._states:
            self._place = len(self._said)
        self._states = (*self._states, text)
        self._said[self._place : self._place + 1] = [Streamed(self._states, self._id)]

    async def append(self, text: str) -> None:
        await self.update("".join(self._states[-1:]) + text)
