"""A newcomer's path: `docs/operations.md` to the letter, on a bare Debian that is booted.

`just newcomer`, as root, with debootstrap, systemd-container and a mirror of Debian. It takes minutes,
writes below a temporary directory only, and ends with the service at work. The container has no
network once it is booted, so no port of this host is taken.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operations.md").read_text()
BARE = "ca-certificates,systemd,systemd-sysv"
"""What Debian's installer leaves on every machine, beside what is essential."""
HOSTS_OWN = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")
"""How this host reaches package indexes."""
BOOT_SECONDS = 120.0
CONTAINER = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit")
UNITS = "/etc/systemd/system/hermes-mobile*.socket /etc/systemd/system/hermes-mobile*.service"
JUDGED = (
    "systemctl is-active hermes-mobile.service hermes-mobile.socket hermes-mobile-http.socket",
    f'test -z "$(systemd-analyze verify {UNITS} 2>&1)"',
    "systemd-analyze security --no-pager hermes-mobile.service | tail -n 1",
    "hermes-mobile status",
    'hermes-mobile send --to mobile:tel-1 --keep "The backup is done."',
    "hermes-mobile devices",
)
"""What is then asked, and has to be answered with status 0."""


def commands(heading: str) -> list[list[str]]:
    """The blocks of commands below a heading, line by line."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [
        block.splitlines()
        for block in re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    ]


def run(*command: str | Path) -> None:
    sys.stdout.flush()
    subprocess.run([str(word) for word in command], check=True)  # noqa: S603 - our own commands


def make_bare_debian(debian: Path) -> None:
    run("debootstrap", "--variant=minbase", f"--include={BARE}", "bookworm", debian)
    for file in HOSTS_OWN:
        if Path(file).exists():
            shutil.copy(file, debian / file[1:])


def build_wheel(debian: Path) -> str:
    """The package as it is here; returns where it lies to who is inside."""
    out = debian / "srv"
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT)
    [wheel] = out.glob("*.whl")
    return f"/srv/{wheel.name}"


@contextmanager
def booted(debian: Path) -> Iterator[str]:
    """The container with systemd as its first process; yields that one's id, and shuts it down."""
    told = debian.parent / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(told))
        manager.settimeout(BOOT_SECONDS)
        process = subprocess.Popen(  # noqa: S603 - our own command
            [
                *CONTAINER,
                *("--boot", "--private-network", "--notify-ready=yes", "--console=pipe"),
                f"--directory={debian}",
            ],
            env=os.environ | {"NOTIFY_SOCKET": str(told)},
            stdin=subprocess.DEVNULL,
        )
        try:
            news = ""
            while "\nREADY=1\n" not in news:
                news += f"\n{manager.recv(4096).decode()}\n"
            yield re.findall(r"^X_NSPAWN_LEADER_PID=(\d+)$", news, re.MULTILINE)[0]
        finally:
            process.terminate()
            process.wait(BOOT_SECONDS)


def follow(within: list[str], lines: list[str]) -> None:
    """Run commands as somebody types them, one after the other; the first that fails ends all."""
    for line in lines:
        print(f"\n# {line}")  # noqa: T201 - this is what it is for
        run(*within, "/bin/sh", "-c", f"cd && {line}")


def main() -> None:
    started = time.monotonic()
    with TemporaryDirectory(prefix="newcomer-", ignore_cleanup_errors=True) as place:
        debian = Path(place, "debian")
        make_bare_debian(debian)
        wheel = build_wheel(debian)
        install = [
            line.replace("install hermes-mobile", f"install {wheel}")
            for line in commands("Install")[0]
        ]
        service = next(at for at, line in enumerate(install) if line.startswith("systemctl "))
        bare = time.monotonic()
        follow([*CONTAINER, "--pipe", f"--directory={debian}"], install[:service])
        with booted(debian) as leader:
            inside = ["nsenter", f"--target={leader}", "--all"]
            follow(inside, install[service:])
            for block in commands("The first device"):
                follow(inside, block)
            follow(inside, list(JUDGED))
        ended = time.monotonic()
    print(f"\na bare Debian: {bare - started:.0f} s; the newcomer: {ended - bare:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main()
