"""The admin socket: what the operator's commands ask of a running server (docs/admin.md).

A line of JSON comes in, another goes out, and the connection ends. Who may connect may do all of it: the
socket's permissions are the credential.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog
import trio

from hermes_mobile import __version__
from hermes_mobile.protocol import fields
from hermes_mobile.protocol.errors import ProtocolError
from hermes_mobile.server.devices import AccessFileError, DeviceError, KnownDevice
from hermes_mobile.server.fault import where

if TYPE_CHECKING:
    from hermes_mobile.server.hub import Hub
    from hermes_mobile.server.stream import SocketStream

log = structlog.get_logger()

MAX_REQUEST_BYTES: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0
"""From the connection to the end of the answer; a change that has begun is finished all the same."""
MAX_CONNECTIONS: Final = 16
"""One more is closed at once."""

OPS: Final = "op: one of status, devices, pair, revoke"


class AdminSide:
    """Answers on the admin socket."""

    def __init__(self) -> None:
        self._open = 0

    async def serve(self, hub: Hub, stream: SocketStream, _: str) -> None:
        """Answer one request; no fault leaves its connection."""
        if self._open >= MAX_CONNECTIONS:
            stream.close()
            return
        self._open += 1
        try:
            async with stream:
                with trio.move_on_after(REQUEST_SECONDS):
                    line = await receive_line(stream)
                    if line is not None:
                        await stream.send_all(orjson.dumps(await answer(hub, line)) + b"\n")
        except trio.BrokenResourceError:
            log.debug("admin peer left")
        except Exception as error:  # noqa: BLE001 - the boundary
            log.error("admin fault", **where(error))
        finally:
            self._open -= 1


async def receive_line(stream: SocketStream) -> bytes | None:
    """The request, which is what came if it is too long; None when the peer ends before its end."""
    received = b""
    while b"\n" not in received and len(received) <= MAX_REQUEST_BYTES:
        data = await stream.receive_some()
        if not data:
            return None
        received += data
    return received.partition(b"\n")[0]


async def answer(hub: Hub, line: bytes) -> dict[str, Any]:
    """What a request is answered: what was asked for, or an `error` in words."""
    try:
        return await _answer(hub, line)
    except ProtocolError as refusal:
        return {"error": refusal.message}
    except (AccessFileError, DeviceError) as refusal:
        return {"error": str(refusal)}


async def _answer(hub: Hub, line: bytes) -> dict[str, Any]:
    """*Errors*: ProtocolError, AccessFileError, DeviceError."""
    if len(line) > MAX_REQUEST_BYTES:
        raise DeviceError(f"a request has at most {MAX_REQUEST_BYTES} bytes")
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise DeviceError("a request is an object in JSON, in one line") from None
    match request:
        case {"op": "status"}:
            return status(hub)
        case {"op": "devices"}:
            return {"devices": devices(hub)}
        case {"op": "pair"}:
            return await pair(hub, request)
        case {"op": "revoke"}:
            return await revoke(hub, request)
        case _:
            raise DeviceError(OPS)


def status(hub: Hub) -> dict[str, Any]:
    """How the server is doing."""
    sessions = list(hub.registry)
    connected = sum(session.connection is not None for session in sessions)
    return {
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": int(trio.current_time() - hub.started_at),
        "url": "" if hub.address is None else hub.address.url,
        "stopping": hub.stopping,
        "agent": {"name": hub.settings.agent, "ready": hub.agent.ready},
        "connections": len(hub.connections),
        "sessions": {"connected": connected, "away": len(sessions) - connected},
        "turns_running": hub.running_turns,
        "messages_waiting": hub.waiting_messages,
        "cards_open": len(hub.card_sessions),
        "units_kept": sum(len(session.mailbox) for session in sessions),
        "units_kept_bytes": sum(session.mailbox.bytes for session in sessions),
    }


def devices(hub: Hub) -> list[dict[str, Any]]:
    """Every known device, the longest not seen first."""
    return [describe(hub, device) for device in hub.devices]


def describe(hub: Hub, device: KnownDevice) -> dict[str, Any]:
    session = hub.registry.get(device.id)
    connected = session is not None and session.connection is not None
    return {
        "id": device.id,
        "name": device.name,
        "platform": device.platform,
        "state": state(device, connected=connected),
        "last_seen": device.last_seen,
        "tokens": len(device.tokens),
        "units_kept": 0 if session is None else len(session.mailbox),
    }


def state(device: KnownDevice, *, connected: bool) -> str:
    if device.revoked:
        return "revoked"
    return "connected" if connected else "away"


async def pair(hub: Hub, request: dict[str, Any]) -> dict[str, Any]:
    """Make a token for a device; `warning` tells why it would be refused all the same."""
    device_id = _device_id(request)
    name = fields.short_name(request.get("name"), "name")
    replace = fields.flag(request.get("replace"), "replace")
    token = await hub.devices.pair(device_id, name=name, replace=replace)
    closed = hub.close_withdrawn()
    log.info("device paired", device=device_id, replaced=replace, closed=closed)
    warning = warn_of_list(device_id, hub.settings.allowed_devices)
    url = "" if hub.address is None else hub.address.url
    return {"device": device_id, "token": token, "url": url, "warning": warning}


def warn_of_list(device_id: str, allowed: frozenset[str]) -> str:
    """Why a device that is paired would be refused all the same; empty when it would not (D9)."""
    if not allowed or device_id in allowed:
        return ""
    return f"MOBILE_ALLOWED_DEVICES lacks {device_id}: it will be refused"


async def revoke(hub: Hub, request: dict[str, Any]) -> dict[str, Any]:
    """Shut a device out; only one that the server has heard of, for an id is easily mistyped."""
    device_id = _device_id(request)
    bound = {token.device_id for token in hub.settings.tokens}
    known = hub.devices.get(device_id) or hub.registry.get(device_id)
    if known is None and device_id not in bound:
        raise DeviceError(f"there is no device {device_id}")
    await hub.revoke(device_id)
    return {"device": device_id}


def _device_id(request: dict[str, Any]) -> str:
    device_id = fields.device_address(request.get("device"), "device")
    if not device_id:
        raise DeviceError("device: missing")
    return device_id
