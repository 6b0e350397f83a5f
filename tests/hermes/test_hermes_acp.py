"""`--agent acp --agent-command "hermes acp"`: the real Hermes as a program of the server's."""

from __future__ import annotations

import os
import shlex
import signal
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from hermes.gateway import PATIENCE, Gateway
from hermes.model import Model
from hermes.phone import Phone, options
from street import ServerProcess

pytestmark = pytest.mark.slow

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da63fcff1f"
    "0003030200efa2a75b0000000049454e44ae426082"
)


class AcpStage:
    """A server whose agent is Hermes, with a home of its own below `directory`."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.model = Model()
        self.hermes = Gateway(directory / "home", self.model, {})
        self.place = self.hermes.place
        self._directory = directory
        self._settings = settings
        self.start()

    def start(self) -> None:
        environ = self.hermes.environment
        self.server = ServerProcess(
            self._directory,
            *(
                "--agent",
                "acp",
                "--agent-command",
                shlex.join([f"{self.hermes.bin}/hermes", "acp"]),
            ),
            MOBILE_AGENT_DIR=self.place,
            MOBILE_STATE_DIR=self._directory / "state",
            MOBILE_SHUTDOWN_GRACE=1,
            MOBILE_LOG_LEVEL="debug",
            **{name: environ[name] for name in ("HERMES_HOME", "HOME")},
            **self._settings,
        )

    def restart(self) -> None:
        """Stop the server, and start another."""
        self.server.close()
        self.start()

    @property
    def starts(self) -> int:
        """How often Hermes was ready."""
        return self.server.log_text.count('"agent ready"')

    async def ready(self, times: int = 1) -> None:
        """Wait until Hermes has been started that often, and has opened its first session.

        Both take it seconds, and on a busy machine more than a test waits for a frame.
        """
        device = f"alarm-{times}"
        async with self.phone(device) as caller:
            await caller.say("m1", "say awake")
            done = f'"session": "mobile:{device}", "id": "m1", "outcome": "done"'
            with trio.fail_after(PATIENCE):
                while self.starts < times or done not in self.server.log_text:  # noqa: ASYNC110
                    await trio.sleep(0.05)

    def close(self) -> None:
        self.server.close()
        self.model.close()

    def phone(self, device: str):
        return self.server.connect(device)

    def heard(self, words: str) -> str:
        """All that the model was told when it was last told `words`."""
        told = (str(request["messages"]) for request in reversed(self.model.requests))
        return next(messages for messages in told if words in messages)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A stage for tests that leave it as they find it; each has a device of its own."""
    stage = AcpStage(tmp_path_factory.mktemp("acp"))
    yield stage
    stage.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A stage for tests that restart things, where cards live for two seconds."""
    stage = AcpStage(tmp_path_factory.mktemp("acp"), MOBILE_PROMPT_TTL=2)
    yield stage
    stage.close()


async def test_a_reply_and_a_stream(shared):
    """Issue 7: a text is answered; a reply that takes its time grows."""
    await shared.ready()
    async with shared.phone("talker") as caller:
        phone = Phone(caller)
        await phone.say("good morning")
        assert await phone.reply() == "echo: good morning"
        await phone.say("stream 20")
        states = await phone.states()
        assert states[-1] == " ".join(f"word{n}" for n in range(20))
        assert len(states) > 2
        assert all(later.startswith(earlier) for earlier, later in pairwise(states))


async def test_approvals(shared):
    """Issue 7: once and deny are for one command; session is for its like; the command is shown."""
    target = shared.place / "target"
    await shared.ready()
    async with shared.phone("approver") as caller:
        phone = Phone(caller)
        for option, outcome in (
            ("once", "exit_code"),
            ("deny", "denied"),
            ("session", "exit_code"),
        ):
            await phone.say(f"run rm -rf {target}")
            card = await phone.card("exec_approval")
            assert card["command"] == f"rm -rf {target}"
            assert options(card) == ["once", "session", "always", "deny"]
            assert card["timeout_seconds"] == 58
            await phone.answer(card, option_id=option)
            assert outcome in await phone.reply()
            await phone.turn_ended()
        await phone.say(f"run rm -rf {target}")
        assert "exit_code" in await phone.reply()


async def test_files_and_voice(shared):
    """Issue 7: an image as one, a document by its path, a voice note by its transcript."""
    await shared.ready()
    async with shared.phone("sender") as caller:
        phone = Phone(caller)
        await phone.send("media", PNG, kind="image", mime="image/png", caption="say seen")
        assert await phone.reply()
        await phone.turn_ended()
        await phone.send(
            "media", b"a secret recipe", kind="document", mime="text/plain", filename="r.txt"
        )
        await phone.turn_ended()
        assert shared.heard("a secret recipe")
        await phone.send("audio", b"OggS", format="ogg", text="say I heard you")
        assert await phone.reply() == "I heard you"


async def test_stop(shared):
    """D27: amid words, amid a card and amid a tool; what was said before is remembered after each."""
    await shared.ready()
    async with shared.phone("stopper") as caller:
        phone = Phone(caller)
        await phone.say("say remember the milk")
        await phone.turn_ended()
        await phone.say("stream 400")
        await caller.expect("message", edit=True)
        await stop(phone)
        await phone.say(f"run rm -rf {shared.place}/target")
        card = await phone.card("exec_approval")
        await caller.say("s2", "/stop")
        assert (await phone.ended(card))["expired"]
        await phone.turn_ended()
        await phone.say(f"run touch {shared.place}/begun; sleep 60")
        with trio.fail_after(20):
            while not await trio.Path(shared.place, "begun").exists():  # noqa: ASYNC110 - Hermes'
                await trio.sleep(0.05)
        await stop(phone)
        await phone.say("still there?")
        assert await phone.reply() == "echo: still there?"
        assert "remember the milk" in shared.heard("still there?")


async def stop(phone):
    await phone.say("/stop")
    await phone.until_said("Stopped: 1 running")
    await phone.turn_ended()


async def test_an_approval_that_nobody_gives(stage):
    """D23: it is denied, and Hermes goes on."""
    await stage.ready()
    async with stage.phone("sleeper") as caller:
        phone = Phone(caller)
        await phone.say(f"run rm -rf {stage.place}/target")
        card = await phone.card("exec_approval")
        assert (await phone.ended(card))["expired"]
        assert "denied" in await phone.reply()


async def test_restarts(stage):
    """Issue 7: Hermes dies in a turn, then the server is restarted; the conversation lives on."""
    await stage.ready()
    async with stage.phone("veteran") as caller:
        phone = Phone(caller)
        await phone.say("say remember the milk")
        assert await phone.reply() == "remember the milk"
        await phone.turn_ended()
        message = await phone.say("hold")
        await caller.expect("message")
        started = stage.starts
        os.kill(hermes_of(stage.server), signal.SIGKILL)
        assert (await caller.expect("error"))["id"] == message
        await phone.turn_ended()
        stage.model.release()
        await stage.ready(started + 1)
        await phone.say("say here again")
        assert await phone.reply() == "here again"
        assert "remember the milk" in stage.heard("say here again")
    await trio.to_thread.run_sync(stage.restart)
    await stage.ready()
    async with stage.phone("veteran") as caller:
        phone = Phone(caller)
        await phone.say("and today?")
        assert await phone.reply() == "echo: and today?"
        assert "remember the milk" in stage.heard("and today?")


def hermes_of(server):
    """The process id of the server's only child."""
    parents = {
        int(stat.parent.name): int(stat.read_text().rpartition(")")[2].split()[1])
        for stat in Path("/proc").glob("[0-9]*/stat")
    }
    [child] = [pid for pid, parent in parents.items() if parent == server.process.pid]
    return child
