"""Messages until they are accepted (T1, T9): in order, once each, within bounds."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hermes_mobile.client.errors import OfflineError, RefusedError
from hermes_mobile.client.outbox import MAX_BYTES, MAX_MESSAGES, Outbox, Outgoing
from hermes_mobile.protocol.frames import (
    Accepted,
    Error,
    Ping,
    Pong,
    PromptAnswer,
    Text,
    UserTyping,
)


def message(id: str, size: int = 1) -> Outgoing:
    return Outgoing([Text(id, id)], size, Accepted(id), id)


def connected(*messages: Outgoing, receipts: bool = True) -> Outbox:
    """An outbox of which everything has been written on the first connection."""
    outbox = Outbox()
    outbox.connection_opened(receipts=receipts)
    for each in messages:
        outbox.add(each)
    write_all(outbox)
    return outbox


def write_all(outbox: Outbox) -> list[Outgoing]:
    written = []
    while (each := outbox.begin_next()) is not None:
        written.append(each)
        outbox.written(each)
    return written


def test_a_receipt_ends_the_message() -> None:
    """T9: only the one that it names."""
    first, second = message("m1"), message("m2")
    outbox = connected(first, second)
    outbox.settle(Accepted("m2"))
    assert (first.done, second.done, second.error) == (False, True, None)


def test_what_was_not_accepted_goes_out_again_in_order() -> None:
    """T9: before what was added meanwhile, on the next connection and the one after it."""
    first, second, third = (message(f"m{n}") for n in range(3))
    outbox = connected(first, second)
    outbox.settle(Accepted("m0"))
    outbox.connection_ended()
    outbox.add(third)
    for _ in range(2):
        outbox.connection_opened(receipts=True)
        assert write_all(outbox) == [second, third]
        outbox.connection_ended()


def test_without_receipts_what_is_written_is_done() -> None:
    """T9: an old server confirms nothing, so nothing can be known to be missing."""
    text = message("m1")
    connected(text, receipts=False)
    assert (text.done, text.error) == (True, None)


def test_half_of_a_message_is_none() -> None:
    """T9: what was begun and not finished is sent again whole, receipts or not."""
    outbox, text = Outbox(), message("m1")
    outbox.connection_opened(receipts=False)
    outbox.add(text)
    assert outbox.begin_next() is text
    text.written = 1
    outbox.connection_ended()
    assert (text.done, text.written) == (False, 0)
    assert outbox.begin_next() is text


def test_passing_messages_end_with_the_connection() -> None:
    """T1: nobody wants to know that the person was typing an hour ago; a ping has no pong."""
    typing = Outgoing([UserTyping()], 0, lasting=False)
    ping = Outgoing([Ping(b"1")], 0, Pong(b"1"), lasting=False)
    outbox = connected(ping)
    outbox.add(typing)
    outbox.connection_ended()
    assert isinstance(typing.error, OfflineError)
    assert isinstance(ping.error, OfflineError)
    assert len(outbox) == 0


def test_what_has_no_receipt_is_done_when_written() -> None:
    """`typing` and `ack` are not answered."""
    typing = Outgoing([UserTyping()], 0, lasting=False)
    connected(typing)
    assert (typing.done, typing.error) == (True, None)


def test_a_refusal_goes_to_the_message_that_it_answers() -> None:
    """D25: by its id, and only when it was begun."""
    sent, waiting = message("m1"), message("m2")
    outbox = connected(sent)
    outbox.add(waiting)
    assert outbox.refuse(Error("too_big", "text: too long", id="m1"))
    assert not outbox.refuse(Error("too_big", "text: too long", id="m2"))
    assert not outbox.refuse(Error("internal_error", "something else"))
    assert isinstance(sent.error, RefusedError)
    assert (sent.error.code, sent.error.id) == ("too_big", "m1")
    assert not waiting.done


def test_a_refused_answer_is_known_by_its_kind() -> None:
    """D21: `forbidden` has no id when it answers a `prompt`."""
    text = message("m1")
    answer = Outgoing([PromptAnswer("p1", "once")], 0, Accepted("p1"))
    outbox = connected(text, answer)
    assert outbox.refuse(Error("forbidden", "prompt_id: a card of another device"))
    assert isinstance(answer.error, RefusedError)
    assert not text.done


def test_a_closed_card_is_a_receipt() -> None:
    """T9: a server without receipts says `prompt_done`."""
    answer = Outgoing([PromptAnswer("p1", "once")], 0, Accepted("p1"))
    outbox = connected(answer)
    outbox.card_closed("p1")
    assert (answer.done, answer.error) == (True, None)


def test_only_what_was_not_begun_can_be_withdrawn() -> None:
    """A cancelled call leaves no half of a message: it was not begun, or it is finished."""
    begun, waiting = message("m1"), message("m2")
    outbox = connected(begun)
    outbox.add(waiting)
    outbox.withdraw(begun)
    outbox.withdraw(waiting)
    outbox.withdraw(waiting)
    assert (len(outbox), outbox.size) == (1, 1)


def test_when_there_will_be_no_connection_everything_has_an_error() -> None:
    """T1: each message one of its own."""
    first, second = message("m1"), message("m2")
    outbox = connected(first)
    outbox.add(second)
    outbox.give_up(lambda: OfflineError("it is over"))
    assert first.error is not second.error
    assert [type(each.error) for each in (first, second)] == [OfflineError, OfflineError]
    assert (len(outbox), outbox.size) == (0, 0)


def test_room() -> None:
    """T9: 64 messages and 16 MiB, but one message alone always has room."""
    outbox = Outbox()
    assert outbox.has_room(message("m", MAX_BYTES + 1))
    outbox.add(message("m", MAX_BYTES - 1))
    assert outbox.has_room(message("m"))
    assert not outbox.has_room(message("m", 2))
    for _ in range(MAX_MESSAGES - 1):
        outbox.add(message("m", 0))
    assert not outbox.has_room(message("m", 0))


def test_what_may_be_held() -> None:
    """T1: 64 frames and 16 MiB before the first connection."""
    outbox = Outbox()
    outbox.add(Outgoing([Ping()] * 62, 0))
    assert outbox.may_hold(Outgoing([Ping()] * 2, MAX_BYTES))
    assert not outbox.may_hold(Outgoing([Ping()] * 3, 0))
    assert not outbox.may_hold(Outgoing([Ping()], MAX_BYTES + 1))


class Delivery(RuleBasedStateMachine):
    """T9 as a whole: a server that takes each id once gets every message once, in their order.

    Connections end at any moment, receipts come late or never, people change their minds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox()
        self.messages: list[Outgoing] = []
        self.taken: list[str] = []
        self.receipts: list[str] = []
        self.withdrawn: set[str] = set()
        self.open = False

    @rule(size=st.integers(0, 3))
    def send(self, size: int) -> None:
        each = message(f"m{len(self.messages)}", size)
        self.messages.append(each)
        self.outbox.add(each)

    @precondition(lambda self: not self.open)
    @rule()
    def connect(self) -> None:
        self.open = True
        self.outbox.connection_opened(receipts=True)

    @precondition(lambda self: self.open)
    @rule(arrives=st.booleans())
    def write(self, arrives: bool) -> None:
        each = self.outbox.begin_next()
        if each is None:
            return
        if not arrives:
            self.disconnect()
            return
        self.outbox.written(each)
        self.take(each)

    def take(self, each: Outgoing) -> None:
        """Be the server: take each id once, and confirm it each time."""
        assert each.id is not None
        self.receipts.append(each.id)
        if each.id not in self.taken:
            self.taken.append(each.id)

    @precondition(lambda self: self.open)
    @rule()
    def disconnect(self) -> None:
        self.open = False
        self.receipts.clear()
        self.outbox.connection_ended()

    @precondition(lambda self: self.receipts)
    @rule()
    def acknowledge(self) -> None:
        self.outbox.settle(Accepted(self.receipts.pop(0)))

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.messages))
        before = len(self.outbox)
        self.outbox.withdraw(each)
        if len(self.outbox) < before and each.id is not None:
            self.withdrawn.add(each.id)

    @invariant()
    def nothing_is_lost(self) -> None:
        open_ids = {each.id for each in self.messages if not each.done} - self.withdrawn
        assert len(self.outbox) == len(open_ids)
        assert self.outbox.size == sum(e.size for e in self.messages if e.id in open_ids)
        assert {each.id for each in self.messages if each.done} <= set(self.taken)

    def teardown(self) -> None:
        if self.open:
            self.disconnect()
        self.connect()
        while (each := self.outbox.begin_next()) is not None:
            self.take(each)
        wanted = {each.id for each in self.messages} - self.withdrawn
        assert wanted <= set(self.taken)
        assert sorted(self.taken, key=lambda name: int(name[1:])) == self.taken


TestDelivery = Delivery.TestCase
