"""The life of one connection, from the accepted socket to the last byte.

`Connection.serve` is the whole story: upgrade, hello, the nursery with its tasks, the end. It is the
one place that closes a connection, and the one that maps failures to a code; nothing that goes wrong
here reaches another connection or the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import structlog
import trio
from attrs import asdict, define
from trio_websocket import ConnectionClosed

from hermes_mobile.protocol.codec import decode, decode_hello, encode
from hermes_mobile.protocol.errors import ErrorCode, ProtocolError, bad_frame
from hermes_mobile.protocol.frames import Error, MediaIn, Ready
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES, MAX_HELLO_BYTES
from hermes_mobile.protocol.uploads import Uploads
from hermes_mobile.server import ending as endings
from hermes_mobile.server.access import resolve_peer
from hermes_mobile.server.delivery import Deliveries
from hermes_mobile.server.dispatch import dispatch
from hermes_mobile.server.ending import Ending
from hermes_mobile.server.fault import where
from hermes_mobile.server.gathering import gathering
from hermes_mobile.server.heartbeat import Heartbeat
from hermes_mobile.server.outbox import Outbox
from hermes_mobile.server.scanner import FrameScanner, Opcode, server_frame
from hermes_mobile.server.timer import Timer
from hermes_mobile.server.upgrade import Place, RefusedError, receive_upgrade, refuse
from hermes_mobile.server.wire import Wire
from hermes_mobile.server.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_mobile.protocol.frames import ClientFrame, Hello
    from hermes_mobile.server.access import Admission
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.session import Session
    from hermes_mobile.server.stream import SocketStream
    from hermes_mobile.server.units import Unit

log = structlog.get_logger()

Frame = TypeVar("Frame", bound="ClientFrame")

DRAIN_SECONDS: Final = 2.0
"""How long an ending connection may take to write what is queued."""
OUTBOX_RESERVE: Final = 256
"""Room in the outbox beside full queues: open cards shown anew, states, pings."""


@define
class Record:
    """What the one log line of a connection tells: never a token, a text or a name (D39)."""

    address: str
    device: str = ""
    role: str = "none"
    end: str = "lost"
    frames_in: int = 0
    frames_out: int = 0


async def serve_connection(hub: Hub, stream: SocketStream, address: str) -> None:
    """Serve the peer at `address`, an IP address or `unix`, until either side ends it."""
    started = trio.current_time()
    connection = Connection(hub, stream, address)
    record = connection.record
    hub.connections.add(connection)
    hub.metrics.connections += 1
    try:
        async with stream:
            await connection.serve()
    except Exception as error:  # noqa: BLE001 - the boundary: no fault leaves its connection
        record.end = "fault"
        log.error("connection fault", device=record.device, **where(error))
    finally:
        hub.connections.discard(connection)
        log.info(
            "connection",
            **asdict(record, recurse=False),
            seconds=round(trio.current_time() - started, 3),
            bytes_in=stream.bytes_in,
            bytes_out=stream.bytes_out,
        )


class Connection:
    """One WebSocket, and what its tasks share. `session` is None where it may only deliver (D26)."""

    admission: Admission
    deliveries: Deliveries | None = None
    """None where it may not deliver."""
    session: Session | None = None
    _nursery: trio.Nursery
    _heartbeat: Heartbeat
    """From hello on."""

    def __init__(self, hub: Hub, stream: SocketStream, address: str) -> None:
        self.hub = hub
        self.record = Record(address)
        settings = hub.settings
        self.outbox = Outbox(
            settings.outbox_frames,
            settings.outbox_bytes,
            settings.keep_units + OUTBOX_RESERVE,
            on_overflow=lambda: self.end(endings.OUTBOX_FULL),
        )
        self.uploads = Uploads(hub.agent.takes)
        self._stream = stream
        self._peer = resolve_peer(address, {}, settings.trusted_proxies)
        self._scanner = FrameScanner(MAX_HELLO_BYTES, MAX_FRAME_BYTES, self._on_pong)
        self.timer = Timer(self._next_deadline, self._meet_deadlines)
        """Keeps the heartbeat's deadlines, and those of the session: idle avatar and open cards."""
        self._place = Place(hub.pending)
        self._wire: Wire | None = None
        self.writer: Writer | None = None
        """From hello on."""
        self._opening = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._ending: Ending | None = None

    # The life

    async def serve(self) -> None:
        """Live from the upgrade to the close."""
        try:
            async with trio.open_nursery() as self._nursery:
                wire = await self._upgrade()
                if wire is not None:
                    with self._reading:
                        await gathering(self._read(wire), lambda: self.writer)
                    await self._drain()
                self._nursery.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - the boundary: no fault leaves its connection
            log.error("connection fault", device=self.record.device, **where(error))
            self._ending = endings.INTERNAL
        finally:
            self._place.leave()
            self._leave_session()
        ending = self._ending or endings.NO_UPGRADE
        self.record.end = ending.why
        self._count(ending)
        if self._wire is not None:
            await self._wire.close(ending)

    async def _upgrade(self) -> Wire | None:
        """Get from TCP to a WebSocket; None when there will be none (D1, D4, D37)."""
        settings = self.hub.settings
        self._opening.deadline = trio.current_time() + settings.upgrade_timeout
        with self._opening:
            try:
                received = await receive_upgrade(self.hub, self._stream, self._place, self._peer)
                if received is None:
                    return None
                request, self._peer = received
                await self._stream.send_all(request.acceptance)
                self._wire = Wire(self._stream, self._scanner, request.rest, self._nursery)
            except trio.BrokenResourceError:
                self._ending = endings.LOST
            except RefusedError as refusal:
                self.hub.metrics.refused_in_http(refusal.status)
                self._ending = Ending(f"http {refusal.status.value}")
                await refuse(self._stream, refusal.status, settings.path)
        return self._wire

    async def _read(self, wire: Wire) -> None:
        """Act on what the peer sends, hello first, until either side ends the connection."""
        try:
            await self._welcome(await self._receive_hello(wire), wire)
            while True:
                data = await wire.receive_message()
                if self._ending is not None:
                    return  # another connection has the device now (D11)
                try:
                    await dispatch(self, self._take(data, decode))
                except ProtocolError as error:
                    self.outbox.put_answer(Error(error.code, error.message, id=error.id))
                del data  # it may be large, and the next one long in coming
        except ProtocolError as error:
            if error.code in {ErrorCode.AUTH_FAILED, ErrorCode.FORBIDDEN}:
                self.hub.throttle.failed(self._peer.client, trio.current_time())
            self.end(endings.refused(error))
        except trio.EndOfChannel:
            self.end(endings.of_reading(self._scanner, None))
        except ConnectionClosed as closed:
            self.end(endings.of_reading(self._scanner, closed.reason))

    def _take(self, data: str | bytes, decode_it: Callable[[str | bytes], Frame]) -> Frame:
        """Decode and count what the peer sent. *Errors*: ProtocolError."""
        self.record.frames_in += 1
        frame = None
        try:
            frame = decode_it(data)
            return frame
        finally:
            self.hub.metrics.received(frame, data)

    async def _receive_hello(self, wire: Wire) -> Hello:
        timeout = self.hub.settings.hello_timeout
        with trio.move_on_after(timeout):
            return self._take(await wire.receive_message(), decode_hello)
        raise bad_frame(
            f"hello timeout: the first frame must come within {timeout:g} s", fatal=True
        )

    async def _welcome(self, hello: Hello, wire: Wire) -> None:
        """Admit the peer, make it the device's connection, and start its tasks (D7 to D13)."""
        hub, client = self.hub, self._peer.client
        if delay := hub.throttle.hello_delay(client, trio.current_time()):
            await trio.sleep(delay)
        admission = self.admission = hub.access.admit(hello, self._peer)
        self.record.role = "courier" if admission.courier else "device"
        self.record.device = admission.device.id
        session = None if admission.courier else self._open_session(admission)
        self._place.leave()
        self._heartbeat = Heartbeat(
            hub.settings.ping_interval, hub.settings.ping_timeout, trio.current_time()
        )
        self._start_tasks(wire)
        self.outbox.put(
            Ready(
                session="" if session is None else session.name,
                device=admission.device,
                avatar_url=hub.avatar_url_for(self._peer),
                media_in=tuple(kind for kind in MediaIn if kind in hub.agent.takes),
                receipts=admission.receipts,
            )
        )
        if session is not None:
            self._take_over(session)

    def _open_session(self, admission: Admission) -> Session:
        """*Errors*: ProtocolError `forbidden` when the id belongs to someone who is here (D10)."""
        device_id = admission.device.id
        session = self.hub.registry.get(device_id)
        if (
            session is not None
            and session.owner is not None
            and not self.hub.access.owns(admission, session.owner, session.connection is not None)
        ):
            raise ProtocolError(
                ErrorCode.FORBIDDEN, "device.id: taken by a device that is connected", fatal=True
            )
        session = self.hub.registry.open(device_id)
        session.owner = admission.credential
        session.user = admission.user
        session.generated = admission.generated
        return session

    def _start_tasks(self, wire: Wire) -> None:
        self.writer = Writer(self.outbox, wire, self.hub.metrics, self._written)
        self._nursery.start_soon(self._write, self.writer)
        self._nursery.start_soon(self._keep_time)
        if self.admission.may_deliver:
            self.deliveries = Deliveries(
                self.hub, self._nursery, self.outbox.put_answer, self.admission
            )

    def _take_over(self, session: Session) -> None:
        """Become the connection of the device; the one before is told to go, not waited for."""
        if session.connection is not None:
            session.connection.end(endings.REPLACED)
        self.session = session
        session.attach(self, trio.current_time())
        self.hub.registry.settle(session)
        self.hub.throttle.session_opened(self._peer.client)

    @property
    def admitted(self) -> bool:
        return self.writer is not None

    def end(self, ending: Ending) -> None:
        """End the connection, unless it is ending already. Returns at once."""
        if self.writer is not None and not ending.flush:
            self.writer.stop()  # even of a connection that was to flush: its device has a new one
        if self._ending is not None:
            return
        self._ending = ending
        self.outbox.close(flush=ending.flush)
        self._opening.cancel()
        self._reading.cancel()

    async def _drain(self) -> None:
        """Finish the deliveries that were taken, and let the writer finish what a Close frame ends."""
        with trio.move_on_after(DRAIN_SECONDS):
            if self.deliveries is not None:
                await self.deliveries.finish()
            if self.writer is not None and self._ending and self._ending.code is not None:
                await self.writer.wait_finished()

    def _count(self, ending: Ending) -> None:
        """Count the last words, and a peer that was refused before it was ready."""
        if ending.error is None:
            return
        metrics, code = self.hub.metrics, ending.error.code
        metrics.sent(code, len(server_frame(Opcode.TEXT, encode(ending.error))))
        if self.writer is None:
            silent = code == ErrorCode.BAD_FRAME and not self.record.frames_in
            metrics.hello_refusals["timeout" if silent else code] += 1

    def _leave_session(self) -> None:
        """Give back to the session what was not confirmed, and release what was half uploaded."""
        self.uploads.release()
        self.outbox.close(flush=False)
        if self.writer is not None:
            self.record.frames_out = self.writer.frames_out
        if self.session is not None:
            self.session.detach(self)
            self.hub.throttle.session_closed(self._peer.client)

    # Writing

    async def _write(self, writer: Writer) -> None:
        try:
            await writer.run()
        except trio.BrokenResourceError:
            self.end(endings.LOST)
        except trio.ClosedResourceError:
            return  # the library has left the wire: the reader is about to learn why

    def _written(self, units: list[Unit]) -> None:
        session = self.session
        if session is None or session.connection is not self:
            return
        for unit in units:
            unit.mark_written(self._heartbeat.next_ping)
        self._heartbeat.wrote_unit(trio.current_time(), pressing=session.mailbox.pressing)
        self.timer.touch(self._heartbeat.due)

    # Deadlines, heartbeat and confirmation

    async def _keep_time(self) -> None:
        """Meet every deadline of the connection and its session; what that says is one write."""
        await gathering(self.timer.run(), lambda: self.writer)

    def _next_deadline(self) -> float:
        session = self.session
        if session is None:
            return self._heartbeat.due
        return min(self._heartbeat.due, session.presence.deadline, session.questions.next_deadline)

    def _meet_deadlines(self, now: float) -> None:
        if now >= self._heartbeat.due:
            self._beat(now)
        if self.session is not None:
            self.session.meet_deadlines(now)

    def _beat(self, now: float) -> None:
        """Ping, or give up a peer that shows no life (D5)."""
        stream = self._stream
        received, taken = stream.bytes_in, stream.taken_bytes()
        if self._heartbeat.dead(now, received, taken) and self._listening:
            self.end(endings.LOST)
            return
        # The kernel may have just run empty in the middle of a transfer: what is queued waits too.
        waiting = stream.waiting_bytes() or self.outbox.frames
        if self._heartbeat.ping_due(now, received, taken if waiting else None):
            self.outbox.put_ping(self._heartbeat.sent)

    @property
    def _listening(self) -> bool:
        """Whether the peer's silence is its own: a reader that waits hears nothing."""
        return self._wire is not None and self._wire.listening

    def _on_pong(self, payload: bytes) -> None:
        session = self.session
        if session is None or session.connection is not self or not payload.isdigit():
            return
        ping = int(payload)
        if ping <= self._heartbeat.sent:
            session.confirmed(ping)
            self.outbox.room.unpark_all()
