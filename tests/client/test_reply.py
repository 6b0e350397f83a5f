"""Replies are put together to the character."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.client.reply import ReplyCollector
from hermes_mobile.protocol.frames import Accepted, Error, Message, Typing
from hermes_mobile.protocol.slicing import pieces


def collector() -> ReplyCollector:
    """One whose message was accepted."""
    made = ReplyCollector("m1")
    made.take(Accepted("m1"))
    return made


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.integers(1, 20))
def test_pieces_are_joined(texts: list[str], limit: int) -> None:
    """D28: whatever the texts and however they were cut."""
    made = collector()
    for number, text in enumerate(texts):
        cut = pieces(text, limit)
        for index, piece in enumerate(cut):
            final = index == len(cut) - 1
            made.take(Message(f"r{number}", piece, index, len(cut), final=final))
    assert made.reply.messages == tuple(texts)
    assert made.reply.text == "\n".join(texts)


@given(st.text("ab \n", min_size=1, max_size=99))
def test_a_long_stream_is_joined_without_a_seam(words: str) -> None:
    """D29: each of its messages but the last ends at the cut."""
    made, text = collector(), words * (9_000 // len(words))
    for number, piece in enumerate(pieces(text)):
        made.take(Message(f"r{number}", piece[:1], final=False))
        made.take(Message(f"r{number}", piece, edit=True))
    assert made.reply.text == text


def test_an_edit_replaces() -> None:
    """D29: the whole text so far."""
    made = collector()
    made.take(Message("r1", "a", final=False))
    assert not made.answered
    made.take(Message("r1", "ab", final=False, edit=True))
    assert made.reply.text == "ab"
    made.take(Message("r1", "abc", edit=True))
    assert (made.reply.text, made.answered) == ("abc", True)


def test_it_begins_with_the_receipt() -> None:
    """D38: what came before belongs to something else."""
    made = ReplyCollector("m1")
    made.take(Typing())
    made.take(Message("r0", "before"))
    made.take(Accepted("m0"))
    made.take(Message("r0", "before"))
    assert (made.accepted, made.begun, made.reply.messages) == (False, False, ())
    made.take(Accepted("m1"))
    made.take(Typing(stop=True))
    assert not made.begun
    made.take(Typing())
    made.take(Message("r1", "after"))
    assert (made.begun, made.reply.messages) == (True, ("after",))


def test_only_its_own_error_is_its_error() -> None:
    """D25: the one that carries its id."""
    made = collector()
    made.take(Error("internal_error", "another", id="m0"))
    made.take(Error("internal_error", "none"))
    assert made.error is None
    made.take(Error("internal_error", "its own", id="m1"))
    assert made.error is not None
