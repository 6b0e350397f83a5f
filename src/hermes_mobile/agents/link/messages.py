"""One frozen class per message of the agent link, in both directions. `codec` checks what comes in.

What each means stands in docs/agent-link.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

from hermes_mobile.agents import DeviceState, Input, Mode, OutgoingFile, User
from hermes_mobile.protocol.frames import CardKind, MediaIn


class Code(StrEnum):
    """Why a request is refused."""

    BAD_MESSAGE = "bad_message"
    TOO_BIG = "too_big"
    REFUSED = "refused"
    TURN_OVER = "turn_over"
    WITHDRAWN = "withdrawn"
    BUSY = "busy"


class Farewell(StrEnum):
    """Why the server ends the link."""

    SHUTDOWN = "shutdown"
    REPLACED = "replaced"
    AUTH_FAILED = "auth_failed"
    BAD_MESSAGE = "bad_message"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


# From the agent


@frozen
class Hello:
    """The first message. `turns` is how many it works on at once."""

    token: str = field(default="", repr=False)
    name: str = ""
    version: str = ""
    takes: frozenset[MediaIn] = frozenset(MediaIn)
    mode: Mode = Mode.SERIAL
    turns: int = 256
    resume: str = ""


@frozen
class End:
    """The agent is done with a turn."""

    turn: str
    failed: bool = False


@frozen
class Place:
    """Where something is said: in a turn, or to a device outside of any. One of the two is empty."""

    turn: str = ""
    device: str = ""


@frozen
class Reply:
    id: str
    place: Place
    text: str = field(repr=False)


@frozen
class StreamState:
    """The whole of a reply so far."""

    id: str
    place: Place
    stream: str
    text: str = field(repr=False)
    final: bool = False


@frozen
class SendFile:
    id: str
    place: Place
    file: OutgoingFile


@frozen
class Working:
    id: str
    place: Place


@frozen
class Ask:
    """A card. `text` is the command, the text or the question; `options` None: all of its kind."""

    id: str
    place: Place
    kind: CardKind
    text: str = field(repr=False)
    description: str = field(default="", repr=False)
    options: tuple[str, ...] | None = None
    choices: tuple[str, ...] = field(default=(), repr=False)
    ttl: float | None = None


@frozen
class Withdraw:
    """The card that the request `ask` opened is of no more use."""

    id: str
    ask: str


@frozen
class Unknown:
    """A message of a type that this version does not know: ignored."""


Spoken: TypeAlias = Reply | StreamState | SendFile | Working
"""What is done as soon as it is said; a card is done when it closes."""
Said: TypeAlias = Spoken | Ask
"""What has a place, and is carried out there, one after the other."""
AgentMessage: TypeAlias = Hello | End | Said | Withdraw | Unknown


# To the agent


@frozen
class Ready:
    link: str
    resumed: bool = False
    turns: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    server: str = ""


@frozen
class TurnBegin:
    turn: str
    device: str
    session: str
    user: User
    input: Input


@frozen
class Cancel:
    turn: str


@frozen
class Done:
    """A request was carried out; `message` is what the app knows it by."""

    id: str
    message: str = ""


@frozen
class Closed:
    """An `Ask` is done: its card closed, with what was chosen or typed."""

    id: str
    option: str
    text: str = field(default="", repr=False)
    expired: bool = False


@frozen
class Refused:
    """A request is not carried out; `id` None: nobody knows which."""

    id: str | None
    code: Code
    message: str


@frozen
class Goodbye:
    code: Farewell
    message: str


ServerMessage: TypeAlias = (
    Ready | TurnBegin | Cancel | Done | Closed | Refused | DeviceState | Goodbye
)
