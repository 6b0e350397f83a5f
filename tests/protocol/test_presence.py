"""What the avatar shows, and when it falls back (D24, D30)."""

from collections.abc import Callable
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.frames import Avatar, AvatarState, Typing
from hermes_mobile.protocol.presence import Presence, PresenceFrames

IDLE = Avatar(AvatarState.IDLE)
THINKING = Avatar(AvatarState.THINKING)
SPEAKING = Avatar(AvatarState.SPEAKING)
START = Typing()
STOP = Typing(stop=True)


def test_a_typical_turn() -> None:
    """Thinking and typing, speaking after the message, typing's end, idle 3 s later (D30)."""
    presence = Presence(idle_after=3.0)
    assert presence.turn_started(10.0) == (THINKING, START)
    assert presence.working
    assert presence.deadline == inf
    assert presence.spoke(11.0) == (SPEAKING,)
    assert presence.turn_ended(11.5) == (STOP,)
    assert not presence.working
    assert presence.deadline == 14.5
    assert presence.expire(14.4) == ()
    assert presence.expire(14.5) == (IDLE,)
    assert presence.deadline == inf
    assert presence.expire(20.0) == ()


def test_silent_turn_falls_back_too() -> None:
    """A turn that says nothing goes from thinking to idle, 3 s after its end (D30)."""
    presence = Presence(idle_after=3.0)
    presence.turn_started(0.0)
    assert presence.expire(100.0) == ()
    assert presence.turn_ended(100.0) == (STOP,)
    assert presence.expire(103.0) == (IDLE,)


def test_silence_inside_a_turn_shows_thinking_again() -> None:
    """Each message moves the silence's end; after it the avatar thinks, until it speaks (D30)."""
    presence = Presence(idle_after=3.0)
    presence.turn_started(0.0)
    assert presence.spoke(1.0) == (SPEAKING,)
    assert presence.spoke(3.0) == ()
    assert presence.expire(5.9) == ()
    assert presence.expire(6.0) == (THINKING,)
    assert presence.deadline == inf
    assert presence.spoke(7.0) == (SPEAKING,)


def test_message_between_turns() -> None:
    """What an agent says on its own shows speaking, then idle 3 s after it (D30)."""
    presence = Presence(idle_after=3.0)
    assert presence.spoke(1.0) == (SPEAKING,)
    assert presence.expire(4.0) == (IDLE,)


def test_concurrent_turns_end_together() -> None:
    """Typing stops, and the idle timer starts, when the last one ends (D30)."""
    presence = Presence(idle_after=3.0)
    assert presence.turn_started(0.0) == (THINKING, START)
    assert presence.turn_started(1.0) == (START,)
    presence.spoke(2.0)
    assert presence.turn_ended(2.5) == ()
    assert presence.deadline == 5.0
    assert presence.turn_ended(4.0) == (STOP,)
    assert presence.deadline == 7.0


def test_user_typing_keeps_the_avatar_awake() -> None:
    """Typing re-arms the idle timer between turns, and changes no state (D24)."""
    presence = Presence(idle_after=3.0)
    presence.turn_started(0.0)
    presence.turn_ended(0.0)
    assert presence.user_typed(2.9) == ()
    assert presence.deadline == 5.9
    assert presence.expire(5.9) == (IDLE,)


def test_user_typing_wakes_nobody() -> None:
    """Neither an idle avatar nor one whose time is over is kept by typing (D24)."""
    presence = Presence(idle_after=3.0)
    assert presence.user_typed(0.0) == ()
    assert presence.deadline == inf
    presence.spoke(1.0)
    assert presence.user_typed(4.0) == (IDLE,)
    assert presence.deadline == inf


def test_user_typing_inside_a_turn_changes_nothing() -> None:
    """Inside a turn the timer measures the agent's silence, not the person's (D24)."""
    presence = Presence(idle_after=3.0)
    presence.turn_started(0.0)
    assert presence.user_typed(1.0) == ()
    assert presence.deadline == inf
    presence.spoke(2.0)
    assert presence.user_typed(4.0) == ()
    assert presence.deadline == 5.0


def test_agent_shows_that_it_works() -> None:
    """After a silence an agent may say again that it works; outside a turn it may not (D30)."""
    presence = Presence(idle_after=3.0)
    assert presence.show_working(0.0) == ()
    presence.turn_started(0.0)
    presence.spoke(1.0)
    assert presence.show_working(2.0) == (THINKING, START)
    assert presence.deadline == inf
    assert presence.show_working(3.0) == (START,)


def test_new_connection_is_told_what_holds_now() -> None:
    """Avatar unless idle, typing while a turn runs, and no state whose time is over (D13)."""
    presence = Presence(idle_after=3.0)
    assert presence.current(0.0) == ()
    presence.turn_started(0.0)
    assert presence.current(1.0) == (THINKING, START)
    presence.spoke(2.0)
    assert presence.current(4.9) == (SPEAKING, START)
    assert presence.current(5.0) == (THINKING, START)
    presence.turn_ended(6.0)
    assert presence.current(8.9) == (THINKING,)
    assert presence.current(9.0) == ()


METHODS = (
    Presence.turn_started,
    Presence.turn_ended,
    Presence.show_working,
    Presence.spoke,
    Presence.user_typed,
    Presence.expire,
    Presence.current,
)


@given(st.lists(st.tuples(st.sampled_from(METHODS), st.sampled_from([0.0, 0.5, 1.0, 3.0]))))
def test_app_knows_the_state_from_the_frames(
    steps: list[tuple[Callable[[Presence, float], PresenceFrames], float]],
) -> None:
    """No avatar frame repeats, typing goes with turns, only a state at rest has no timer (D30)."""
    presence = Presence(idle_after=3.0)
    shown, typing, now = AvatarState.IDLE, False, 0.0
    for method, pause in steps:
        if method is Presence.turn_ended and not presence.working:
            continue
        if method is Presence.current:
            shown, typing = AvatarState.IDLE, False
        now += pause
        for frame in method(presence, now):
            if isinstance(frame, Avatar):
                assert frame.state is not shown
                shown = frame.state
            else:
                typing = not frame.stop
        assert shown is presence.state
        assert typing is presence.working
        rest = AvatarState.THINKING if presence.working else AvatarState.IDLE
        assert (presence.deadline == inf) is (shown is rest)
        assert presence.deadline == inf or presence.deadline <= now + 3.0
