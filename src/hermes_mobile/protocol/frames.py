"""One frozen class per frame, in both directions. Values here are already valid: `codec` checks."""

from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen


class MediaIn(StrEnum):
    """The kinds of file an app may send."""

    IMAGE = "image"
    VIDEO = "video"
    DOCUMENT = "document"
    AUDIO = "audio"


class MediaOut(StrEnum):
    """The kinds of file an agent, or a delivery, may send."""

    IMAGE = "image"
    VOICE = "voice"
    VIDEO = "video"
    DOCUMENT = "document"
    ANIMATION = "animation"


class AudioFormat(StrEnum):
    WAV = "wav"
    OGG = "ogg"


class CardKind(StrEnum):
    EXEC_APPROVAL = "exec_approval"
    SLASH_CONFIRM = "slash_confirm"
    CLARIFY = "clarify"


class AvatarState(StrEnum):
    IDLE = "idle"
    THINKING = "thinking"
    SPEAKING = "speaking"


@frozen
class Device:
    """A device as it introduces itself; an empty `id` means that the server makes one up."""

    id: str = ""
    name: str = ""
    platform: str = ""
    app_version: str = ""


@frozen
class User:
    id: str = ""
    name: str = ""


# From the app


@frozen
class Hello:
    """The first frame. A missing token is the empty one, which nothing matches (D7)."""

    token: str = field(repr=False)
    device: Device = Device()
    user: User = User()
    receipts: bool = False


@frozen
class Text:
    id: str
    text: str = field(repr=False)


@frozen
class Audio:
    """A voice recording, decoded; `text` is what the app's own recognition heard."""

    id: str
    format: AudioFormat
    data: bytes = field(repr=False)
    text: str | None = field(default=None, repr=False)


@frozen
class MediaChunk:
    """One decoded part of a file. `kind` is raw: `uploads` judges it, on the first part (D17)."""

    id: str
    kind: str
    data: bytes = field(repr=False)
    part: int = 0
    parts: int = 1
    mime: str = ""
    filename: str = field(default="", repr=False)
    caption: str = field(default="", repr=False)


@frozen
class PromptAnswer:
    """An answer to a card; one of the two is not empty, `option_id` is in lower case (D21)."""

    prompt_id: str
    option_id: str = ""
    text: str = field(default="", repr=False)


@frozen
class UserTyping:
    pass


@frozen
class Ping:
    """`ts` is the encoded JSON value to echo, None when the field is absent (D24)."""

    ts: bytes | None = None


@frozen
class Ack:
    id: str


@frozen
class DeliverMedia:
    kind: MediaOut
    data: bytes = field(repr=False)
    mime: str = ""
    filename: str = field(default="", repr=False)


@frozen
class Deliver:
    """A service delivery. `target` is a bare device id, empty for the home device (D25)."""

    id: str
    target: str = ""
    text: str = field(default="", repr=False)
    media: DeliverMedia | None = None
    keep: bool = False


@frozen
class Unknown:
    """A frame of a type this version does not know: ignored, for what comes later (D14)."""

    t: str


ClientFrame: TypeAlias = (
    Hello | Text | Audio | MediaChunk | PromptAnswer | UserTyping | Ping | Ack | Deliver | Unknown
)


# To the app


@frozen
class Ready:
    """The answer to hello. A connection that may only deliver has no session: `""` (D26)."""

    session: str
    device: Device
    avatar_url: str = ""
    media_in: tuple[MediaIn, ...] = tuple(MediaIn)
    receipts: bool = False


@frozen
class Message:
    """One piece of a reply, or one state of a streamed one."""

    id: str
    text: str = field(repr=False)
    index: int = 0
    total: int = 1
    final: bool = True
    edit: bool = False


@frozen
class MediaPart:
    """One part of a file; `size` is the whole file's. With a `url`, `data` may be absent (D31)."""

    id: str
    kind: MediaOut
    mime: str
    filename: str = field(repr=False)
    size: int
    part: int = 0
    parts: int = 1
    final: bool = True
    caption: str = field(default="", repr=False)
    data: bytes | memoryview | None = field(default=None, repr=False)
    url: str = field(default="", repr=False)
    reply_to: str = ""


@frozen
class Option:
    """One button: `style` is `primary`, `danger` or empty."""

    id: str
    label: str
    style: str = ""


@frozen
class PromptCard:
    id: str
    kind: CardKind
    text: str = field(repr=False)
    options: tuple[Option, ...]
    session: str
    timeout_seconds: int
    command: str = field(default="", repr=False)
    description: str = field(default="", repr=False)


@frozen
class PromptDone:
    """A card's end: the option that was applied, or `expired`."""

    id: str
    option_id: str = ""
    expired: bool = False


@frozen(cache_hash=True)
class Avatar:
    state: AvatarState


@frozen(cache_hash=True)
class Typing:
    stop: bool = False


@frozen
class Pong:
    """`ts` is the echoed JSON value, still encoded."""

    ts: bytes | None = None


@frozen
class Error:
    code: str
    message: str
    fatal: bool = False
    id: str | None = None


@frozen
class Accepted:
    """Receipt: the frame with this id was taken (D38)."""

    id: str


@frozen
class Delivered:
    """Receipt: the delivery with this id was confirmed by the device (D38)."""

    id: str
    device: str


ServerFrame: TypeAlias = (
    Ready
    | Message
    | MediaPart
    | PromptCard
    | PromptDone
    | Avatar
    | Typing
    | Pong
    | Error
    | Accepted
    | Delivered
)
