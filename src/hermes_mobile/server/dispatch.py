"""What each frame of an app does: one short function per frame (D14 to D27)."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import structlog
import trio

from hermes_mobile.agents import FileInput, TextInput, VoiceInput
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError, bad_frame
from hermes_mobile.protocol.frames import (
    Accepted,
    Ack,
    Audio,
    Deliver,
    Hello,
    MediaChunk,
    MediaIn,
    Ping,
    Pong,
    PromptAnswer,
    Text,
    Unknown,
    UserTyping,
)
from hermes_mobile.server.units import text_size

if TYPE_CHECKING:
    from hermes_mobile.protocol.frames import ClientFrame
    from hermes_mobile.server.connection import Connection
    from hermes_mobile.server.session import Session

log = structlog.get_logger()


async def dispatch(connection: Connection, frame: ClientFrame) -> None:  # noqa: C901 - one case per frame
    """Act on one frame after hello.

    It waits only for the connection's own sake: for room among its deliveries, for its files.

    *Errors*: ProtocolError, for the connection to answer.
    """
    match frame:
        case Text():
            take_text(connection, _session(connection, frame), frame)
        case PromptAnswer():
            take_answer(connection, _session(connection, frame), frame)
        case MediaChunk():
            await take_media(connection, _session(connection, frame), frame)
        case Audio():
            await take_audio(connection, _session(connection, frame), frame)
        case UserTyping():
            session = _session(connection, frame)
            session.show(session.presence.user_typed(trio.current_time()))
        case Ping():
            await take_ping(connection, frame)
        case Deliver():
            await take_delivery(connection, frame)
        case Ack():
            pass
        case Unknown():
            log.debug("unknown frame ignored", device=connection.record.device)
        case Hello():
            raise bad_frame("hello: said already on this connection")
        case _:
            assert_never(frame)


def _session(connection: Connection, frame: ClientFrame) -> Session:
    """*Errors*: ProtocolError `forbidden` on a connection that may only deliver (D26)."""
    if connection.session is None:
        frame_id: str | None = getattr(frame, "id", None)
        raise ProtocolError(ErrorCode.FORBIDDEN, "token: it may only deliver", id=frame_id)
    return connection.session


def take_text(connection: Connection, session: Session, frame: Text) -> None:
    """A text: `/stop`, the answer that a card waits for, or a message for the agent."""
    now = trio.current_time()
    if _is_repeat(connection, session, frame.id, now):
        return
    if frame.text.strip().lower() == "/stop":
        session.record(frame.id, now)
        _accepted(connection, frame.id)
        session.inbox.stop()
    elif (applied := session.questions.capture(frame.text)) is not None:
        session.record(frame.id, now)
        _accepted(connection, frame.id)
        session.questions.apply(applied)
    else:
        session.inbox.accept(TextInput(frame.id, frame.text), text_size(frame.text), now)
        _accepted(connection, frame.id)


async def take_audio(connection: Connection, session: Session, frame: Audio) -> None:
    now = trio.current_time()
    if _is_repeat(connection, session, frame.id, now):
        return
    if MediaIn.AUDIO not in session.hub.agent.takes:
        raise ProtocolError(ErrorCode.UNSUPPORTED_FRAME, "audio: the agent takes none", id=frame.id)
    size = len(frame.data) + text_size(frame.text or "")
    voice = VoiceInput(frame.id, frame.format, frame.data, frame.text)
    await _accept_file(connection, session, voice, size)


async def take_media(connection: Connection, session: Session, frame: MediaChunk) -> None:
    """A chunk; the file is a message once all of it is here (D17)."""
    now = trio.current_time()
    if session.hub.dedup.seen(session.device_id, frame.id, now):
        if frame.part == frame.parts - 1:
            _accepted(connection, frame.id)
        return
    metrics = session.hub.metrics
    try:
        file = connection.uploads.add(frame)
    except ProtocolError:
        metrics.uploads_refused += 1
        raise
    if file is not None:
        metrics.upload_completed(len(file.data))
        await _accept_file(
            connection,
            session,
            FileInput(file.id, file.kind, file.mime, file.data, file.filename, file.caption),
            len(file.data) + text_size(file.caption),
        )


async def _accept_file(
    connection: Connection, session: Session, message: FileInput | VoiceInput, size: int
) -> None:
    """Take a message with its file, which is written first where files are kept.

    Meanwhile the device may have sent it on a new connection too: then this reader is cancelled.

    *Errors*: ProtocolError `internal_error`; nothing is kept of a message that is refused (D19).
    """
    received, metrics = session.hub.received, session.hub.metrics
    if received is None:
        session.inbox.accept(message, size, trio.current_time())
        _accepted(connection, message.id)
        return
    session.inbox.check(message, size, trio.current_time())
    try:
        kept = await received.keep(message)
    except ProtocolError:
        metrics.received_failed += 1
        raise
    try:
        session.inbox.accept(kept, size, trio.current_time())
    except ProtocolError:
        await received.discard(kept)
        raise
    _accepted(connection, message.id)


def take_answer(connection: Connection, session: Session, frame: PromptAnswer) -> None:
    """An answer to a card, which must be one of this device's (D21)."""
    if session.hub.card_sessions.get(frame.prompt_id, session) is not session:
        raise ProtocolError(ErrorCode.FORBIDDEN, "prompt_id: a card of another device")
    _accepted(connection, frame.prompt_id)
    done = session.questions.answer(frame)
    if done is not None:
        connection.outbox.put_answer(done)


async def take_ping(connection: Connection, frame: Ping) -> None:
    """A ping; the pong is held back until earlier deliveries have their outcome (D25)."""
    if connection.deliveries is not None and connection.deliveries.under_way:
        await connection.deliveries.put(frame)
    else:
        connection.outbox.put_answer(Pong(frame.ts))


async def take_delivery(connection: Connection, frame: Deliver) -> None:
    if connection.deliveries is None:
        raise ProtocolError(
            ErrorCode.FORBIDDEN, "deliver: from this host or with a deliver token only", id=frame.id
        )
    await connection.deliveries.put(frame)


def _is_repeat(connection: Connection, session: Session, message_id: str, now: float) -> bool:
    """Whether the message was accepted before: then only its receipt is given again (D19, D38)."""
    if not session.hub.dedup.seen(session.device_id, message_id, now):
        return False
    _accepted(connection, message_id)
    return True


def _accepted(connection: Connection, message_id: str) -> None:
    if connection.admission.receipts:
        connection.outbox.put_answer(Accepted(message_id))
