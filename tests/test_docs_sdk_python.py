"""`docs/sdk-python.md` says what the client does: its examples run, and its tables are complete."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import hermes_mobile.client
from hermes_mobile import testing
from hermes_mobile.client import Handlers, HermesClient, opening
from hermes_mobile.client.errors import ClientError
from hermes_mobile.protocol.limits import MIB
from hermes_mobile.testing import open_server
from street import PATIENCE, ServerProcess, environment

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "sdk-python.md").read_text()
PROSE = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)
TWINS = PAGE.split("\n## Twins of the TypeScript client\n")[1]

REFERENCE = {
    "members": "ready setHandlers connect disconnect",
    "methods": (
        "sendText sendAudio sendTyping acknowledge ping answerPrompt sendMedia sendImage sendDocument "
        "sendVoice"
    ),
    "callbacks": (
        "onState onReady onMessage onMessageEdit onTyping onTypingStop onAvatar onPrompt onPromptDone "
        "onMedia onError"
    ),
    "options": "url token device user handlers maxBackoffMs",
    "types": (
        "PROTOCOL_VERSION AvatarState ConnectionState ReadyPayload AgentMessage PromptOption "
        "PromptPayload PromptDonePayload MediaPayload ProtocolError MEDIA_CHUNK_BYTES DeviceInfo "
        "MediaSource MediaSendOptions HermesClientHandlers"
    ),
    "functions": "makeId bytesToBase64 base64ToBytes",
}
"""The names in the tables of the TypeScript client's reference."""


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```python{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in a text, heads included."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def section(heading: str) -> str:
    return PROSE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def exists(name: str) -> bool:
    """Whether `hermes_mobile.client` has what a name with dots, or a parameter, stands for."""
    path, _, parameter = name.rstrip(")").partition("(")
    thing: Any = hermes_mobile.client
    for step in path.split("."):
        if attrs.has(thing) and step in attrs.fields_dict(thing):
            return True
        if not hasattr(thing, step):
            return False
        thing = getattr(thing, step)
    return not parameter or parameter in inspect.signature(thing).parameters


async def run(source: str, names: dict[str, Any]) -> None:
    """Run a block as if it stood in an asynchronous function."""
    result = eval(  # noqa: S307 - our own page
        compile(source, "docs/sdk-python.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names
    )
    if inspect.iscoroutine(result):
        await result


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """What the examples find: files, and a token in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOBILE_TOKEN", "test-token")
    for name in ("chart.png", "film.mp4", "note.ogg", "backup.log"):
        (tmp_path / name).write_bytes(bytes(MIB))
    names: dict[str, Any] = {"os": os, "trio": trio, "url": "ws://x/ws", "token": "test-token"}
    names |= {"recording": b"OggS", "deliver_token": "courier"}
    return names | {
        name: getattr(hermes_mobile.client, name) for name in hermes_mobile.client.__all__
    }


@pytest.mark.parametrize("source", [*blocks(""), *blocks(" loop")])
async def test_examples_run(source, surroundings, monkeypatch):
    """Each with a client of the demo agent; one that runs for ever, for a moment."""
    endless = source in blocks(" loop")
    async with open_server(deliver_tokens=("courier",)) as server:
        monkeypatch.setattr(opening, "over_tcp", lambda _: server.open_stream)
        async with server.open_client("phone") as client:
            if "async for event in client" in source and "send_text" not in source:
                await client.send_text("/run ls")
            with trio.move_on_after(0.2 if endless else PATIENCE) as scope:
                await run(source, surroundings | {"client": client})
            assert scope.cancelled_caught == endless


def test_examples_of_tests_pass():
    """Those with the test kit, as a whole file, on a virtual clock."""
    names: dict[str, Any] = {"trio": trio}
    for source in blocks(" test"):
        exec(source, names)  # noqa: S102 - our own page
    tests = [thing for name, thing in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(test, clock, clock=clock)


@pytest.mark.slow
def test_the_first_program(tmp_path):
    """Five minutes: the script, as it stands, against a server of its own."""
    server = ServerProcess(tmp_path)
    script = tmp_path / "hello.py"
    (source,) = blocks(" program")
    script.write_text(source)
    try:
        done = subprocess.run(  # noqa: S603 - our own page
            [sys.executable, "-W", "error", str(script)],
            env=environment(MOBILE_TOKEN=server.token, HERMES_URL=server.url),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    finally:
        server.close()
    first, *_ = done.stdout.splitlines()
    assert first == "Hello, Hermes"
    assert len(done.stdout.splitlines()[-1].split()) == 20
    assert done.stderr == ""


@pytest.mark.slow
def test_programs_are_typed(tmp_path):
    """The type checker agrees, strictly, with those examples that are whole files."""
    api = pytest.importorskip("mypy.api")
    files = []
    for number, source in enumerate([*blocks(" program"), "".join(blocks(" test"))]):
        files.append(str(tmp_path / f"example_{number}.py"))
        Path(files[-1]).write_text(source)
    output, _, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), *files])
    assert status == 0, output


@pytest.mark.parametrize("names", REFERENCE.values(), ids=REFERENCE)
def test_everything_in_the_reference_has_a_twin(names):
    """Each name of the reference's tables stands on the left."""
    told = {
        name.removeprefix("new ").removeprefix("ClientOptions.")
        for left, _ in rows(TWINS)
        for name in code(left)
    }
    assert set(names.split()) - told == set()


@pytest.mark.parametrize("name", [name for _, right in rows(TWINS) for name in code(right)])
def test_every_twin_exists(name):
    """Each name on the right is one of ours, a parameter, or an attribute."""
    assert exists(name)


def test_nothing_is_left_untold():
    """Every public name, method, callback, parameter and error has its place in the page."""
    told = set(re.findall(r"\w+", " ".join(code(PROSE))))
    assert set(hermes_mobile.client.__all__) - told == set()
    methods = {name for name in vars(HermesClient) if not name.startswith("_")}
    assert methods - told == set()
    assert set(inspect.signature(hermes_mobile.client.open_client).parameters) - told == set()
    assert {field.name for field in attrs.fields(Handlers)} - told == set()


def test_the_arguments_are_told_with_their_defaults():
    """The table of `open_client`'s, number by number."""
    parameters = inspect.signature(hermes_mobile.client.open_client).parameters
    defaults = {
        name: row[1]
        for row in rows(section("Connecting"))
        for name in code(row[0])
        if name in parameters
    }
    assert list(defaults) == list(parameters)
    for name in ("open_timeout", "max_backoff", "keep_alive", "keep_alive_timeout"):
        assert float(defaults[name]) == parameters[name].default
    required = [name for name, each in parameters.items() if each.default is each.empty]
    assert [name for name, default in defaults.items() if default == "required"] == required


def test_the_errors_are_told():
    """Each class, its code, and whether it is fatal."""
    told = {row[0].strip("`"): row for row in rows(section("Errors"))}
    for error in ClientError.__subclasses__():
        row = told[error.__name__]
        assert error.__name__ == "RefusedError" or code(row[1]) == [error.code]
        assert row[2] == ("yes" if error.fatal else "no")


def test_the_kit_is_told():
    """What is not a record of a FakeTurn is in the table."""
    records = {"Asked", "FakeStream", "Record", "Said", "Sent", "ShowedWorking", "Streamed"}
    types = {"FailingStream", "MemoryServer", "Script", "ScriptedConnection"}
    told = " ".join(code(section("A test of your own app")))
    assert [n for n in set(testing.__all__) - records - types if n not in told] == []


def test_links_lead_somewhere():
    """Every link inside the page names one of its headings."""
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
