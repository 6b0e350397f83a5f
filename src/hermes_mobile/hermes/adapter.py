"""The platform `mobile` of Hermes' gateway: what it does when Hermes speaks, and when a person does."""

from __future__ import annotations

import asyncio
import logging
import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from gateway.config import Platform
from gateway.platforms.base import BasePlatformAdapter, MessageEvent, MessageType, SendResult
from gateway.session import build_session_key

from . import targets
from .cards import Cards
from .events import UnreadableError, make_event
from .files import FileRefusedError, read_file
from .link import Address, Link
from .speech import Speech, hush, hushed
from .turns import Turn, Turns

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from .link import Message

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
"""Seconds that Hermes' start waits for the server; after that it goes on dialling by itself."""
STARTED_PAUSE = 0.1
"""Seconds between two looks at whether Hermes has started."""

Result = TypeVar("Result")


class MobileAdapter(BasePlatformAdapter):
    """Speaks the agent link for Hermes. A chat is a device; see `targets` for its id.

    A message of a person is a turn until Hermes is done with it. What Hermes says meanwhile belongs to
    the turn, and what it says at other times to the device alone. Everything runs on the gateway's
    loop; Hermes' tools may send from a loop of their own.
    """

    MAX_MESSAGE_LENGTH = 100_000
    splits_long_messages = True
    supports_code_blocks = True
    REQUIRES_EDIT_FINALIZE = True

    def __init__(self, config: Any) -> None:
        super().__init__(config=config, platform=Platform("mobile"))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._intake: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._stops: dict[str, asyncio.Task[None]] = {}
        """The devices for which Hermes is being told to stop."""
        self._names: dict[str, str] = {}

    @property
    def authorization_is_upstream(self) -> bool:
        """The server knows every device by its token."""
        return True

    # The link

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        try:
            address = Address.of(os.environ)
        except ValueError as error:
            self._set_fatal_error("mobile_config", str(error), retryable=False)
            return False
        self._loop = asyncio.get_running_loop()
        hello = {
            "token": address.token,
            "name": "hermes",
            "version": _version(),
            "mode": "concurrent",
        }
        self._turns = Turns()
        self._link = Link(address, hello, self._on_ready, self._on_message)
        self._speech = Speech(self._link, self._turns)
        self._cards = Cards(self._link, self._turns, self._speech.reply)
        serving = self._start(self._link.run())
        ready = self._start(self._link.wait_ready())
        await asyncio.wait(
            {serving, ready}, timeout=CONNECT_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
        )
        ready.cancel()
        if serving.done():
            self._refuse(serving.result())
            return False
        if not ready.done():
            log.warning("mobile: the hermes-mobile server is not there yet; dialling on")
        self._start(self._watch(serving))
        self._mark_connected()
        return True

    async def disconnect(self) -> None:
        self._mark_disconnected()
        if self._loop is None:
            return
        await self._cards.close()
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, serving: asyncio.Task[Message]) -> None:
        """Tell Hermes when no link will follow."""
        self._refuse(await serving)
        # Not awaited here: it ends in `disconnect`, which cancels this task.
        self._notification = asyncio.create_task(self._notify_fatal_error())

    def _refuse(self, goodbye: Message) -> None:
        code, reason = goodbye.get("code"), goodbye.get("message")
        self._set_fatal_error(
            f"mobile_{code}", f"the hermes-mobile server says {code}: {reason}", retryable=False
        )

    def _on_ready(self, ready: Message) -> None:
        kept = set(ready.get("turns") or ()) if ready.get("resumed") else set()
        for unknown in self._turns.keep(kept):
            self._link.tell("end", turn=unknown, outcome="failed")

    def _on_message(self, message: Message) -> None:
        match message["t"]:
            case "turn":
                self._start(self._begin(message))
            case "cancel":
                turn = self._turns.forget(message["turn"])
                if turn is not None and turn.device not in self._stops:
                    stop = self._stops[turn.device] = self._start(self._stop(turn.device))
                    stop.add_done_callback(lambda _: self._stops.pop(turn.device))
            case "device":
                self._names.pop(message["device"], None)
                if message["connected"] and message.get("name"):
                    self._names[message["device"]] = message["name"]
            case "error":
                log.error("mobile: the hermes-mobile server says %s", message.get("code"))
            case _:
                pass

    # A person speaks

    async def _begin(self, message: Message) -> None:
        """Hand a message over to Hermes, after those before it of the same device."""
        device, said = message["device"], message["input"]
        turn = Turn(message["turn"], device, said["id"])
        self._turns.begin(turn)
        source = self._source(device, message.get("user") or {})
        try:
            async with self._intake.setdefault(device, asyncio.Lock()):
                event = await make_event(said, source)
                await self._wait_started()
                if device in self._stops:  # else Hermes would stop this one, too
                    await asyncio.wait({self._stops[device]})
                if turn not in self._turns:
                    return  # it was cancelled before it began
                turn.taken = True
                await self.handle_message(event)
        except UnreadableError as error:
            await self._speech.reply(device, f"This {error} cannot be read.")
            self._end(turn.id)
        except Exception as error:  # noqa: BLE001 - Hermes may raise anything
            log.error("mobile: a message cannot be handed over: %s", type(error).__name__)
            self._end(turn.id, "failed")
        else:
            self._settle(source)

    async def _wait_started(self) -> None:
        """Wait until Hermes has started: before that it puts messages aside, and forgets their turns."""
        while getattr(self.gateway_runner, "_startup_restore_in_progress", False):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(STARTED_PAUSE)

    async def _stop(self, device: str) -> None:
        """The person said /stop, or the server stops: Hermes stops too, and says nothing of it."""
        source = self._source(device, {})
        self._cards.sweep()
        if self._session(source) not in self._active_sessions:
            return
        event = MessageEvent(text="/stop", message_type=MessageType.TEXT, source=source)
        with hush():
            await self.handle_message(event)
        self._settle(source)

    def _source(self, device: str, user: dict[str, str]) -> Any:
        return self.build_source(
            chat_id=targets.chat_id(device),
            chat_name=targets.chat_name(device),
            chat_type="dm",
            user_id=device,
            user_name=user.get("name") or self._names.get(device) or device,
        )

    def _session(self, source: Any) -> str:
        return str(build_session_key(source))

    async def on_processing_complete(self, event: Any, outcome: Any) -> None:
        """Hermes is done with one message; it has said by itself what went wrong, if anything did."""
        device = targets.device_id(event.source.chat_id)
        for turn in self._turns.of(device):
            if turn.message == event.message_id:
                await self._speech.finish_streams(device)
                self._end(turn.id)
        self._cards.sweep()

    async def _process_message_background(self, event: Any, session_key: str) -> None:
        try:
            await super()._process_message_background(event, session_key)
        finally:
            self._settle(event.source)

    def _settle(self, source: Any) -> None:
        """End the turns that Hermes answered at once, or took into another one, once it is idle."""
        self._cards.sweep()
        if self._session(source) not in self._active_sessions:
            for turn in self._turns.of(targets.device_id(source.chat_id)):
                if turn.taken:
                    self._end(turn.id)

    def _end(self, turn: str, outcome: str = "ok") -> None:
        if self._turns.forget(turn) is not None:
            self._link.tell("end", turn=turn, outcome=outcome)

    # Hermes speaks

    async def send(
        self,
        chat_id: str,
        content: str,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Any:
        if hushed():
            return SendResult(success=True)
        return await self._here(self._send(chat_id, content, metadata or {}))

    async def _send(self, chat: str, text: str, metadata: dict[str, Any]) -> Any:
        device = targets.device_id(chat)
        if metadata.get("expect_edits"):
            return await self._speech.begin_stream(device, text)
        if self._turns.current(device) is None and targets.is_home(device, self.config):
            try:
                targets.check_home()
            except targets.MisreadError as error:
                return SendResult(success=False, error=str(error), error_kind="bad_format")
        return await self._speech.reply(device, text)

    async def edit_message(
        self,
        chat_id: str,
        message_id: str,
        content: str,
        *,
        finalize: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> Any:
        device = targets.device_id(chat_id)
        return await self._here(
            self._speech.edit_stream(device, message_id, content, final=finalize)
        )

    async def send_typing(self, chat_id: str, metadata: dict[str, Any] | None = None) -> None:
        await self._here(self._speech.show_working(targets.device_id(chat_id)))

    async def send_image(
        self, chat_id: str, image_url: str, caption: str | None = None, **_: Any
    ) -> Any:
        return await self._send_url(chat_id, "image", image_url, caption)

    async def send_animation(
        self, chat_id: str, animation_url: str, caption: str | None = None, **_: Any
    ) -> Any:
        return await self._send_url(chat_id, "animation", animation_url, caption)

    async def send_image_file(
        self, chat_id: str, image_path: str, caption: str | None = None, **_: Any
    ) -> Any:
        kind = "animation" if image_path.lower().endswith(".gif") else "image"
        return await self._send_file(chat_id, kind, image_path, caption)

    async def send_voice(
        self, chat_id: str, audio_path: str, caption: str | None = None, **_: Any
    ) -> Any:
        return await self._send_file(chat_id, "voice", audio_path, caption)

    async def send_video(
        self, chat_id: str, video_path: str, caption: str | None = None, **_: Any
    ) -> Any:
        return await self._send_file(chat_id, "video", video_path, caption)

    async def send_document(
        self,
        chat_id: str,
        file_path: str,
        caption: str | None = None,
        file_name: str | None = None,
        **_: Any,
    ) -> Any:
        return await self._send_file(chat_id, "document", file_path, caption, file_name)

    async def _send_url(self, chat: str, kind: str, url: str, caption: str | None) -> Any:
        fields = {"kind": kind, "url": url, "caption": caption or ""}
        return await self._here(self._speech.send_file(targets.device_id(chat), fields))

    async def _send_file(
        self, chat: str, kind: str, path: str, caption: str | None, name: str | None = None
    ) -> Any:
        device = targets.device_id(chat)
        try:
            fields = await asyncio.to_thread(read_file, path, kind, caption, name)
        except FileRefusedError as error:
            await self._here(self._speech.reply(device, str(error)))
            return SendResult(success=False, error=str(error), error_kind="bad_format")
        return await self._here(self._speech.send_file(device, fields))

    # Hermes asks

    async def send_exec_approval(
        self,
        chat_id: str,
        command: str,
        session_key: str,
        description: str = "dangerous command",
        metadata: dict[str, Any] | None = None,
        allow_permanent: bool = True,
        smart_denied: bool = False,
    ) -> Any:
        self._cards.approve(targets.device_id(chat_id), session_key)
        return SendResult(success=True)

    async def send_slash_confirm(
        self,
        chat_id: str,
        title: str,
        message: str,
        session_key: str,
        confirm_id: str,
        metadata: dict[str, Any] | None = None,
    ) -> Any:
        text = f"{title}\n\n{message}".strip()
        self._cards.confirm(targets.device_id(chat_id), session_key, confirm_id, text)
        return SendResult(success=True)

    async def send_clarify(
        self,
        chat_id: str,
        question: str,
        choices: list[str] | None,
        clarify_id: str,
        session_key: str,
        metadata: dict[str, Any] | None = None,
    ) -> Any:
        device = targets.device_id(chat_id)
        self._cards.clarify(device, clarify_id, question, [str(each) for each in choices or ()])
        return SendResult(success=True)

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": targets.device_id(chat_id), "type": "dm"}

    # Within

    async def _here(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it on the gateway's loop, whichever loop this is."""
        assert self._loop is not None  # noqa: S101 - Hermes connects before it speaks
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _version() -> str:
    try:
        return version("hermes-agent")
    except PackageNotFoundError:
        return ""
