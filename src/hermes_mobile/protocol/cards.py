"""Cards: the questions an agent asks, and what an answer to one means (D21, D22, D23, D34)."""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import field, frozen

from hermes_mobile.protocol.frames import CardKind, Option, PromptAnswer, PromptCard, PromptDone
from hermes_mobile.protocol.limits import CLOSED_CARDS_REMEMBERED
from hermes_mobile.protocol.slicing import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

APPROVAL_OPTIONS: Final = (
    Option("once", "Allow once", "primary"),
    Option("session", "Allow for this session"),
    Option("always", "Always allow"),
    Option("deny", "Deny", "danger"),
)
CONFIRMATION_OPTIONS: Final = (
    Option("once", "Go on", "primary"),
    Option("always", "Always go on"),
    Option("cancel", "Cancel", "danger"),
)
OTHER: Final = Option("other", "Other answer")
"""The last option of every clarification: words of the person's own."""

SAFE_OPTION: Final = {
    CardKind.EXEC_APPROVAL: "deny",
    CardKind.SLASH_CONFIRM: "cancel",
    CardKind.CLARIFY: OTHER.id,
}
"""What any answer counts as that is not an option of its card, and what is always offered."""

SHOWN_COMMAND_CHARS: Final = 2_000
"""How much of a command, in code points, the text of its card holds."""


@frozen(eq=False)
class Card:
    """One question. It lives until `deadline`, in monotonic seconds, whoever sees it (D34)."""

    id: str
    kind: CardKind
    text: str = field(repr=False)
    options: tuple[Option, ...]
    session: str
    deadline: float
    command: str = field(default="", repr=False)
    description: str = field(default="", repr=False)
    choices: tuple[str, ...] = field(default=(), repr=False)

    @property
    def safe_option(self) -> str:
        """`deny`, `cancel` or `other`."""
        return SAFE_OPTION[self.kind]

    def offers(self, option_id: str) -> bool:
        return any(option.id == option_id for option in self.options)

    def frame(self, now: float) -> PromptCard:
        """The card as it is shown at `now`, with the seconds that remain, rounded up (D13)."""
        # A clock's fractions added and taken away again must not turn 300 s into 301.
        remaining = round(self.deadline - now, 6)
        return PromptCard(
            id=self.id,
            kind=self.kind,
            text=self.text,
            options=self.options,
            session=self.session,
            timeout_seconds=max(1, ceil(remaining)),
            command=self.command,
            description=self.description,
        )


def approval(
    id: str,
    session: str,
    command: str,
    description: str,
    options: Sequence[str],
    deadline: float,
) -> Card:
    """A card that asks whether `command` may be executed.

    Its text shows the command too, to clients that know only text and options (D23).

    *Errors*: ValueError without a command, or with an option that approvals do not have.
    """
    _require("command", command)
    shown = command[: cut(command, SHOWN_COMMAND_CHARS)]
    mark = "" if shown == command else "…"
    return Card(
        id,
        CardKind.EXEC_APPROVAL,
        f"Allow this command?\n\n{shown}{mark}",
        _offered(CardKind.EXEC_APPROVAL, APPROVAL_OPTIONS, options),
        session,
        deadline,
        command=command,
        description=description,
    )


def confirmation(id: str, session: str, text: str, options: Sequence[str], deadline: float) -> Card:
    """A card that asks whether to go on.

    *Errors*: ValueError without a text, or with an option that confirmations do not have.
    """
    _require("text", text)
    offered = _offered(CardKind.SLASH_CONFIRM, CONFIRMATION_OPTIONS, options)
    return Card(id, CardKind.SLASH_CONFIRM, text, offered, session, deadline)


def clarification(
    id: str, session: str, question: str, choices: Sequence[str], deadline: float
) -> Card:
    """A card that asks for one of `choices`, or for words of the person's own.

    *Errors*: ValueError without a question, or with an empty choice.
    """
    _require("question", question)
    for choice in choices:
        _require("choice", choice)
    numbered = (Option(f"c{number}", choice) for number, choice in enumerate(choices))
    return Card(
        id,
        CardKind.CLARIFY,
        question,
        (*numbered, OTHER),
        session,
        deadline,
        choices=tuple(choices),
    )


def _require(name: str, text: str) -> None:
    if not text.strip():
        raise ValueError(f"{name} must not be empty")


def _offered(
    kind: CardKind, table: tuple[Option, ...], wanted: Sequence[str]
) -> tuple[Option, ...]:
    """The wanted options, in the wanted order, each once; the safe one last if it has no place."""
    known = {option.id: option for option in table}
    for option_id in wanted:
        if option_id not in known:
            raise ValueError(f"{kind} has no option {option_id!r}; it has {', '.join(known)}")
    return tuple(known[option_id] for option_id in dict.fromkeys((*wanted, SAFE_OPTION[kind])))


@frozen
class Applied:
    """The card closes with `option`; `text` is the clarification in words, else empty."""

    card: Card
    option: str
    text: str = field(default="", repr=False)


@frozen
class AwaitingText:
    """`other` it is: the app is told so now, and the next text is the answer (D22)."""

    card: Card


@frozen
class Repeated:
    """Nothing changes: the card has an answer, or has expired, or was never there (D21)."""

    done: PromptDone


Outcome: TypeAlias = Applied | AwaitingText | Repeated


class Cards:
    """The cards of one session.

    A card that has reached its deadline takes no answer any more, but stays until `close_expired`,
    which is where its asker learns of it. *Limits*: the answers of the last 256 closed cards are
    remembered; how many may be open is the asker's to bound.
    """

    def __init__(self) -> None:
        self._open: dict[str, Card] = {}
        self._captures: dict[str, bool] = {}
        """Cards that the next text answers, oldest first; whether the app was told `other`."""
        self._answers: dict[str, str] = {}
        """The options that closed cards were answered with."""

    def __contains__(self, card_id: object) -> bool:
        return card_id in self._open

    @property
    def remembered(self) -> int:
        """How many closed cards a late answer would still be told about."""
        return len(self._answers)

    @property
    def open_cards(self) -> list[Card]:
        """In the order they were opened, expired ones included."""
        return list(self._open.values())

    @property
    def next_deadline(self) -> float:
        """When the next card expires, infinite when none is open."""
        return min((card.deadline for card in self._open.values()), default=inf)

    def awaiting_text(self, card_id: str) -> bool:
        """Whether the app was told `other` and owes the words: for the app this card is done."""
        return self._captures.get(card_id, False)

    def open(self, card: Card) -> None:
        self._open[card.id] = card
        if card.kind is CardKind.CLARIFY and not card.choices:
            self._captures[card.id] = False

    def answer(self, answer: PromptAnswer, now: float) -> Outcome:
        """Apply an answer: the first one wins, if it comes before the deadline."""
        card = self._open.get(answer.prompt_id)
        if card is None:
            option = self._answers.get(answer.prompt_id, "")
            return Repeated(PromptDone(answer.prompt_id, option, expired=not option))
        if now >= card.deadline:
            return Repeated(PromptDone(card.id, expired=True))
        if card.kind is CardKind.CLARIFY:
            return self._clarify(card, answer)
        option = answer.option_id or answer.text.strip().lower()
        return self._apply(card, option if card.offers(option) else card.safe_option)

    def capture(self, text: str, now: float) -> Applied | None:
        """Take a text as the answer that the oldest capturing card waits for, if there is one."""
        for card_id in self._captures:
            card = self._open[card_id]
            if now < card.deadline:
                return self._apply(card, OTHER.id, text)
        return None

    def close_expired(self, now: float) -> list[Card]:
        """Remove the cards that have reached their deadline, and return them; each once."""
        expired = [card for card in self._open.values() if now >= card.deadline]
        for card in expired:
            self.withdraw(card.id)
        return expired

    def withdraw(self, card_id: str) -> Card | None:
        """Remove a card that nobody waits for any more; None when it is not open."""
        self._captures.pop(card_id, None)
        return self._open.pop(card_id, None)

    def _clarify(self, card: Card, answer: PromptAnswer) -> Outcome:
        choice = next((one for one in card.options[:-1] if one.id == answer.option_id), None)
        if choice is None and answer.text.strip():
            return self._apply(card, OTHER.id, answer.text)
        if self.awaiting_text(card.id):
            return Repeated(PromptDone(card.id, OTHER.id))
        if choice is not None:
            return self._apply(card, choice.id, choice.label)
        self._captures[card.id] = True
        return AwaitingText(card)

    def _apply(self, card: Card, option: str, text: str = "") -> Applied:
        self.withdraw(card.id)
        if len(self._answers) >= CLOSED_CARDS_REMEMBERED:
            del self._answers[next(iter(self._answers))]
        self._answers[card.id] = option
        return Applied(card, option, text)
