"""Loading an agent by name: what can be wrong is said in one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_mobile.agents import (
    Agent,
    AgentNotFoundError,
    AgentSettings,
    AgentSettingsError,
    load_agent,
)
from hermes_mobile.agents.demo import DemoAgent

CUSTOM = """
from hermes_mobile.agents import Agent, AgentSettingsError

class Silent(Agent):
    async def handle(self, turn) -> None:
        pass

class Unfinished(Agent):
    pass

class Broken(Silent):
    def __init__(self) -> None:
        raise RuntimeError("no key for the model")

class Careful(Silent):
    @classmethod
    def from_settings(cls, settings):
        made = cls()
        made.settings = settings
        return made

class Wanting(Silent):
    @classmethod
    def from_settings(cls, settings):
        raise AgentSettingsError("MOBILE_AGENT_COMMAND must be set")

def make() -> None:
    return Silent()

number = 7
stranger = dict
"""


@pytest.fixture(autouse=True)
def custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a module `custom_agents` on the path, and one that cannot be imported."""
    (tmp_path / "custom_agents.py").write_text(CUSTOM)
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("custom_agents", None)


def test_a_built_in_agent_is_loaded_by_its_name() -> None:
    """`demo` needs nothing else."""
    assert isinstance(load_agent("demo"), DemoAgent)


@pytest.mark.parametrize("name", ["custom_agents:Silent", "custom_agents:make"])
def test_any_agent_is_loaded_by_module_and_attribute(name: str) -> None:
    """A class, or whatever else makes an agent when called without arguments."""
    agent = load_agent(name)
    assert isinstance(agent, Agent)
    assert type(agent).__name__ == "Silent"


def test_an_agent_may_read_what_the_operator_decided() -> None:
    """One that has settings is made from them; what it refuses is said in its own words."""
    settings = AgentSettings(command=("agent",))
    assert vars(load_agent("custom_agents:Careful", settings)) == {"settings": settings}
    with pytest.raises(AgentSettingsError, match=r"^MOBILE_AGENT_COMMAND must be set$"):
        load_agent("custom_agents:Wanting", settings)


def test_the_environment_is_in_no_representation() -> None:
    """It holds the server's secrets."""
    assert "secret" not in repr(AgentSettings(environ={"MOBILE_TOKEN": "secret"}))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody", "nor package.module:Class"),
        ("", "nor package.module:Class"),
        ("custom_agents", "nor package.module:Class"),
        ("custom_agents:", "nor package.module:Class"),
        ("no_such_module:Agent", "ModuleNotFoundError: No module named 'no_such_module'"),
        (":Agent", "ValueError: Empty module name"),
        ("broken_module:Agent", "ZeroDivisionError: division by zero"),
        ("custom_agents:Nobody", "AttributeError: module 'custom_agents' has no attribute"),
        ("custom_agents:Broken", "RuntimeError: no key for the model"),
        ("custom_agents:Unfinished", "TypeError: Can't instantiate abstract class Unfinished"),
        ("custom_agents:number", "TypeError: 'int' object is not callable"),
        ("custom_agents:stranger", "is not a hermes_mobile.agents.Agent"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(name: str, reason: str) -> None:
    """The line quotes the name and gives the reason; nothing else escapes."""
    with pytest.raises(AgentNotFoundError) as raised:
        load_agent(name)
    line = str(raised.value)
    assert line.startswith(f"agent {name!r} ")
    assert reason in line
    assert "\n" not in line
