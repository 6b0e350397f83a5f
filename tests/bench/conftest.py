"""The bench is imported from the repository, and tested where its extra is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
NEEDS = ("aiohttp", "hdrh", "matplotlib", "picows", "uvloop", "websockets")
collect_ignore_glob = [] if all(map(find_spec, NEEDS)) else ["test_*.py"]
