"""The real Hermes Agent: installed once in a venv of its own, its gateway run as a process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from street import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.model import Model

REQUIREMENT = "hermes-agent[acp]==0.19.*"
VENV = Path(__file__).parents[2] / "build" / "hermes"
PATIENCE = 60.0
"""Seconds that a gateway has to start or to end."""

CONFIG = """\
model:
  provider: custom
  default: mock
  base_url: {model}
  api_key: none-needed
  context_length: 200000
terminal:
  backend: local
  cwd: {place}
plugins:
  enabled:
    - mobile
    - both
platforms:
  mobile:
    enabled: true
streaming:
  enabled: true
  transport: edit
  edit_interval: 0.1
  buffer_threshold: 10
  cursor: ''
display:
  tool_progress: 'off'
approvals:
  mode: manual
  timeout: {approval_timeout}
agent:
  clarify_timeout: 60
  restart_drain_timeout: 1
cron:
  wrap_response: false
onboarding:
  seen:
    busy_input_prompt: true
security:
  tirith_enabled: false
  allow_lazy_installs: false
stt:
  enabled: false
"""


def install() -> Path:
    """The venv that holds Hermes and nothing of ours, made where there is none yet."""
    complete = VENV / "complete"
    if not complete.exists() or complete.read_text() != REQUIREMENT:
        venv.create(VENV, clear=True, with_pip=True)
        pip = [VENV / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, REQUIREMENT], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        complete.write_text(REQUIREMENT)
    return VENV


class Gateway:
    """Hermes' gateway, with a home of its own; it stands still until `start`."""

    def __init__(self, home: Path, model: Model, settings: Mapping[str, object]) -> None:
        self.home = home
        self.bin = install() / "bin"
        self.place = home / "place"
        """Where its terminal works."""
        self.place.mkdir(parents=True)
        shutil.copytree(Path(__file__).with_name("both"), home / "plugins" / "both")
        self.settings = dict(settings)
        """For its environment."""
        self._model = model
        self._process: subprocess.Popen[bytes] | None = None
        self.configure()

    def configure(self, approval_timeout: int = 60) -> None:
        config = CONFIG.format(
            model=self._model.url, place=self.place, approval_timeout=approval_timeout
        )
        (self.home / "config.yaml").write_text(config)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        home = {"HERMES_HOME": self.home, "HOME": self.home, "PATH": path}
        return environment(**self.settings, **home)

    @property
    def log(self) -> str:
        log = self.home / "logs" / "gateway.log"
        return log.read_text() if log.exists() else ""

    def install_plugin(self) -> None:
        """As a person does it."""
        command = [sys.executable, "-m", "hermes_mobile", "hermes-plugin", "install"]
        subprocess.run(  # noqa: S603 - our own command
            [*command, "--hermes-home", self.home], check=True, stdout=subprocess.DEVNULL
        )

    def start(self) -> None:
        """Run it; the link to the server comes soon after."""
        with (self.home / "output").open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - what we installed
                [self.bin / "hermes", "gateway", "run"],
                env=self.environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it, and wait until it has."""
        assert self._process is not None
        self._process.send_signal(by)
        self.wait()

    def wait(self) -> None:
        """Wait until it has ended."""
        assert self._process is not None
        self._process.wait(PATIENCE)
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.stop(signal.SIGKILL)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another `hermes` command, to its end."""
        return subprocess.run(  # noqa: S603 - what we installed
            [self.bin / "hermes", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
