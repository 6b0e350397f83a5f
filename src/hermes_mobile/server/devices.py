"""The devices that the server knows: paired, revoked, or merely seen.

What a change means is a method of `KnownDevice`, so that a command without a server changes the access
file by the same rules. `Devices` are those of a running server: a change counts once it is on disk.
"""

from __future__ import annotations

import secrets
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

import structlog
import trio
from attrs import evolve, field, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hermes_mobile.protocol.frames import Device

log = structlog.get_logger()

MAX_TOKENS: Final = 16
"""Paired tokens of one device: two are a rotation, more than this is a mistake."""
MAX_DEVICES: Final = 10_000
"""Devices that are remembered for having been seen; one with a token, or revoked, is never forgotten."""
SAVE_SECONDS: Final = 60.0
"""How long it may take until when a device was seen is on disk: one write for all of them."""
CHANGE_SECONDS: Final = 4.0
"""How long a change may take; less than what a server that stops still has (D35)."""


class AccessFileError(Exception):
    """The access file cannot be read or written, or is in use: one line for the operator."""


class DeviceError(Exception):
    """A change was asked for that makes no sense: one line for the operator."""


@frozen
class Credential:
    """Proof of which token was presented, comparable without holding it."""

    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, token: str) -> Credential:
        return cls(sha256(token.encode("utf-8", "surrogatepass")).digest())


@frozen
class KnownDevice:
    """What is known of one device. `last_seen` is in Unix seconds."""

    id: str
    name: str = ""
    platform: str = ""
    last_seen: int | None = None
    tokens: tuple[Credential, ...] = ()
    """The paired ones, the oldest first; while there are any, no other token admits it (D8)."""
    revoked: bool = False
    """No token admits it, until it is paired anew."""

    def paired(
        self, credential: Credential, *, name: str = "", replace: bool = False
    ) -> KnownDevice:
        """The device with one token more, or, to `replace` them, with that one alone.

        *Errors*: DeviceError beyond 16 tokens.
        """
        before = () if replace else self.tokens
        if len(before) >= MAX_TOKENS:
            raise DeviceError(f"{self.id} has {MAX_TOKENS} tokens: --replace withdraws them")
        tokens = (*before, credential)
        return evolve(self, name=name or self.name, tokens=tokens, revoked=False)

    def without_access(self) -> KnownDevice:
        """The device, revoked."""
        return evolve(self, tokens=(), revoked=True)

    def seen(self, device: Device, now: int) -> KnownDevice:
        name, platform = device.name or self.name, device.platform or self.platform
        return evolve(self, name=name, platform=platform, last_seen=now)

    @property
    def may_be_forgotten(self) -> bool:
        return not self.tokens and not self.revoked


class Store(Protocol):
    """Where known devices outlive the server. *Errors*, of both: AccessFileError."""

    async def read(self) -> list[KnownDevice]: ...

    async def write(self, known: Sequence[KnownDevice]) -> None: ...


class Devices:
    """The known devices of a running server. Without a `store` they are forgotten with it."""

    def __init__(
        self,
        known: Iterable[KnownDevice] = (),
        store: Store | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, KnownDevice] = {}
        """The longest not seen first."""
        self._token_owners: dict[Credential, str] = {}
        self._changing = trio.Lock()
        self._unsaved = trio.Event()
        for device in known:
            self._put(device)

    def __iter__(self) -> Iterator[KnownDevice]:
        return iter(list(self._known.values()))

    def get(self, device_id: str) -> KnownDevice | None:
        return self._known.get(device_id)

    def owner_of(self, credential: Credential) -> str | None:
        """The id of the device that a token was paired with."""
        # What a lookup's time could tell is about a digest, which nobody can choose (D7).
        return self._token_owners.get(credential)

    def is_bound(self, device_id: str) -> bool:
        """Whether only paired tokens admit it, or the settings' that are bound to it (D8)."""
        device = self._known.get(device_id)
        return device is not None and bool(device.tokens)

    def is_revoked(self, device_id: str) -> bool:
        device = self._known.get(device_id)
        return device is not None and device.revoked

    def seen(self, device: Device) -> None:
        """Take note that a device is here; on disk it is within a minute."""
        known = self._known.pop(device.id, None) or KnownDevice(device.id)
        self._put(known.seen(device, int(self._clock())))
        if len(self._known) > MAX_DEVICES:
            strangers = (each.id for each in self._known.values() if each.may_be_forgotten)
            if (longest := next(strangers, None)) is not None:
                del self._known[longest]
        if self._store is not None:
            self._unsaved.set()

    async def pair(self, device_id: str, *, name: str = "", replace: bool = False) -> str:
        """Make a token that admits this device alone; only its digest is kept.

        *Errors*: DeviceError beyond 16 tokens, AccessFileError; nothing has changed then.
        """
        token = secrets.token_urlsafe(32)
        credential = Credential.of(token)
        await self._change(
            device_id, lambda device: device.paired(credential, name=name, replace=replace)
        )
        return token

    async def revoke(self, device_id: str) -> None:
        """Let no token admit this device any more. *Errors*: AccessFileError; nothing has changed."""
        await self._change(device_id, KnownDevice.without_access)

    async def reload(self) -> None:
        """Take tokens and revocations as the file has them now; what was seen since stays.

        *Errors*: AccessFileError; nothing has changed then.
        """
        if self._store is None:
            await trio.lowlevel.checkpoint()
            return
        async with self._changing:
            fresh = {device.id: device for device in await self._store.read()}
            here, self._known, self._token_owners = self._known, {}, {}
            for device in fresh.values():
                if device.id not in here:
                    self._put(device)
            for device in here.values():
                now = fresh.get(device.id) or KnownDevice(device.id)
                name, platform = device.name or now.name, device.platform or now.platform
                self._put(evolve(now, name=name, platform=platform, last_seen=device.last_seen))

    async def run(self) -> None:
        """Keep on disk when devices were last seen, until cancelled."""
        while True:
            await self._unsaved.wait()
            await trio.sleep(SAVE_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Save what is not saved; a failure is logged, and the next time it is tried again."""
        if self._store is None or not self._unsaved.is_set():
            return
        async with self._changing:
            self._unsaved = trio.Event()
            try:
                await self._store.write(list(self._known.values()))
            except AccessFileError as error:
                self._unsaved.set()
                log.error("known devices not saved", reason=str(error))

    async def _change(self, device_id: str, change: Callable[[KnownDevice], KnownDevice]) -> None:
        """Change one device: on disk, then here."""
        if self._store is None:
            raise AccessFileError("MOBILE_STATE_DIR is not set: there is no place to keep it")
        # What is on disk and what is true here must not part, whoever gives up waiting.
        with trio.move_on_after(CHANGE_SECONDS, shield=True) as waiting:
            async with self._changing:
                changed = change(self._known.get(device_id) or KnownDevice(device_id))
                await self._store.write(list((self._known | {device_id: changed}).values()))
                # It may have been seen meanwhile.
                self._put(change(self._known.get(device_id) or KnownDevice(device_id)))
        if waiting.cancelled_caught:
            raise AccessFileError(
                "the disk does not answer: whether the change is kept is not known"
            )

    def _put(self, device: KnownDevice) -> None:
        before = self._known.get(device.id)
        for credential in before.tokens if before else ():
            del self._token_owners[credential]
        self._known[device.id] = device
        for credential in device.tokens:
            self._token_owners[credential] = device.id
