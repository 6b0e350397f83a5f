"""nginx and Caddy as processes, with the configurations that `docs/deploy` offers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from certificates import write_certificate
from street import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEPLOY = Path(__file__).parents[1] / "docs" / "deploy"
NAME = "agent.example.com"
AROUND_THE_SITE = """
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr notice;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/site.conf;
}}
"""
"""What Debian's own nginx.conf is to a site, for an nginx that is a child of the tests."""


def program(name: str) -> str | None:
    """Where Debian puts it: not all of it is on everybody's PATH."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def open_nginx(directory: Path, server: int, http: int, **instead: str) -> Iterator[int]:
    """`docs/deploy/nginx.conf` before a server on these ports; yields the port of the proxy.

    `instead` are other values for directives, such as `proxy_read_timeout`.
    """
    cert, key = write_certificate(directory)
    port = free_port()
    substitutions = {
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "    listen [::]:80;\n": "",
        "    listen [::]:443 ssl;\n": "",
        f"/etc/letsencrypt/live/{NAME}/fullchain.pem": str(cert),
        f"/etc/letsencrypt/live/{NAME}/privkey.pem": str(key),
        "127.0.0.1:8787": f"127.0.0.1:{server}",
        "127.0.0.1:8788": f"127.0.0.1:{http}",
    }
    site = substituted("nginx.conf", substitutions)
    for directive, value in instead.items():
        site, replaced = re.subn(rf"(?m)^( *{directive}) .*;$", rf"\1 {value};", site)
        assert replaced == 1, directive
    (directory / "site.conf").write_text(site)
    (directory / "nginx.conf").write_text(AROUND_THE_SITE.format(directory=directory))
    command = [program("nginx"), "-p", str(directory), "-e", "stderr"]
    with running(
        [*command, "-c", str(directory / "nginx.conf")], "start worker process ", directory
    ):
        yield port


@contextmanager
def open_caddy(directory: Path, server: int, http: int) -> Iterator[int]:
    """`docs/deploy/Caddyfile` before a server on these ports; yields the port of the proxy."""
    cert, key = write_certificate(directory)
    port = free_port()
    site = substituted(
        "Caddyfile",
        {
            f"\n{NAME} {{\n": f"\nhttps://127.0.0.1:{port} {{\n\tbind 127.0.0.1\n\ttls {cert} {key}\n",
            "127.0.0.1:8787": f"127.0.0.1:{server}",
            "127.0.0.1:8788": f"127.0.0.1:{http}",
        },
    )
    file = directory / "Caddyfile"
    file.write_text("{\n\tadmin off\n\tauto_https off\n}\n" + site)
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(file)]
    with running(command, "serving initial configuration", directory):
        yield port


def substituted(name: str, substitutions: dict[str, str]) -> str:
    """A file of `docs/deploy`, with what it has to be told of this machine; each has to be there."""
    text = (DEPLOY / name).read_text()
    for old, new in substitutions.items():
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    return text


@contextmanager
def running(command: Sequence[str | None], ready: str, home: Path) -> Iterator[None]:
    """A process that works once it has said `ready` on standard error; it ends with the block."""
    process = subprocess.Popen(  # noqa: S603 - a program of Debian
        command,
        env=os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    said: list[str] = []
    works = threading.Event()

    def listen() -> None:
        for line in process.stderr:
            said.append(line)
            if ready in line:
                works.set()
        works.set()

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        assert works.wait(PATIENCE), said
        assert ready in "".join(said), said
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)
        listener.join()
        process.stderr.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
