"""The agent's end of the agent link (docs/agent-link.md): JSON lines over a local socket."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

Message: TypeAlias = dict[str, Any]

MAX_MESSAGE_BYTES = 16 << 20
READY_TIMEOUT = 15.0
"""Seconds within which a server that was reached says `ready`."""
RETURN_TIMEOUT = 30.0
"""Seconds that a request waits for a link that was lost."""
FIRST_PAUSE, MAX_PAUSE = 0.5, 15.0
"""Seconds between two attempts, at most: after a link, and after many in vain."""
FINAL = frozenset({"replaced", "auth_failed", "bad_message"})
"""Words of goodbye after which nobody dials again."""


class LinkLostError(Exception):
    """The link ended, or did not come back in time; whether what was asked for was done is unknown."""


class RefusedError(Exception):
    """The server answered a request with an error of `code`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Address:
    """Where the server listens for its agent: at the Unix socket, or at the port of 127.0.0.1."""

    socket: str = ""
    port: int = 0
    token: str = field(default="", repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Address:
        """What the environment says. Errors: ValueError, which names the variable."""
        token = environ.get("MOBILE_AGENT_TOKEN", "")
        if socket := environ.get("MOBILE_AGENT_SOCKET"):
            return cls(socket=str(Path(socket).expanduser()), token=token)
        port = environ.get("MOBILE_AGENT_PORT", "")
        if not (port.isdecimal() and 0 < int(port) < 1 << 16):
            raise ValueError("MOBILE_AGENT_SOCKET or MOBILE_AGENT_PORT (1 to 65535) must be set")
        if not token:
            raise ValueError("MOBILE_AGENT_TOKEN must be set for MOBILE_AGENT_PORT")
        return cls(port=int(port), token=token)

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        limit = MAX_MESSAGE_BYTES + 2
        if self.socket:
            return await asyncio.open_unix_connection(self.socket, limit=limit)
        return await asyncio.open_connection("127.0.0.1", self.port, limit=limit)


class Link:
    """One link after the other to the server at `address`, and requests over whichever is there.

    `on_ready` is called with each `ready`, `on_message` with whatever the server says unasked; both on
    the loop that runs `run`, as everything else here.
    """

    def __init__(
        self,
        address: Address,
        hello: Message,
        on_ready: Callable[[Message], None],
        on_message: Callable[[Message], None],
    ) -> None:
        self._address = address
        self._hello = hello
        self._on_ready = on_ready
        self._on_message = on_message
        self._ready = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._name: str | None = None
        self._ids = count(1)
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._cards: set[str] = set()
        """The requests among `_answers` that outlive a link, if the next one resumes it."""
        self._lanes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock for each device that something is being said to."""

    def make_id(self) -> str:
        """An id for a card, a stream or a request."""
        return str(next(self._ids))

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> Message:
        """Serve link after link; returns the goodbye after which none follows."""
        pause = FIRST_PAUSE
        while True:
            try:
                goodbye = await self._serve()
            # ValueError: no JSON, or no end of it. KeyError: a message lacks what belongs to it.
            except (OSError, ValueError, KeyError, TimeoutError) as error:
                log.info("mobile: no link to the server: %s", type(error).__name__)
            else:
                if goodbye.get("code") in FINAL:
                    return goodbye
                pause = FIRST_PAUSE
            await asyncio.sleep(random.random() * pause)  # noqa: S311 - spreads, hides nothing
            pause = min(2 * pause, MAX_PAUSE)

    async def request(self, device: str, t: str, /, **fields: Any) -> Message:
        """Ask for something, after whatever was asked for the same device before.

        Errors: RefusedError, LinkLostError.
        """
        async with self._lanes.setdefault(device, asyncio.Lock()):
            return await self._ask(self.make_id(), t, fields)

    async def ask(self, id: str, **fields: Any) -> Message:
        """Show a card, and wait for its end; it holds up nothing. Errors as in `request`."""
        self._cards.add(id)
        try:
            return await self._ask(id, "ask", fields)
        finally:
            self._cards.discard(id)

    def tell(self, t: str, **fields: Any) -> None:
        """Say what has no answer, or one that nobody needs; nothing without a link."""
        if self._ready.is_set() and self._writer is not None:
            self._write({"t": t, **fields})

    def withdraw(self, ask: str) -> None:
        """Close the card `ask`."""
        self.tell("withdraw", id=self.make_id(), ask=ask)

    async def _ask(self, id: str, t: str, fields: Message) -> Message:
        try:
            await asyncio.wait_for(self._ready.wait(), RETURN_TIMEOUT)
        except TimeoutError:
            raise LinkLostError("the hermes-mobile server is not there") from None
        assert self._writer is not None  # noqa: S101 - there is one while it is ready
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        try:
            self._write({"t": t, "id": id, **fields})
            with suppress(OSError):  # the reader notices too, and answers for all requests
                await self._writer.drain()
            return await answer
        finally:
            self._answers.pop(id, None)

    def _write(self, message: Message) -> None:
        assert self._writer is not None  # noqa: S101 - callers know
        self._writer.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    async def _serve(self) -> Message:
        """One link from its beginning to its end; the server's goodbye, empty without one."""
        reader, self._writer = await self._address.open()
        try:
            self._write({"t": "hello", "v": 1, **self._hello, "resume": self._name})
            async with asyncio.timeout(READY_TIMEOUT):
                first = await self._read(reader)
            if first is None or first["t"] == "goodbye":
                return first or {}
            self._begin(first)
            while (message := await self._read(reader)) is not None:
                match message:
                    case {"t": "done", "id": id}:
                        self._answer(id, message)
                    case {"t": "error", "id": id}:
                        refusal = RefusedError(message["code"], message["message"])
                        self._answer(id, refusal)
                    case {"t": "goodbye"}:
                        return message
                    case _:
                        self._on_message(message)
            return {}
        finally:
            self._ready.clear()
            self._writer.close()
            for lost in self._answers.keys() - self._cards:
                self._answer(lost, LinkLostError("the link was lost"))

    def _begin(self, ready: Message) -> None:
        self._name = ready.get("link")
        kept = set(ready.get("asks") or ()) if ready.get("resumed") else set()
        for lost in self._answers.keys() & self._cards - kept:
            self._answer(lost, LinkLostError("the card was lost with the link"))
        self._ready.set()
        self._on_ready(ready)

    def _answer(self, id: str, answer: Message | Exception) -> None:
        waiting = self._answers.get(id)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> Message | None:
        """The next message; None at the end. Errors: ValueError."""
        while line := await reader.readline():
            if line.strip():
                message = json.loads(line)
                if not isinstance(message, dict) or not isinstance(message.get("t"), str):
                    raise ValueError("not a message")
                return message
        return None
