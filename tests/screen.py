"""An app as its person sees it, over many connections; it checks each frame against what came before."""

from __future__ import annotations

import base64
from typing import Any

import trio
from attrs import define, field

from house import Peer


@define
class Line:
    """One connection, as the app sees it, and what is known of the server's end."""

    peer: Peer
    connection: Any
    reads: float = 0
    """How many more WebSocket events the app looks at; what it does not look at, it does not answer."""
    paused: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)
    finished: dict[str, float] = field(factory=dict)
    """Units that are whole, and when."""
    receiving: tuple[str, int] | None = None
    """The message or file of which more parts must follow at once, and the next part."""
    received: Any = ""
    """What there is of it."""
    notice: int = 0
    """The count in the notice that came, until it is confirmed."""

    def __attrs_post_init__(self) -> None:
        next_event = self.peer.next_event

        async def paced_event() -> Any:
            event = await next_event()
            while not self.reads:
                await self.paused.park()
            self.reads -= 1
            return event

        self.peer.next_event = paced_event  # type: ignore[method-assign]

    def read(self, events: float) -> None:
        self.reads = events
        self.paused.unpark_all()


@define
class App:
    """What the person has on the screen, over all connections."""

    shown: dict[str, str | bytes] = field(factory=dict)
    """Messages and files by id, in the order in which they first appeared; empty until whole."""
    whole: set[str] = field(factory=set)
    confirmed: set[str] = field(factory=set)
    cards: dict[str, str] = field(factory=dict)
    ended: set[str] = field(factory=set)
    told: int = 0
    """How many units the app knows were dropped."""

    def take(self, frame: dict[str, Any], line: Line) -> None:
        match frame["t"]:
            case "message" | "media":
                self._take_part(frame, line)
            case "prompt":
                self.cards[frame["id"]] = frame["text"]
                assert frame["id"] not in self.ended, "a card comes back after its end"
            case "prompt_done":
                self.ended.add(frame["id"])
                self._finish(f"end of {frame['id']}", line)
            case "error" if not frame["fatal"]:
                assert not line.notice, "more than one notice on a connection"
                assert frame["code"] == "internal_error"
                line.notice = int(frame["message"].split()[0])

    def _take_part(self, frame: dict[str, Any], line: Line) -> None:
        unit = frame["id"]
        part = frame["part"] if "part" in frame else frame["chunk"]["index"]
        parts = frame["parts"] if "part" in frame else frame["chunk"]["total"]
        content = base64.b64decode(frame["data"]) if "part" in frame else frame["text"]
        assert unit not in line.finished, "something follows the final frame (D29)"
        assert unit not in self.confirmed, "what was confirmed comes again (D32)"
        assert line.receiving in {None, (unit, part)}, "parts are not consecutive (D28)"
        assert part == 0 or line.receiving, "a unit does not begin with its first part (D32)"
        if frame.get("edit"):
            assert unit in self.shown, "an edit of what was never seen (D29)"
        line.received = content if part == 0 else line.received + content
        line.receiving = (unit, part + 1) if part + 1 < parts else None
        self.shown.setdefault(unit, "")
        if frame["final"]:
            assert line.receiving is None
            self.shown[unit] = line.received
            self._finish(unit, line)

    def _finish(self, unit: str, line: Line) -> None:
        line.finished[unit] = trio.current_time()
        self.whole.add(unit)

    @property
    def open_cards(self) -> list[str]:
        return [unit for unit in self.cards if unit not in self.ended]
