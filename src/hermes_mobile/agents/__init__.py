"""The port to whatever thinks: what an agent is given, and what it may do.

An agent speaks text, files and questions. It never sees a frame, a socket or a connection: replies to
a device that is away are kept and shown later, and a card's deadline runs whether the person looks or
not. Subclass `Agent`, implement `handle`, and start the server with `--agent package.module:Class`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from attrs import field, frozen
from attrs.validators import instance_of

from hermes_mobile.protocol.frames import AudioFormat, MediaIn, MediaOut, User
from hermes_mobile.protocol.limits import PROMPT_TTL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Self

__all__ = [
    "Agent",
    "AgentNotFoundError",
    "AgentSettings",
    "AgentSettingsError",
    "Answer",
    "Conversation",
    "Conversations",
    "DeviceState",
    "FileInput",
    "Input",
    "Mode",
    "OutgoingFile",
    "ReplyStream",
    "TextInput",
    "Turn",
    "TurnError",
    "User",
    "VoiceInput",
    "load_agent",
]


@frozen
class TextInput:
    """A text, exactly as the person sent it."""

    id: str
    text: str = field(repr=False)


@frozen
class VoiceInput:
    """A voice recording; `transcript` is there when the app recognised the words itself."""

    id: str
    format: AudioFormat
    data: bytes = field(repr=False)
    transcript: str | None = field(default=None, repr=False)
    path: Path | None = field(default=None, repr=False)
    """Where it is kept, as for a file."""


@frozen
class FileInput:
    """A whole file. `filename` has no directory part and may be empty; `mime` never is."""

    id: str
    kind: MediaIn
    mime: str
    data: bytes = field(repr=False)
    filename: str = field(default="", repr=False)
    caption: str = field(default="", repr=False)
    path: Path | None = field(default=None, repr=False)
    """Where it is kept for a while; None where the operator has no files kept."""


Input: TypeAlias = TextInput | VoiceInput | FileInput


@frozen
class OutgoingFile:
    """A file for the app: `data` up to 8 MiB, or a `url` that the app fetches itself.

    An empty `mime` is guessed from `filename`. *Errors*: TypeError for values of other types.
    """

    kind: MediaOut = field(validator=instance_of(MediaOut))
    data: bytes = field(default=b"", repr=False, validator=instance_of(bytes))
    filename: str = field(default="", repr=False, validator=instance_of(str))
    mime: str = field(default="", validator=instance_of(str))
    caption: str = field(default="", repr=False, validator=instance_of(str))
    url: str = field(default="", repr=False, validator=instance_of(str))
    reply_to: str = field(default="", validator=instance_of(str))


@frozen
class Answer:
    """How a card ended.

    `option` is what counts: the option that was applied, and on expiry the safe one (`deny`,
    `cancel`, or `""` for a clarification). `text` is a clarification's answer in words: what was
    typed, or the label of the choice.
    """

    option: str
    text: str = field(default="", repr=False)
    expired: bool = False


class TurnError(Exception):
    """The agent asked for what cannot be: an empty reply, a file beyond 8 MiB, no such option."""


class AgentNotFoundError(Exception):
    """`--agent` names nothing that can be loaded; the message says why in one line."""


class AgentSettingsError(Exception):
    """A setting keeps the agent from working; the message names it, in one line."""


@frozen(kw_only=True)
class AgentSettings:
    """What the operator decided for the agent, whichever it is; each reads what concerns it."""

    command: tuple[str, ...] = ()
    """The program of an agent that is one, with its arguments: `MOBILE_AGENT_COMMAND`."""
    directory: Path = Path()
    """Where such a program works: `MOBILE_AGENT_DIR`."""
    state_dir: Path | None = None
    """Where to keep what outlives a restart: `MOBILE_STATE_DIR`."""
    prompt_ttl: float = PROMPT_TTL
    """The life of a card, in seconds: `MOBILE_PROMPT_TTL`."""
    wait: float = 60.0
    """Seconds that messages wait for an agent that is away: `MOBILE_AGENT_WAIT`."""
    environ: Mapping[str, str] = field(factory=dict, repr=False)
    """The server's environment, its secrets among it."""


class ReplyStream(Protocol):
    """A reply that grows while the person watches."""

    async def update(self, text: str) -> None:
        """Show `text`, the whole reply so far. Under backpressure only the newest state is sent."""

    async def append(self, text: str) -> None:
        """Show what was there, and `text` behind it."""


class Conversation(Protocol):
    """What may be said to one device, whether it is connected or not."""

    @property
    def device_id(self) -> str: ...

    @property
    def session(self) -> str:
        """`mobile:<device id>`."""

    @property
    def user(self) -> User:
        """The person, as the app introduced them."""

    async def reply(self, text: str) -> str:
        """Say `text`, cut into pieces as the protocol wants. Waits while the link is slow.

        Returns the message's id.
        *Errors*: TurnError on an empty text, or one beyond what may be kept for a device.
        """

    def stream(self) -> AbstractAsyncContextManager[ReplyStream]:
        """Open a reply that grows; leaving the context, on any path, shows its last state as final."""

    async def send_file(self, file: OutgoingFile) -> str:
        """Send a file and return its id.

        *Errors*: TurnError beyond 8 MiB, or with neither data nor url.
        """

    async def ask_approval(
        self,
        command: str,
        description: str = "",
        *,
        options: Sequence[str] = ("once", "session", "always", "deny"),
        ttl: float | None = None,
    ) -> Answer:
        """Ask whether `command` may be executed. `ttl`: its lifetime in seconds, else the setting's."""

    async def ask_confirmation(
        self,
        text: str,
        *,
        options: Sequence[str] = ("once", "always", "cancel"),
        ttl: float | None = None,
    ) -> Answer:
        """Ask whether to go on."""

    async def ask(
        self, question: str, choices: Sequence[str] = (), *, ttl: float | None = None
    ) -> Answer:
        """Ask for one of `choices`, or for words of the person's own."""


class Turn(Conversation, Protocol):
    """One message of a person, being worked on."""

    @property
    def input(self) -> Input: ...

    async def show_working(self) -> None:
        """Show again that work goes on: after a silence the app may have stopped believing it."""


@frozen
class DeviceState:
    """Whether a device is connected, and how it and its person introduced themselves."""

    device_id: str
    connected: bool
    name: str = ""
    platform: str = ""
    user: User = field(factory=User)


class Conversations(Protocol):
    """How an agent reaches a device outside a turn."""

    @property
    def connected_devices(self) -> Sequence[DeviceState]:
        """Those that are connected now."""

    def conversation(self, device_id: str) -> Conversation:
        """The conversation with a device, known or not yet: what is said to it is kept (D32)."""


class Mode(Enum):
    """How an agent takes messages of one session."""

    SERIAL = auto()
    """One turn at a time; what comes meanwhile waits in the session's queue."""
    CONCURRENT = auto()
    """Each message is handed over at once."""


class Agent(ABC):
    """Whatever thinks. One instance serves all devices."""

    mode: Mode = Mode.SERIAL
    takes: frozenset[MediaIn] = frozenset(MediaIn)
    """The kinds it can work with; another kind is refused with `unsupported_frame` (D18)."""

    @classmethod
    def from_settings(cls, settings: AgentSettings) -> Self:  # noqa: ARG003 - for who has some
        """Make the one instance; by default, without arguments.

        *Errors*: AgentSettingsError, for what the operator has to set otherwise.
        """
        return cls()

    @property
    def ready(self) -> bool:
        """Whether it can work now; `/readyz` tells it, and messages are taken either way."""
        return True

    @abstractmethod
    async def handle(self, turn: Turn) -> None:
        """Work on `turn.input` until done.

        *Cancellation*: `/stop` and the server's shutdown cancel it at its next checkpoint.
        *Errors*: any exception ends this turn only; the app gets `internal_error` and may resend.
        """

    def device_changed(self, device: DeviceState) -> None:  # noqa: B027 - optional
        """Take note that a device connected, or left; by default nothing depends on it."""

    async def run(self, conversations: Conversations) -> None:  # noqa: B027 - optional
        """Run beside all turns, for as long as the server does; by default there is nothing to do.

        Returning is fine. An exception is logged and ends the background work, not the server.
        """


BUILT_IN = {
    "demo": "hermes_mobile.agents.demo:DemoAgent",
    "acp": "hermes_mobile.agents.acp:AcpAgent",
    "link": "hermes_mobile.agents.link:LinkAgent",
}


def load_agent(name: str, settings: AgentSettings = AgentSettings()) -> Agent:
    """Make the agent called `name`: a built-in one, or `package.module:Class`.

    Instead of a class, `package.module:function` may make it, without arguments.

    *Errors*: AgentNotFoundError, AgentSettingsError, with a line that says what is wrong.
    """
    module_name, _, attribute = BUILT_IN.get(name, name).partition(":")
    if not attribute:
        known = ", ".join(BUILT_IN)
        raise AgentNotFoundError(
            f"agent {name!r} is neither one of {known} nor package.module:Class"
        )
    try:
        maker = getattr(import_module(module_name), attribute)
        if isinstance(maker, type) and issubclass(maker, Agent):
            made: object = maker.from_settings(settings)
        else:
            made = maker()
    except AgentSettingsError:
        raise
    except Exception as error:
        raise AgentNotFoundError(
            f"agent {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Agent):
        raise AgentNotFoundError(f"agent {name!r} is not a hermes_mobile.agents.Agent")
    return made
