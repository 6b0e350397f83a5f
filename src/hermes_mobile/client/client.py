"""The client that an app holds: what it may do, and what it is told."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import trio

from hermes_mobile.client.ask import Ask
from hermes_mobile.client.errors import ClientError, RefusedError
from hermes_mobile.client.events import ConnectionState
from hermes_mobile.client.handlers import Handlers
from hermes_mobile.client.media import MediaFrames, kind_in, kind_out, name_of, read_source
from hermes_mobile.client.outbox import Outgoing
from hermes_mobile.protocol import fields
from hermes_mobile.protocol.errors import ProtocolError
from hermes_mobile.protocol.frames import (
    Accepted,
    Ack,
    Audio,
    AudioFormat,
    Deliver,
    DeliverMedia,
    MediaIn,
    MediaOut,
    Ping,
    Pong,
    PromptAnswer,
    Text,
    UserTyping,
)
from hermes_mobile.protocol.limits import MAX_AUDIO_BYTES, MAX_MEDIA_BYTES, MEDIA_CHUNK_BYTES
from hermes_mobile.protocol.uploads import guess_mime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hermes_mobile.client.engine import Engine
    from hermes_mobile.client.events import Event
    from hermes_mobile.client.media import MediaSource
    from hermes_mobile.protocol.app_codec import Ready
    from hermes_mobile.protocol.frames import ClientFrame

Progress: TypeAlias = "Callable[[int, int], object]"
"""Told the bytes of a file that are written, and all of them."""

Valid = TypeVar("Valid")


class MediaOptions(TypedDict, total=False):
    """What `send_media` takes besides the kind and the source."""

    filename: str | None
    mime: str
    caption: str
    id: str | None
    chunk_bytes: int
    progress: Progress | None


def make_id() -> str:
    """A new id for a message or a device."""
    return secrets.token_hex(10)


class HermesClient:
    """An app's end of the conversation; made by `open_client`, and of use inside its block.

    Iterating over it gives the events. The sending methods return when the server has accepted what
    they sent; without receipts (D38), when it is written. They may be called from several tasks.

    *Errors* of every sending method: RefusedError for what the server refuses, or certainly would;
    OfflineError while reconnecting; AccessDeniedError, ReplacedError or TransportError once the
    client has failed. What was sent before the connection broke is no error: it goes out again (T9).

    *Cancellation*: a message that was not begun is withdrawn, another one goes on to its end. The
    connection stays usable.
    """

    def __init__(self, engine: Engine, callbacks: trio.Nursery) -> None:
        self._engine = engine
        self._callbacks = callbacks
        self._handlers: Handlers | None = None
        self._iterated = False

    @property
    def state(self) -> ConnectionState:
        return self._engine.state

    @property
    def ready(self) -> bool:
        """Whether the state is `connected`."""
        return self.state is ConnectionState.CONNECTED

    @property
    def session(self) -> Ready | None:
        """What the newest `ready` said; None before the first one."""
        return self._engine.session

    async def wait_ready(self) -> Ready:
        """Wait until the client is connected.

        *Errors*: AccessDeniedError, ReplacedError, TransportError, when it never will be.
        """
        await trio.lowlevel.checkpoint()
        while not self.ready or self.session is None:
            self._engine.raise_failure()
            await self._engine.changed.park()
        return self.session

    # Events

    def __aiter__(self) -> HermesClient:
        return self

    async def __anext__(self) -> Event:
        """The next event. From the first call on, the client reads no more than is taken from it.

        *Errors*: AccessDeniedError, ReplacedError, TransportError, after the last event of a client
        that has failed. trio.BusyResourceError while another task, or a callback, gets the events.
        """
        if self._iterated or self._handlers is not None:
            raise trio.BusyResourceError("the events go to another task already")
        return await self._next_event()

    async def _next_event(self) -> Event:
        engine = self._engine
        self._iterated = True
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            while (event := engine.inbox.take()) is None:
                engine.raise_failure()
                await engine.changed.park()
            await trio.lowlevel.cancel_shielded_checkpoint()
        finally:
            self._iterated = False
        engine.notify()  # there is room
        return event

    def set_handlers(self, handlers: Handlers) -> None:
        """Set callbacks in addition to, or in place of, those already set."""
        if self._handlers is None:
            self._callbacks.start_soon(self._run_handlers)
        self._handlers = (self._handlers or Handlers()).merged(handlers)

    async def _run_handlers(self) -> None:
        while True:
            try:
                event = await self._next_event()
            except ClientError:
                return  # `on_error` was told
            if self._handlers is not None:
                await self._handlers.handle(event)

    # Sending

    async def send_text(self, text: str, *, id: str | None = None) -> str:
        """Send a text as it stands; returns its id. A repeat with the same id is taken once (D19).

        Refused without being sent: a blank text (`bad_frame`), one above 12,000 code points
        (`too_big`).
        """
        message_id = _valid_id(id)
        _valid(fields.required_prose, text, "text")
        await self._send(_message([Text(message_id, text)], len(text), message_id))
        return message_id

    async def send_audio(
        self,
        data: bytes,
        format: AudioFormat | Literal["wav", "ogg"],
        transcript: str = "",
        *,
        id: str | None = None,
    ) -> str:
        """Send a voice recording, with its words where the app knows them; returns its id.

        Refused without being sent: one that is empty, or above 8 MiB. ValueError for another format.
        """
        message_id = _valid_id(id)
        _valid(fields.prose, transcript, "text")
        data = await read_source(data, MAX_AUDIO_BYTES, "audio.data")
        frame = Audio(message_id, AudioFormat(format), data, transcript or None)
        await self._send(_message([frame], len(data), message_id))
        return message_id

    async def send_media(
        self,
        kind: MediaIn | str,
        source: MediaSource,
        *,
        filename: str | None = None,
        mime: str = "",
        caption: str = "",
        id: str | None = None,
        chunk_bytes: int = MEDIA_CHUNK_BYTES,
        progress: Progress | None = None,
    ) -> str:
        """Send a file: bytes, a path, or an open asynchronous file; returns its id.

        `filename` is the path's last component by default, `mime` what that suggests. `chunk_bytes`:
        how much of the file goes into one frame. `progress` is called in this task with the bytes
        that are written so far, and all; after a lost connection it begins anew.

        Refused without being sent: an empty file (`bad_frame`), one above the server's limit, which is
        8 MiB (`too_big`). ValueError for an unknown kind; OSError for a path that cannot be read.
        """
        known, message_id = MediaIn(kind.lower()), _valid_id(id)
        _valid(fields.prose, caption, "caption")
        filename = name_of(source) if filename is None else filename
        limit = self.session.capabilities.max_media_bytes if self.session else MAX_MEDIA_BYTES
        data = await read_source(source, limit, "media")
        frames = MediaFrames(
            message_id, known, data, mime or guess_mime(filename), filename, caption, chunk_bytes
        )
        written = partial(_tell, progress, chunk_bytes, len(data))
        await self._send(_message(frames, len(data), message_id), written)
        return message_id

    async def send_file(self, source: MediaSource, **options: Unpack[MediaOptions]) -> str:
        """`send_media` of the kind that the type suggests: `document` where it suggests none."""
        mime = options.get("mime") or guess_mime(options.get("filename") or name_of(source))
        return await self.send_media(kind_in(mime), source, **options)

    async def send_image(self, source: MediaSource, **options: Unpack[MediaOptions]) -> str:
        """`send_media` of the kind `image`."""
        return await self.send_media(MediaIn.IMAGE, source, **options)

    async def send_document(self, source: MediaSource, **options: Unpack[MediaOptions]) -> str:
        """`send_media` of the kind `document`."""
        return await self.send_media(MediaIn.DOCUMENT, source, **options)

    async def send_voice(self, source: MediaSource, **options: Unpack[MediaOptions]) -> str:
        """`send_media` of the kind `audio`; the `caption` is its words."""
        return await self.send_media(MediaIn.AUDIO, source, **options)

    async def answer_prompt(self, prompt_id: str, option_id: str = "", text: str = "") -> None:
        """Answer a card with one of its options, in words, or both (`other` of a `clarify`).

        Which option counts is in the event PromptDone. ValueError without an answer, or an id.
        """
        if not prompt_id or not (option_id or text):
            raise ValueError("prompt_id, and one of option_id and text, must not be empty")
        prompt_id = _valid_id(prompt_id)
        _valid(fields.prose, text, "text")
        frame = PromptAnswer(prompt_id, option_id.lower(), text)
        await self._send(Outgoing((frame,), len(text), Accepted(prompt_id)))

    async def deliver(
        self,
        target: str = "",
        text: str = "",
        *,
        file: MediaSource | None = None,
        kind: MediaOut | str = "",
        filename: str | None = None,
        mime: str = "",
        keep: bool = False,
        id: str | None = None,
    ) -> str:
        """Deliver a text, a file, or both to a device, as a service; returns the id (D25).

        `target`: `mobile:<id>` or the bare id, the server's home device by default. It returns when
        the delivery has its outcome: written to the device, or kept for it. `keep`: a device that is
        away is no failure. `kind` is guessed from `mime`, and that from the name.

        *Errors*: besides those of every sending method RefusedError `device_offline`, and `forbidden`
        for an app that may not deliver (D26); ValueError with neither text nor file.
        """
        if not text and file is None:
            raise ValueError("text, file: one of them is needed")
        message_id = _valid_id(id)
        _valid(fields.prose, text, "text")
        target = _valid(fields.device_address, target, "target")
        media = None
        if file is not None:
            filename = name_of(file) if filename is None else filename
            mime = mime or guess_mime(filename)
            data = await read_source(file, MAX_MEDIA_BYTES, "media")
            media = DeliverMedia(MediaOut(kind or kind_out(mime)), data, mime, filename)
        ping, pong = _ping()
        frames = (Deliver(message_id, target, text, media, keep), ping)
        size = len(text) + (len(media.data) if media else 0)
        await self._send(Outgoing(frames, size, pong, message_id))
        return message_id

    async def send_typing(self) -> None:
        """Say that the person is typing. It is done once it is written."""
        await self._send(Outgoing((UserTyping(),), 0, lasting=False))

    async def acknowledge(self, message_id: str) -> None:
        """Say that the app has shown or played a message. It is done once it is written."""
        await self._send(Outgoing((Ack(_valid_id(message_id)),), 0, lasting=False))

    async def ping(self) -> float:
        """Ask for a sign of life; returns the seconds until it came.

        OfflineError when the connection ends before it.
        """
        ping, pong = _ping()
        asked = trio.current_time()
        await self._send(Outgoing((ping,), 0, pong, lasting=False))
        return trio.current_time() - asked

    def ask(self, text: str, *, id: str | None = None) -> Ask:
        """Send a text; `await` it for the whole reply, or iterate over the states that it grows in.

        See Ask. The events of the reply come to the app as well.
        """
        return Ask(self, self._engine, text, _valid_id(id))

    async def _send(
        self, message: Outgoing, on_written: Callable[[int], object] | None = None
    ) -> None:
        """Send, and wait until that has come to its end."""
        engine, written = self._engine, 0
        await engine.wait_room(message)
        engine.send(message)
        try:
            while not message.done:
                await engine.changed.park()
                if on_written is not None and message.written != written:
                    written = message.written
                    on_written(written)
        finally:
            engine.outbox.withdraw(message)
        if message.error is not None:
            raise message.error


def _message(frames: Sequence[ClientFrame], size: int, id: str) -> Outgoing:
    """A message that is done once it is accepted."""
    return Outgoing(frames, size, Accepted(id), id)


def _tell(progress: Progress | None, chunk_bytes: int, size: int, written: int) -> None:
    if progress is not None:
        progress(min(written * chunk_bytes, size), size)


def _ping() -> tuple[Ping, Pong]:
    """A ping unlike any other, and its answer."""
    ts = f'"{make_id()}"'.encode()
    return Ping(ts), Pong(ts)


def _valid_id(id: str | None) -> str:
    return make_id() if id is None else _valid(fields.required_identifier, id, "id")


def _valid(judge: Callable[[Any, str], Valid], value: Any, name: str) -> Valid:
    """What the server would make of a field. *Errors*: RefusedError, as its own would be."""
    try:
        return judge(value, name)
    except ProtocolError as refusal:
        raise RefusedError(refusal.code, refusal.message) from None
