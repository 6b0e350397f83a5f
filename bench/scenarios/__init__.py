"""The scenarios, each in a file of its own."""

from typing import Final

from bench.scenario import Scenario
from bench.scenarios.cards import CARDS
from bench.scenarios.download import DOWNLOAD
from bench.scenarios.idle import IDLE
from bench.scenarios.slow import SLOW
from bench.scenarios.soak import SOAK
from bench.scenarios.storm import STORM
from bench.scenarios.stream import STREAM
from bench.scenarios.takeover import TAKEOVER
from bench.scenarios.turns import TURNS
from bench.scenarios.upload import UPLOAD

SCENARIOS: Final[dict[str, Scenario]] = {
    each.name: each
    for each in (TURNS, STREAM, STORM, IDLE, UPLOAD, DOWNLOAD, CARDS, SLOW, SOAK, TAKEOVER)
}
"""By name."""
