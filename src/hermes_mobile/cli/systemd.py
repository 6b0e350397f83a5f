"""`hermes-mobile systemd`: the service's unit files, as they fit this installation."""

from __future__ import annotations

import re
import sys
import sysconfig
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import click

from hermes_mobile.cli.conventions import ConfigurationError, examples, version_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

CHECKOUT: Final = Path(__file__).parents[3] / "docs" / "deploy" / "systemd"
UNITS: Final = PurePosixPath("/etc/systemd/system")
SETTINGS: Final = PurePosixPath("/etc/hermes-mobile/hermes-mobile.toml")
SECRETS: Final = PurePosixPath("/etc/hermes-mobile/credentials")
COMMAND: Final = "/opt/hermes-mobile/bin/hermes-mobile"
"""What the unit starts as it stands in the documentation."""
HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - never written to
"""What the unit's sandbox hides from the service."""

ENABLED: Final = (
    "hermes-mobile.socket hermes-mobile-http.socket hermes-mobile-deliver.socket "
    "hermes-mobile.service"
)
"""What everybody needs; a socket for the agent only who has one there."""
NEXT_STEPS: Final = f"""
Next, as root:
  {{command}} token > {SECRETS}/token    # once; then tell it to your apps
  editor {SETTINGS}
  systemctl daemon-reload
  systemctl enable --now {ENABLED}
  systemctl status hermes-mobile"""


@click.command(
    epilog=examples(
        "hermes-mobile systemd",
        "hermes-mobile systemd --install",
        "hermes-mobile systemd --drop-in direct --drop-in acp --install",
    )
)
@click.option("--install", is_flag=True, help="Write the files, where they are not there yet.")
@click.option(
    "--drop-in",
    "drop_ins",
    multiple=True,
    type=click.Choice(["direct", "acp"]),
    help="direct: phones on the network, without a proxy; acp: agents that are programs.",
)
@click.option("--replace", is_flag=True, help="Overwrite unit files that differ.")
@click.option(
    "--root",
    metavar="DIR",
    default="/",
    type=click.Path(path_type=Path),
    help="Write below DIR, for an image or a package.  [default: /]",
)
@version_option
def systemd(install: bool, drop_ins: tuple[str, ...], replace: bool, root: Path) -> None:
    """Print the unit files of the service, or install them.

    They start the server from where this command is installed. A file that is there already and
    differs is kept, and named, unless --replace is given; the TOML file always is.
    """
    command = this_command()
    texts = dict(fitted_files(command, drop_ins))
    for place in hidden_places():
        click.echo(f"Warning: the service cannot see {place}: install it below /opt", err=True)
    if not install:
        for path, text in texts.items():
            click.echo(f"# {path}\n{text}")
        return
    for path, text in texts.items():
        click.echo(write(root / path.relative_to("/"), text, replace=replace and path != SETTINGS))
    click.echo(make_private(root / SECRETS.relative_to("/")))
    click.echo(NEXT_STEPS.format(command=command))


def this_command() -> str:
    """How the command is run from here, whatever the shell's PATH says.

    *Errors*: ConfigurationError for a path that a unit file cannot hold.
    """
    script = Path(sysconfig.get_path("scripts"), "hermes-mobile")
    command = str(script) if script.exists() else f"{sys.executable} -m hermes_mobile"
    if not re.fullmatch(r"[\w/.,:@+-]+( -m hermes_mobile)?", command):
        raise ConfigurationError(f"a unit file cannot start {command}: install it elsewhere")
    return command


def hidden_places() -> Iterator[Path]:
    """Where this installation, or the Python that it stands on, lies out of the service's sight."""
    for place in dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix))):
        if any(place.is_relative_to(hidden) for hidden in HIDDEN):
            yield place


def fitted_files(
    command: str, drop_ins: tuple[str, ...] = ()
) -> Iterator[tuple[PurePosixPath, str]]:
    """Every file that makes the service, by its path, with `command` as what it starts."""
    directory = unit_directory()
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            text = entry.read_text("utf-8").replace(COMMAND, command)
            path = SETTINGS if entry.name == SETTINGS.name else UNITS / entry.name
            yield path, text
            continue
        for name in drop_ins:
            drop_in = entry / f"{name}.conf"
            if drop_in.is_file():
                yield UNITS / entry.name / drop_in.name, drop_in.read_text("utf-8")


def unit_directory() -> Traversable:
    """In the wheel beside this module; in a checkout, where there is one copy, with the docs."""
    packaged = files(__package__) / "units"
    return packaged if packaged.is_dir() else CHECKOUT


def write(path: Path, text: str, *, replace: bool) -> str:
    """Write one file, unless one is there that differs; says what became of it.

    *Errors*: ConfigurationError when it cannot be written.
    """
    try:
        known = path.read_text("utf-8") if path.exists() else None
        if known == text:
            return f"unchanged  {path}"
        if known is not None and not replace:
            return f"kept       {path}  (it differs from this version's)"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o644)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"{path} cannot be written: {reason}") from error
    return f"{'replaced' if known is not None else 'written':<9}  {path}"


def make_private(directory: Path) -> str:
    """Make a directory that only its owner can look into; says what became of it.

    *Errors*: ConfigurationError when it cannot be made.
    """
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        return f"unchanged  {directory}/"
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot be made: {error.strerror}") from error
    return f"written    {directory}/"
