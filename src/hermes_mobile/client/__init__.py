"""The Python client of Hermes Mobile, on Trio. `docs/sdk-python.md` is its manual."""

from hermes_mobile.client.ask import Ask
from hermes_mobile.client.client import HermesClient, make_id
from hermes_mobile.client.errors import (
    AccessDeniedError,
    ClientError,
    OfflineError,
    RefusedError,
    ReplacedError,
    TransportError,
)
from hermes_mobile.client.events import ConnectionState, Event, ReceivedFile, StateChanged
from hermes_mobile.client.handlers import Handlers
from hermes_mobile.client.media import MediaSource
from hermes_mobile.client.opening import open_client
from hermes_mobile.client.reply import Reply
from hermes_mobile.protocol.app_codec import Capabilities, Ready
from hermes_mobile.protocol.frames import (
    AudioFormat,
    Avatar,
    AvatarState,
    CardKind,
    Delivered,
    Device,
    Error,
    MediaIn,
    MediaOut,
    Message,
    Option,
    PromptCard,
    PromptDone,
    Typing,
    User,
)
from hermes_mobile.protocol.limits import MEDIA_CHUNK_BYTES, PROTOCOL_VERSION

__all__ = [
    "MEDIA_CHUNK_BYTES",
    "PROTOCOL_VERSION",
    "AccessDeniedError",
    "Ask",
    "AudioFormat",
    "Avatar",
    "AvatarState",
    "Capabilities",
    "CardKind",
    "ClientError",
    "ConnectionState",
    "Delivered",
    "Device",
    "Error",
    "Event",
    "Handlers",
    "HermesClient",
    "MediaIn",
    "MediaOut",
    "MediaSource",
    "Message",
    "OfflineError",
    "Option",
    "PromptCard",
    "PromptDone",
    "Ready",
    "ReceivedFile",
    "RefusedError",
    "ReplacedError",
    "Reply",
    "StateChanged",
    "TransportError",
    "Typing",
    "User",
    "make_id",
    "open_client",
]
