"""Events that the app has not taken yet."""

from hermes_mobile.client.events import ReceivedFile
from hermes_mobile.client.inbox import MAX_BYTES, MAX_EVENTS, Inbox
from hermes_mobile.protocol.frames import MediaOut, Message
from hermes_mobile.protocol.limits import MIB


def event(number: int) -> Message:
    return Message(str(number), "")


def file(size: int) -> ReceivedFile:
    return ReceivedFile("f", MediaOut.DOCUMENT, "", "", size, bytes(size))


def test_events_are_taken_in_their_order() -> None:
    """First in, first out."""
    inbox = Inbox()
    inbox.put(event(1))
    inbox.put(event(2))
    assert [inbox.take(), inbox.take(), inbox.take()] == [event(1), event(2), None]


def test_an_app_that_takes_none_keeps_the_newest() -> None:
    """A script that only sends must not stop for events that it does not want."""
    inbox = Inbox()
    for number in range(MAX_EVENTS + 10):
        inbox.put(event(number))
        assert not inbox.full
    assert len(inbox) == MAX_EVENTS
    assert inbox.take() == event(10)


def test_files_that_nobody_takes_are_bounded_too() -> None:
    """The newest 32 MiB are kept, and the newest event in any case."""
    inbox = Inbox()
    for _ in range(5):
        inbox.put(file(8 * MIB))
    assert len(inbox) == 4
    inbox.put(file(MAX_BYTES + 1))
    assert len(inbox) == 1


def test_an_app_that_is_behind_loses_nothing() -> None:
    """Once it has begun to take events, a full inbox says so instead of dropping any."""
    inbox = Inbox()
    assert inbox.take() is None
    for number in range(MAX_EVENTS):
        assert not inbox.full
        inbox.put(event(number))
    assert inbox.full
    inbox.put(event(MAX_EVENTS))
    assert len(inbox) == MAX_EVENTS + 1
    assert [inbox.take() for _ in range(2)] == [event(0), event(1)]
    assert not inbox.full
