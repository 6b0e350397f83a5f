"""What the app was given is not given again (T8)."""

from attrs import evolve

from hermes_mobile.client.repeats import Once, ShownMessages
from hermes_mobile.protocol.frames import Message


def test_an_id_counts_once() -> None:
    """T8: of files and cards, only the id matters."""
    once = Once()
    assert once.add("f1")
    assert not once.add("f1")
    assert "f1" in once
    assert "f2" not in once


def test_256_ids_are_remembered() -> None:
    """T8: the oldest goes first, and one that came again is not the oldest any more."""
    once = Once()
    for number in range(256):
        once.add(str(number))
    once.add("0")
    once.add("256")
    assert "0" in once
    assert "1" not in once


def test_the_pieces_of_a_message_are_apart() -> None:
    """T8: the same text may come as several pieces."""
    shown = ShownMessages()
    first, second = Message("r1", "a", 0, 2, final=False), Message("r1", "a", 1, 2)
    assert shown.show(first) == first
    assert shown.show(second) == second
    assert shown.show(second) is None


def test_a_message_comes_again_after_a_reconnection() -> None:
    """T8, D32: what was not confirmed is told again; a piece that is new is shown."""
    shown = ShownMessages()
    pieces = [Message("r1", text, index, 2, final=index == 1) for index, text in enumerate("ab")]
    shown.show(pieces[0])
    shown.connection_ended()
    assert [shown.show(piece) for piece in pieces] == [None, pieces[1]]


def test_states_of_a_stream_are_each_shown() -> None:
    """T8: by text and `edit`; the final state even when it says nothing new."""
    shown = ShownMessages()
    first = Message("r1", "a", final=False)
    states = [
        first,
        evolve(first, text="ab", edit=True),
        evolve(first, text="ab", edit=True, final=True),
    ]
    assert [shown.show(state) for state in states] == states
    assert shown.show(states[-1]) is None


def test_a_stream_that_begins_anew_goes_on_as_an_edit() -> None:
    """T8, D29: the server cannot know what was shown, and begins without `edit`."""
    shown = ShownMessages()
    shown.show(Message("r1", "a", final=False))
    shown.connection_ended()
    assert shown.show(Message("r1", "ab", final=False)) == Message(
        "r1", "ab", final=False, edit=True
    )
    assert shown.show(Message("r1", "abc", edit=True)) == Message("r1", "abc", edit=True)


def test_an_edit_of_an_unknown_id_is_passed_on() -> None:
    """T8: the app shows it as new."""
    edit = Message("r1", "ab", edit=True)
    assert ShownMessages().show(edit) == edit
