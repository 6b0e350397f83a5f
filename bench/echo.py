"""Devices that say a text and hear it back: the turn that most figures are about.

A generator must not be the bottleneck, so a turn's frames are told apart by their bytes. Those of
every `sample`-th turn are parsed, and compared with what a turn has to be.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import orjson

from bench.device import TEXT, Device
from bench.schedule import Alarm, arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from picows import WSFrame, WSTransport

    from bench.device import Frame
    from bench.plan import Identity
    from bench.worker import Worker

LAST_TURNS_SECONDS: Final = 5.0
"""For turns that are going on to end."""
FILLER: Final = b"All work and no play makes a dull text. " * 300
MESSAGE: Final = b'{"t":"message"'
"""How most servers begin a message; one that does not is understood too, only not as quickly."""


class Kind(Enum):
    """What a frame that is always the same means for a turn."""

    WITHIN = "within a turn"
    END = "the turn's end"
    BETWEEN = "between turns"


KINDS: Final[dict[bytes, Kind]] = {}
"""Of frames that were parsed once, by their bytes."""


def kind_of(frame: Frame) -> Kind | None:
    """None for a frame that is not always the same."""
    match frame:
        case {"t": "typing", "stop": True}:
            return Kind.END
        case {"t": "avatar", "state": "idle"}:
            return Kind.BETWEEN
        case {"t": "avatar" | "typing"}:
            return Kind.WITHIN
        case _:
            return None


def fault_in(frames: Sequence[Frame], text: str | None) -> str | None:
    """What is wrong with the frames of a turn that echoes `text`, or answers anything if None."""
    kinds = [kind_of(frame) for frame in frames]
    told = [frame for frame, kind in zip(frames, kinds, strict=True) if kind is not Kind.BETWEEN]
    replies = [frame for frame in told if frame.get("t") == "message"]
    if not replies:
        return "no reply"
    others = [_state(frame) for frame in told if frame.get("t") != "message"]
    if others != ["thinking", "typing", "speaking", "typing stop"]:
        return "bad states"
    last = len(replies) - 1
    whole = all(
        reply.get("final") is (index == last)
        and reply.get("chunk") == {"index": index, "total": last + 1}
        and reply.get("id") == replies[0].get("id")
        for index, reply in enumerate(replies)
    )
    if text is None:
        return None
    if not whole:
        return "bad pieces"
    return None if "".join(str(reply.get("text")) for reply in replies) == text else "bad echo"


def _state(frame: Frame) -> object:
    if frame.get("t") == "typing":
        return "typing stop" if frame.get("stop") else "typing"
    return frame.get("state", frame.get("t"))


class Echo(Device):
    """Says texts; the time to the last frame of each turn goes to `times`.

    In a closed loop the end of a turn begins the next one.
    """

    def __init__(self, worker: Worker, number: int, identity: Identity) -> None:
        super().__init__(worker, number, identity)
        self.times = worker.series("turn")
        self.closed_loop = False
        self._size = worker.load.size
        self._sample = worker.load.sample
        self._any_reply = worker.load.any_reply
        self._prefix = self.make_id().encode()
        self._said = 0
        self._heard = 0
        self._pending: deque[tuple[int, float]] = deque()
        self._replies = 0
        self._checked: list[bytes] | None = []

    @property
    def pending(self) -> int:
        """Turns that have not ended."""
        return len(self._pending)

    def say(self, due: float) -> None:
        """Begin a turn whose latency counts from `due`."""
        self._said = number = self._said + 1
        self._pending.append((number, due))
        text = self._text(number)
        self.transport.send(
            TEXT, b'{"t":"text","id":"%b-%d","text":"%b"}' % (self._prefix, number, text)
        )

    def begin(self, depth: int) -> None:
        """Keep `depth` turns going, until `closed_loop` is taken back."""
        self.closed_loop = True
        for _ in range(depth):
            self.say(time.monotonic())

    def _text(self, number: int) -> bytes:
        mark = b"%d " % number
        return mark + FILLER[: max(self._size - len(mark), 1)]

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        payload = frame.get_payload_as_bytes()
        kind = KINDS.get(payload)
        if kind is None:
            if not (payload.startswith(MESSAGE) and frame.msg_type == TEXT and frame.fin):
                super().on_ws_frame(transport, frame)
                return
            self._replies += 1
        if self._checked is not None:
            self._checked.append(payload)
        if kind is Kind.END:
            self._end_turn()

    def hear(self, frame: Frame) -> None:
        """Frames that were not known by their bytes, one of each kind or a server of another style."""
        if self.ready is None:
            super().hear(frame)
        elif frame.get("t") == "error":
            self._refuse(frame)
        else:
            payload = orjson.dumps(frame)
            if self._checked is not None:
                self._checked.append(payload)
            if frame.get("t") == "message":
                self._replies += 1
            elif kind_of(frame) is Kind.END:
                self._end_turn()

    def parse(self, payload: memoryview) -> Frame:
        frame = super().parse(payload)
        kind = kind_of(frame)
        if kind is not None:
            KINDS[bytes(payload)] = kind
        return frame

    def _end_turn(self) -> None:
        if not self._pending:
            self.worker.error("unasked turn")
            return
        number, due = self._pending.popleft()
        self.times.append(time.monotonic() - due)
        self._heard += 1
        if self._checked is not None:
            self._check(self._checked, self._text(number).decode())
        elif not self._replies:
            self.worker.error("no reply")
        self._replies = 0
        self._checked = [] if self._heard % self._sample == 0 else None
        if self.closed_loop:
            self.say(time.monotonic())

    def _check(self, payloads: list[bytes], text: str) -> None:
        frames: list[dict[str, Any]] = [orjson.loads(payload) for payload in payloads]
        fault = fault_in(frames, None if self._any_reply else text)
        if fault is not None:
            self.worker.error(fault)

    def _refuse(self, error: Frame) -> None:
        """A message was refused, or its turn failed: nothing more comes of it."""
        self.worker.error(str(error.get("code")))
        _, _, number = str(error.get("id", "")).rpartition("-")
        left = [turn for turn in self._pending if str(turn[0]) != number]
        self._pending = deque(left)


async def send_when_due(worker: Worker, devices: Sequence[Echo], seconds: float) -> None:
    """Open loop: texts at the moments of `worker.load.rate`, from one device after the other.

    How late they really went out is the generator's own fault, and goes to the series `lag`.
    """
    rate = worker.load.rate
    if rate is None or not devices:
        return
    lag = worker.series("lag")
    alarm = Alarm()
    begin = time.monotonic()
    try:
        for number, offset in enumerate(
            arrivals(rate, seconds, worker.share, worker.load.processes)
        ):
            due = begin + offset
            if due > time.monotonic():
                await alarm.wait_until(due)
            lag.append(time.monotonic() - due)
            device = devices[number % len(devices)]
            if device.close_code is None:
                device.say(due)
            else:
                worker.error("offline")
    finally:
        alarm.close()


async def last_turns(devices: Sequence[Echo]) -> None:
    """Let no device begin another turn, and wait for those that are going on, for a while.

    What has not ended then counts as an error: an open loop must not forget what it waits for.
    """
    for device in devices:
        device.closed_loop = False
    deadline = time.monotonic() + LAST_TURNS_SECONDS
    for device in devices:
        while device.pending and time.monotonic() < deadline:  # noqa: ASYNC110 - cheap for turns
            await asyncio.sleep(0.01)
        for _ in range(device.pending):
            device.worker.error("no answer")
