"""Who a peer is, what its token admits, and whose session a device id is."""

from __future__ import annotations

import hmac
import secrets
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from hermes_mobile.protocol.errors import ErrorCode, ProtocolError
from hermes_mobile.server.devices import Credential
from hermes_mobile.server.values import Token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hermes_mobile.protocol.frames import Device, Hello, User
    from hermes_mobile.server.devices import Devices
    from hermes_mobile.server.settings import Settings
    from hermes_mobile.server.values import Network

Address = IPv4Address | IPv6Address

DELIVER_SOCKET: Final = "deliver.sock"
"""The address of a peer on the socket for deliveries: that it may connect is its credential."""


@frozen
class Peer:
    """The other end of a connection."""

    address: str
    """Its IP address, `unix`, or DELIVER_SOCKET."""
    forwarded: bool = False
    """A proxy passed it on (D26)."""
    client: str | None = None
    """The address that failures count for; None is exempt (D37)."""

    @property
    def loopback(self) -> bool:
        """Whether it is a process of this machine that speaks for itself (D26)."""
        address = _address(self.address)
        return address is not None and address.is_loopback and not self.forwarded


@frozen
class Admission:
    """What a hello was granted."""

    device: Device
    """With its final id; as sent when `courier`."""
    user: User
    credential: Credential
    bound: bool
    """The token is bound to this device, and owns its session (D10)."""
    generated: bool
    """The device gave no id, and got one made up."""
    receipts: bool
    may_deliver: bool
    courier: bool
    """A deliver token: no device, no session, only deliveries (D26)."""


_BY_SOCKET: Final = Credential(b"")
"""What a peer on DELIVER_SOCKET presents: no token has this digest."""


class Access:
    """Judges hellos by the tokens and the allow-list of the settings, and by what `devices` are known."""

    def __init__(self, settings: Settings, devices: Devices) -> None:
        self._tokens = {Credential.of(token.value): token for token in settings.tokens}
        self._bound_ids = {token.device_id for token in settings.tokens}
        self._allowed = settings.allowed_devices
        self._deliver_loopback = settings.deliver_loopback
        self._devices = devices

    def admit(self, hello: Hello, peer: Peer) -> Admission:
        """Judge a hello: the token, then the allow-list, then the binding (D7).

        *Errors*: ProtocolError, fatal: `auth_failed`, or `forbidden` against a binding (D8).
        """
        by_socket = peer.address == DELIVER_SOCKET
        credential = _BY_SOCKET if by_socket else Credential.of(hello.token)
        token = self._find(credential)
        if token is None:
            raise _refusal(ErrorCode.AUTH_FAILED, "token: not valid")
        generated = not (token.delivers_only or hello.device.id)
        admission = Admission(
            device=evolve(hello.device, id=_make_id()) if generated else hello.device,
            user=hello.user,
            credential=credential,
            bound=token.device_id is not None,
            generated=generated,
            receipts=hello.receipts,
            may_deliver=token.delivers_only or (peer.loopback and self._deliver_loopback),
            courier=token.delivers_only,
        )
        self._check(admission, token)
        return admission

    def refusal(self, admission: Admission) -> ProtocolError | None:
        """Why a hello that was granted `admission` would be refused by now; None if it would not.

        A token may have been withdrawn since, a device taken from the list, bound or revoked.
        """
        token = self._find(admission.credential)
        if token is None or token.delivers_only != admission.courier:
            return _refusal(ErrorCode.AUTH_FAILED, "token: not valid any more")
        try:
            self._check(admission, token)
        except ProtocolError as refusal:
            return refusal
        return None

    def owns(self, admission: Admission, owner: Credential, owner_live: bool) -> bool:
        """Whether the admitted device may take over the session that `owner` opened (D10)."""
        return (
            admission.bound
            or admission.credential == owner
            or not owner_live
            or self._find(owner) is None
        )

    def _check(self, admission: Admission, token: Token) -> None:
        """Judge a device by its id. *Errors*: ProtocolError, as of `admit`."""
        if token.delivers_only:
            return
        device_id = admission.device.id
        listed = not self._allowed or (device_id in self._allowed and not admission.generated)
        if not listed or self._devices.is_revoked(device_id):
            raise _refusal(ErrorCode.AUTH_FAILED, "device.id: not allowed here")
        if token.device_id is not None and token.device_id != device_id:
            raise _refusal(ErrorCode.FORBIDDEN, "device.id: the token is bound to another device")
        is_bound = device_id in self._bound_ids or self._devices.is_bound(device_id)
        if token.device_id is None and is_bound:
            raise _refusal(ErrorCode.FORBIDDEN, "device.id: bound to another token")

    def _find(self, presented: Credential) -> Token | None:
        """The role of the token that was presented; None for one that is not valid."""
        if presented == _BY_SOCKET:
            return Token("", delivers_only=True)
        # Digests have one length, and every one is compared: time tells nothing (D7).
        found = None
        for known, token in self._tokens.items():
            if hmac.compare_digest(known.digest, presented.digest):
                found = token
        owner = self._devices.owner_of(presented)
        return found if owner is None else Token("", owner)


def _make_id() -> str:
    return f"dev-{secrets.token_hex(8)}"


def _refusal(code: ErrorCode, message: str) -> ProtocolError:
    return ProtocolError(code, message, fatal=True)


def resolve_peer(
    address: str, headers: Mapping[bytes, list[bytes]], trusted: Sequence[Network]
) -> Peer:
    """Tell the peer at `address` from the client it may speak for (D26, D37).

    Only a trusted proxy, or one behind a Unix socket (`unix`), is believed: the client is the
    right-most forwarded address that is no trusted proxy itself; without one, nobody is counted.
    """

    def is_trusted(candidate: Address) -> bool:
        return any(candidate in network for network in trusted)

    forwarded = any(name in headers for name in (b"x-forwarded-for", b"x-real-ip", b"forwarded"))
    peer = _address(address)
    client = peer
    if peer is None or is_trusted(peer):
        clients = (each for each in _forwarded_for(headers) if not is_trusted(each))
        client = next(clients, None)
    return Peer(address, forwarded, None if client is None else str(client))


def _forwarded_for(headers: Mapping[bytes, list[bytes]]) -> Iterator[Address]:
    """Every forwarded address that can be read, the right-most first.

    `X-Forwarded-For` comes first: proxies write it, and pass on a `Forwarded` of the client's own.
    """
    for name in (b"x-forwarded-for", b"x-real-ip", b"forwarded"):
        if name not in headers:
            continue
        text = b",".join(headers[name]).decode("latin-1")
        for element in reversed(text.split(",")):
            entry = _node(element) if name == b"forwarded" else element
            if (address := _address(entry)) is not None:
                yield address


def _node(element: str) -> str:
    """The `for=` of one element of a `Forwarded` header; no valid one contains `,` or `;`."""
    for pair in element.split(";"):
        key, _, value = pair.partition("=")
        if key.strip().lower() == "for":
            return value
    return ""


@lru_cache(maxsize=16)  # a proxy comes again and again, and reading an address takes 10 us
def _address(text: str) -> Address | None:
    """An address that may be quoted, bracketed, or followed by a port; None for anything else."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
