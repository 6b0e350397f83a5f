"""The plugin where only Hermes is: copied by the command, or found by its entry point."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

import hermes_mobile
from street import environment

pytestmark = pytest.mark.slow

IMPORT = """
import importlib, importlib.util, pathlib, sys
assert not any(importlib.util.find_spec(name) for name in ("trio", "attrs", "hermes_mobile"))
place = pathlib.Path(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "mobile", place / "__init__.py", submodule_search_locations=[str(place)]
)
sys.modules["mobile"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["mobile"])
for module in sorted(place.glob("*.py")):
    importlib.import_module(f"mobile.{module.stem}")
    print(module.stem)
"""
DISCOVER = """
import importlib.util
from gateway.config import load_gateway_config
from gateway.platform_registry import platform_registry
load_gateway_config()
print(platform_registry.get("mobile").standalone_sender_fn.__module__)
print(importlib.util.find_spec("trio"))
"""


def run(hermes_bin, code, *arguments, **environ):
    return subprocess.run(  # noqa: S603 - what we installed
        [hermes_bin / "python", "-c", code, *arguments],
        env=environment(**environ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_every_module_imports_with_what_hermes_ships(hermes_bin, stage):
    """Neither Trio nor the rest of this package is there, and nobody misses them."""
    stage.gateway.install_plugin()
    place = stage.gateway.home / "plugins" / "mobile"
    home = str(stage.gateway.home)
    imported = run(hermes_bin, IMPORT, str(place), HERMES_HOME=home)
    assert imported == sorted(module.stem for module in place.glob("*.py"))


def test_the_entry_point_leads_to_it(hermes_bin, stage, tmp_path):
    """Who installs the package where Hermes is needs no copy, and its dependencies stay away."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "hermes_mobile").symlink_to(Path(hermes_mobile.__file__).parent)
    metadata = Path(str(importlib.metadata.distribution("hermes-mobile").locate_file("")))
    name = f"hermes_mobile-{hermes_mobile.__version__}.dist-info"
    (site / name).symlink_to(metadata / name)
    module, trio = run(
        hermes_bin, DISCOVER, HERMES_HOME=str(stage.gateway.home), PYTHONPATH=os.fspath(site)
    )
    assert (module, trio) == ("hermes_mobile.hermes.delivery", "None")
