"""What the avatar shows, and when it falls back (D24, D30)."""

from math import inf
from typing import Final, TypeAlias

from hermes_mobile.protocol.frames import Avatar, AvatarState, Typing

PresenceFrames: TypeAlias = tuple[Avatar | Typing, ...]

# Said in every turn, so made once.
AVATARS: Final = {state: (Avatar(state),) for state in AvatarState}
WORKING: Final = (Typing(),)
DONE: Final = (Typing(stop=True),)


class Presence:
    """The avatar of one session. Its methods return the frames to send: an avatar on a change only.

    `deadline` is the moment at which `expire` has something to do, infinite when there is none: the
    caller's one timer runs to it, and need not run while no device is connected.
    """

    def __init__(self, idle_after: float) -> None:
        self.state = AvatarState.IDLE
        self.deadline = inf
        self.idle_after = idle_after
        """Seconds from now on: a deadline that runs is not moved."""
        self._turns = 0

    @property
    def working(self) -> bool:
        """Whether a turn runs."""
        return self._turns > 0

    def turn_started(self, now: float) -> PresenceFrames:
        self._turns += 1
        return self.show_working(now)

    def show_working(self, now: float) -> PresenceFrames:  # noqa: ARG002 - as all the others
        """Show that work goes on; outside a turn there is none."""
        if not self.working:
            return ()
        self.deadline = inf
        return self._show(AvatarState.THINKING) + WORKING

    def spoke(self, now: float) -> PresenceFrames:
        """A message or a file is complete, or a streamed reply has grown: call it after each."""
        self.deadline = now + self.idle_after
        return self._show(AvatarState.SPEAKING)

    def turn_ended(self, now: float) -> PresenceFrames:
        """A turn is over, on whatever path. Only the last of concurrent ones stops the typing."""
        self._turns -= 1
        if self.working:
            return ()
        self.deadline = now + self.idle_after
        return DONE

    def user_typed(self, now: float) -> PresenceFrames:
        """The person types: an avatar that is about to become idle waits (D24)."""
        frames = self.expire(now)
        if not self.working and self.state is not AvatarState.IDLE:
            self.deadline = now + self.idle_after
        return frames

    def expire(self, now: float) -> PresenceFrames:
        """Fall back, once the deadline is reached: to thinking inside a turn, else to idle."""
        if now < self.deadline:
            return ()
        self.deadline = inf
        return self._show(AvatarState.THINKING if self.working else AvatarState.IDLE)

    def current(self, now: float) -> PresenceFrames:
        """What a new connection needs to be told (D13)."""
        self.expire(now)
        avatar = () if self.state is AvatarState.IDLE else AVATARS[self.state]
        return avatar + WORKING if self.working else avatar

    def _show(self, state: AvatarState) -> PresenceFrames:
        if state is self.state:
            return ()
        self.state = state
        return AVATARS[state]
