"""What the app was given, to know it when it comes again (T8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from attrs import evolve, frozen

if TYPE_CHECKING:
    from hermes_mobile.protocol.frames import Message

REMEMBERED_IDS: Final = 256

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values by id, of the 256 ids that came last."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._values

    def get(self, id: str) -> Value | None:
        return self._values.get(id)

    def put(self, id: str, value: Value) -> None:
        self._values.pop(id, None)
        self._values[id] = value
        if len(self._values) > REMEMBERED_IDS:
            del self._values[next(iter(self._values))]


class Once:
    """Ids, each of which counts once."""

    def __init__(self) -> None:
        self._ids: Recent[None] = Recent()

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def add(self, id: str) -> bool:
        """Take note of `id`; whether it is new."""
        is_new = id not in self._ids
        self._ids.put(id, None)
        return is_new


@frozen
class _Shown:
    message: Message
    connection: int


class ShownMessages:
    """The newest state of every piece that the app was given."""

    def __init__(self) -> None:
        self._pieces: Recent[dict[int, _Shown]] = Recent()
        self._connection = 0

    def connection_ended(self) -> None:
        """What the server does not know to have arrived, it tells again from here on (D32)."""
        self._connection += 1

    def show(self, message: Message) -> Message | None:
        """The message as the app is to get it; None for a repeat."""
        pieces = self._pieces.get(message.id) or {}
        before = pieces.get(message.index)
        pieces[message.index] = _Shown(message, self._connection)
        self._pieces.put(message.id, pieces)
        if before is None:
            return message
        # A server that cannot know what was shown begins a stream anew, without `edit` (D29).
        begins_anew = before.connection != self._connection and not message.edit
        known = before.message
        unchanged = (known.text, known.final) == (message.text, message.final)
        if unchanged and (begins_anew or known.edit == message.edit):
            return None
        return evolve(message, edit=True) if begins_anew else message
