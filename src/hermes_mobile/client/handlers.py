"""Callbacks, for those who prefer them to `match`: they are given the same events, in the same order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar, assert_never

from attrs import asdict, frozen

from hermes_mobile.client.events import Event, ReceivedFile, StateChanged
from hermes_mobile.protocol.app_codec import Ready
from hermes_mobile.protocol.frames import (
    Avatar,
    AvatarState,
    Delivered,
    Error,
    Message,
    PromptCard,
    PromptDone,
    Typing,
)

Argument = TypeVar("Argument")
On: TypeAlias = Callable[[Argument], Awaitable[None] | None] | None


@frozen
class Handlers:
    """Each is optional, and a function or an async one: the next event waits until it is done.

    An async one may use the client. An exception of one is not caught: it ends the client's block.
    """

    on_state: On[StateChanged] = None
    on_ready: On[Ready] = None
    on_message: On[Message] = None
    """A piece of a reply; pieces with one `id` are one message."""
    on_message_edit: On[Message] = None
    """The whole text so far of a message; of an unknown `id`, show it as new."""
    on_typing: Callable[[], Awaitable[None] | None] | None = None
    on_typing_stop: Callable[[], Awaitable[None] | None] | None = None
    on_avatar: On[AvatarState] = None
    on_prompt: On[PromptCard] = None
    on_prompt_done: On[PromptDone] = None
    on_media: On[ReceivedFile] = None
    on_error: On[Error] = None
    on_delivered: On[Delivered] = None

    def merged(self, newer: Handlers) -> Handlers:
        """These, with those that `newer` has in addition to them or in their place."""
        mine, theirs = (asdict(each, recurse=False) for each in (self, newer))
        return Handlers(**mine | {name: on for name, on in theirs.items() if on is not None})

    async def handle(self, event: Event) -> None:
        """Call what is there for `event`."""
        result = self._call(event)
        if result is not None:
            await result

    def _call(self, event: Event) -> Awaitable[None] | None:  # noqa: C901, PLR0912 - one case per event
        match event:
            case Message(edit=True):
                return self.on_message_edit and self.on_message_edit(event)
            case Message():
                return self.on_message and self.on_message(event)
            case Typing(stop=True):
                return self.on_typing_stop and self.on_typing_stop()
            case Typing():
                return self.on_typing and self.on_typing()
            case Avatar(state):
                return self.on_avatar and self.on_avatar(state)
            case PromptCard():
                return self.on_prompt and self.on_prompt(event)
            case PromptDone():
                return self.on_prompt_done and self.on_prompt_done(event)
            case ReceivedFile():
                return self.on_media and self.on_media(event)
            case Error():
                return self.on_error and self.on_error(event)
            case StateChanged():
                return self.on_state and self.on_state(event)
            case Ready():
                return self.on_ready and self.on_ready(event)
            case Delivered():
                return self.on_delivered and self.on_delivered(event)
            case _:
                assert_never(event)
