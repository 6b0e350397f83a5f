"""The fake turn does what a server's turn does, as far as an agent can tell."""

import inspect
from pathlib import Path

import pytest
import trio.testing

from hermes_mobile.agents import (
    Answer,
    Conversation,
    FileInput,
    OutgoingFile,
    ReplyStream,
    Turn,
    TurnError,
    User,
)
from hermes_mobile.protocol.frames import CardKind, MediaIn, MediaOut
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES
from hermes_mobile.testing import (
    Asked,
    FakeStream,
    FakeTurn,
    Said,
    Sent,
    ShowedWorking,
    Streamed,
)

IMAGE = OutgoingFile(MediaOut.IMAGE, b"\x89PNG", "a.png")


def members(protocol: type) -> dict[str, object]:
    """Return the public members that the methods of `protocol` and its parents declare."""
    return {
        name: member
        for parent in protocol.__mro__
        for name, member in vars(parent).items()
        if not name.startswith("_")
    }


def test_the_fake_turn_is_a_turn() -> None:
    """It can stand where a turn or a conversation is wanted (mypy), with every member of them."""
    turn: Turn = FakeTurn("hello")
    conversation: Conversation = turn
    assert [name for name in members(Turn) if not hasattr(conversation, name)] == []


@pytest.mark.parametrize(("protocol", "fake"), [(Turn, FakeTurn), (ReplyStream, FakeStream)])
def test_the_methods_take_the_same_arguments(protocol: type, fake: type) -> None:
    """Names, kinds, defaults and annotations of all parameters are those of the port."""
    for name, member in members(protocol).items():
        if inspect.isfunction(member):
            ours = inspect.signature(getattr(fake, name)).parameters
            assert ours == inspect.signature(member).parameters, name


@pytest.mark.slow
def test_this_file_is_typed() -> None:
    """The type checker agrees, strictly, that a fake turn is a turn."""
    api = pytest.importorskip("mypy.api")
    output, _, status = api.run(["--strict", str(Path(__file__))])
    assert status == 0, output


async def test_everything_said_is_recorded_in_order() -> None:
    """Replies, files, streams and signs of work stand in the order in which they began."""
    turn = FakeTurn("hello")
    await turn.reply("one")
    async with turn.stream() as stream:
        await stream.update("two")
        await turn.send_file(IMAGE)
        await stream.append(" and a half")
        await stream.update("three")
    await turn.show_working()
    await turn.reply("four")
    assert turn.said == [
        Said("one"),
        Streamed(("two", "two and a half", "three")),
        Sent(IMAGE),
        ShowedWorking(),
        Said("four"),
    ]


async def test_every_message_has_an_id_of_its_own() -> None:
    """What a method returns is the id of its record."""
    turn = FakeTurn("hello")
    ids = [await turn.reply("one"), await turn.send_file(IMAGE), await turn.reply("one")]
    assert [getattr(record, "id", None) for record in turn.said] == ids
    assert len(set(ids)) == 3


async def test_a_stream_that_showed_nothing_said_nothing() -> None:
    """Opening a stream is not yet a message."""
    turn = FakeTurn("hello")
    async with turn.stream():
        pass
    assert turn.said == []


async def test_a_stream_keeps_what_it_showed_when_its_body_fails() -> None:
    """The last state stands, and the exception goes on."""
    turn = FakeTurn("hello")

    async def fail_midway() -> None:
        async with turn.stream() as stream:
            await stream.append("so far")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail_midway()
    assert turn.said == [Streamed(("so far",))]


async def test_cards_take_the_answers_one_after_the_other() -> None:
    """Each card is recorded with what it offers and gets the next answer of the script."""
    turn = FakeTurn("hello", answers=[Answer("once"), Answer("cancel"), Answer("c1", "B")])
    answers = [
        await turn.ask_approval("ls", "lists", ttl=5),
        await turn.ask_confirmation("Sure?", options=("once", "cancel")),
        await turn.ask("Which?", ["A", "B"]),
    ]
    assert answers == [Answer("once"), Answer("cancel"), Answer("c1", "B")]
    assert turn.said == [
        Asked(CardKind.EXEC_APPROVAL, "ls", ("once", "session", "always", "deny"), "lists", 5),
        Asked(CardKind.SLASH_CONFIRM, "Sure?", ("once", "cancel")),
        Asked(CardKind.CLARIFY, "Which?", ("A", "B")),
    ]


async def test_a_card_without_an_answer_expires_safely() -> None:
    """The script's end is a person who does not look (D23)."""
    turn = FakeTurn("hello")
    assert await turn.ask_approval("ls") == Answer("deny", expired=True)
    assert await turn.ask_confirmation("Sure?") == Answer("cancel", expired=True)
    assert await turn.ask("Which?") == Answer("", expired=True)


async def test_an_answer_that_the_card_does_not_offer_is_a_mistake_of_the_test() -> None:
    """The message names the option and what there is."""
    turn = FakeTurn("hello", answers=[Answer("always"), Answer("c2")])
    with pytest.raises(AssertionError, match="the card offers once, deny, not 'always'"):
        await turn.ask_approval("ls", options=("once", "deny"))
    with pytest.raises(AssertionError, match="the card offers c0, c1, other, not 'c2'"):
        await turn.ask("Which?", ["A", "B"])


async def test_what_the_server_refuses_is_refused() -> None:
    """An empty reply, a file of nothing, a file beyond 8 MiB: TurnError, and nothing is said."""
    turn = FakeTurn("hello")
    with pytest.raises(TurnError):
        await turn.reply("")
    with pytest.raises(TurnError):
        await turn.send_file(OutgoingFile(MediaOut.IMAGE))
    with pytest.raises(TurnError, match="8 MiB"):
        await turn.send_file(OutgoingFile(MediaOut.DOCUMENT, bytes(MAX_MEDIA_BYTES + 1)))
    assert turn.said == []


async def test_a_card_that_cannot_be_shown_is_refused() -> None:
    """No words, an unknown option, an empty choice: TurnError with the reason, and no card."""
    turn = FakeTurn("hello")
    with pytest.raises(TurnError, match="command"):
        await turn.ask_approval("")
    with pytest.raises(TurnError, match="no option 'maybe'"):
        await turn.ask_confirmation("Sure?", options=("maybe",))
    with pytest.raises(TurnError, match="choice"):
        await turn.ask("Which?", ["A", ""])
    assert turn.said == []


async def test_the_safe_option_is_always_offered() -> None:
    """A card that leaves it out shows it all the same, as in the server (D21)."""
    turn = FakeTurn("hello", answers=[Answer("deny")])
    await turn.ask_approval("ls", options=["once"])
    assert turn.said == [Asked(CardKind.EXEC_APPROVAL, "ls", ("once", "deny"))]


async def test_a_url_makes_up_for_size() -> None:
    """A file that the app fetches itself may be of any size (D31)."""
    turn = FakeTurn("hello")
    await turn.send_file(OutgoingFile(MediaOut.DOCUMENT, url="https://example.com/a"))
    assert len(turn.said) == 1


async def test_every_method_is_a_checkpoint() -> None:
    """So a cancelled agent ends here where it ends in the server."""
    turn = FakeTurn("hello", answers=[Answer("once"), Answer("once"), Answer("other", "words")])
    async with turn.stream() as stream:
        for call in (
            lambda: turn.reply("text"),
            lambda: turn.send_file(IMAGE),
            lambda: turn.ask_approval("ls"),
            lambda: turn.ask_confirmation("Sure?"),
            lambda: turn.ask("Which?"),
            turn.show_working,
            lambda: stream.update("text"),
            lambda: stream.append("text"),
        ):
            with trio.testing.assert_checkpoints():
                await call()


def test_the_turn_is_from_whom_the_test_says() -> None:
    """Input, device and person are the constructor's; a text stands for a whole input."""
    photo = FileInput("f1", MediaIn.IMAGE, "image/png", b"\x89PNG")
    turn = FakeTurn(photo, device_id="tel-1", user=User("u-1", "Ann"))
    assert turn.input is photo
    assert (turn.device_id, turn.session, turn.user.name) == ("tel-1", "mobile:tel-1", "Ann")
