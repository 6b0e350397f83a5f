"""For the tests of whoever builds on this package: no network, and no waiting on a virtual clock.

`FakeTurn` tests an agent without a server. `open_server` runs the real server in memory, and
`open_script` one that says what a test tells it to: both give clients, for the tests of an app.
"""

from hermes_mobile.testing.network import FailingStream
from hermes_mobile.testing.script import Script, ScriptedConnection, open_script
from hermes_mobile.testing.server import MemoryServer, open_server
from hermes_mobile.testing.turn import (
    Asked,
    FakeStream,
    FakeTurn,
    Record,
    Said,
    Sent,
    ShowedWorking,
    Streamed,
)

__all__ = [
    "Asked",
    "FailingStream",
    "FakeStream",
    "FakeTurn",
    "MemoryServer",
    "Record",
    "Said",
    "Script",
    "ScriptedConnection",
    "Sent",
    "ShowedWorking",
    "Streamed",
    "open_script",
    "open_server",
]
