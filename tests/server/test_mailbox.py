"""The mailbox by itself: its books, its bounds, and what a pong confirms (D32)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_mobile.server.mailbox import Mailbox
from hermes_mobile.server.units import MessageUnit, NoticeUnit, StreamUnit, text_size

if TYPE_CHECKING:
    from hermes_mobile.server.units import Unit


def message(text: str = "", made_at: float = 0.0) -> MessageUnit:
    return MessageUnit("m", made_at, text)


def filled(*units: Unit, max_units: int = 10, max_bytes: int = 10_000) -> Mailbox:
    mailbox = Mailbox(max_units, max_bytes, max_age=100.0)
    for unit in units:
        mailbox.add(unit)
    return mailbox


@pytest.mark.parametrize(
    ("units", "size", "fits"),
    [
        (0, 10_001, True),
        (1, 10_000 - text_size(""), True),
        (1, 10_001 - text_size(""), False),
        (9, 0, True),
        (10, 0, False),
    ],
)
def test_room_is_counted_in_units_and_bytes(units: int, size: int, fits: bool) -> None:
    """D32: up to the bound and not beyond; an empty mailbox takes any unit."""
    assert filled(*(message() for _ in range(units))).has_room(size) is fits


def test_confirmed_streams_keep_nobody_waiting() -> None:
    """D33: where all that is left was confirmed and only grows, there is room."""
    stream = StreamUnit("s", 0.0)
    mailbox = filled(stream, max_units=1)
    assert not mailbox.has_room(0)
    stream.mark_written(1)
    mailbox.confirm(1)
    assert stream in mailbox
    assert mailbox.has_room(0)


@pytest.mark.parametrize(
    ("units", "size", "pressing"), [(4, 0, False), (5, 0, True), (1, 5_000, True)]
)
def test_half_of_it_is_pressing(units: int, size: int, pressing: bool) -> None:
    """D32: half the units, or half the bytes."""
    texts = ["x" * (size // 4), *[""] * (units - 1)]
    assert filled(*map(message, texts)).pressing is pressing


def test_a_pong_confirms_what_its_ping_followed() -> None:
    """D32: units written before the ping, and no others; they come back in their order."""
    first, second, third, unwritten = (message() for _ in range(4))
    mailbox = filled(first, second, third, unwritten)
    first.mark_written(1)
    second.mark_written(2)
    third.mark_written(3)
    assert mailbox.confirm(2) == [first, second]
    assert list(mailbox) == [third, unwritten]


def test_a_newer_state_is_not_confirmed_with_an_older_one() -> None:
    """D29, D32: the pong for the state before says nothing of the one that waits."""
    stream = StreamUnit("s", 0.0)
    mailbox = filled(stream)
    stream.mark_written(1)
    mailbox.update(stream, "newer", final=True)
    assert mailbox.confirm(1) == []
    stream.mark_written(2)
    assert mailbox.confirm(2) == [stream]


def test_a_state_that_waits_is_not_confirmed_with_the_one_that_was_written() -> None:
    """D29, D32: a final state that came while the one before was being written is still owed."""
    stream = StreamUnit("s", 0.0)
    mailbox = filled(stream)
    mailbox.update(stream, "newer", final=True)
    stream.queued = True
    stream.mark_written(1)  # of the older state
    assert mailbox.confirm(1) == []
    assert stream.outstanding


def test_a_state_that_is_being_written_is_not_confirmed_with_the_one_before() -> None:
    """D29, D32: its predecessor's pong may come while it is on its way."""
    stream = StreamUnit("s", 0.0)
    mailbox = filled(stream)
    mailbox.update(stream, "newer", final=True)
    stream.queued = True
    stream.mark_written(1)  # of the older state
    stream.take_up()
    assert mailbox.confirm(1) == []
    assert stream.outstanding


def test_the_oldest_are_dropped_until_the_bounds_are_kept() -> None:
    """D32: by units here; what grows stays, and so does a notice."""
    notice, stream = NoticeUnit(0.0, 1), StreamUnit("s", 0.0)
    units = [message() for _ in range(4)]
    mailbox = filled(notice, units[0], stream, *units[1:], max_units=4)
    assert mailbox.drop_beyond_bounds() == 2
    assert list(mailbox) == [notice, stream, *units[2:]]


def test_what_is_too_old_is_dropped_whatever_its_place() -> None:
    """D32: age counts from when a unit was made, not from its place."""
    young, old = message(made_at=50.0), message(made_at=0.0)
    mailbox = filled(young, old)
    assert mailbox.drop_expired(99.9) == 0
    assert mailbox.drop_expired(100.0) == 1
    assert list(mailbox) == [young]


def test_the_next_expiry_is_the_earliest() -> None:
    """D32: the janitor's moment, whatever the order; nothing that stays has one."""
    assert filled(StreamUnit("s", 0.0)).next_expiry() is None
    assert filled(message(made_at=50.0), message(made_at=7.0)).next_expiry() == 107.0


class MailboxBooks(RuleBasedStateMachine):
    """Whatever is done to a mailbox, its bytes are those of its units, and no unit is lost unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.mailbox = Mailbox(5, 2_000, max_age=10.0)
        self.now = 0.0
        self.ping = 0
        self.owed = 0
        self.streams: list[StreamUnit] = []

    @rule(chars=st.integers(0, 300))
    def say(self, chars: int) -> None:
        self.mailbox.add(MessageUnit("m", self.now, "x" * chars))
        self.owed += 1

    @rule()
    def open_stream(self) -> None:
        self.streams.append(StreamUnit("s", self.now))
        self.mailbox.update(self.streams[-1], "", final=False)
        self.owed += 1

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), chars=st.integers(0, 300), final=st.booleans())
    def grow(self, data: st.DataObject, chars: int, final: bool) -> None:
        stream = data.draw(st.sampled_from(self.streams))
        self.mailbox.update(stream, "x" * chars, final=final)
        if final:
            self.streams.remove(stream)

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        for unit in self.mailbox:
            if data.draw(st.booleans()):
                unit.mark_written(self.ping + 1)

    @rule()
    def confirm(self) -> None:
        self.ping += 1
        self.owed -= len(self.mailbox.confirm(self.ping))

    @rule(seconds=st.floats(0, 8))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.owed -= self.mailbox.drop_expired(self.now)
        expiry = self.mailbox.next_expiry()
        assert expiry is None or expiry > self.now

    @rule()
    def keep_bounds(self) -> None:
        self.owed -= self.mailbox.drop_beyond_bounds()
        growing = sum(not unit.may_be_dropped for unit in self.mailbox)
        assert len(self.mailbox) <= max(5, growing)

    @rule()
    def drop_all(self) -> None:
        self.owed -= self.mailbox.drop_all()

    @invariant()
    def books_are_right(self) -> None:
        assert self.mailbox.bytes == sum(unit.size for unit in self.mailbox)
        assert len(self.mailbox) == self.owed
        assert all(stream in self.mailbox for stream in self.streams)


TestMailboxBooks = MailboxBooks.TestCase
