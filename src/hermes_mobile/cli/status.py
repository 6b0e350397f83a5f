"""`hermes-mobile status`."""

from __future__ import annotations

import http.client
import json
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
from prometheus_client.parser import text_string_to_metric_families

from hermes_mobile.cli import operator, remote
from hermes_mobile.cli.conventions import config_option, examples, version_option

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from ssl import SSLContext

    from prometheus_client.samples import Sample

HTTP_SECONDS: Final = 5.0
MINUTE, HOUR, DAY = 60, 3600, 86_400


@click.command(epilog=examples("hermes-mobile status", "hermes-mobile status --json"))
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON, for machines.")
@config_option
@version_option
def status(as_json: bool, config: Path | None) -> None:
    """Show how the server is doing.

    It is asked on its admin socket, or, where that is not there or for others, through its HTTP side,
    which knows a little less.

    The exit status is 0, 5 when there is no server.
    """
    found = find(config)
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in lines(found):
        click.echo(f"{name:12}{value}")


def find(config: Path | None) -> dict[str, Any]:
    """*Errors*: as of `operator.ask`, and NoServerError."""
    try:
        found = remote.run(partial(operator.ask, config, "status"))
    except operator.NotPermittedError:
        if not remote.setting("MOBILE_HTTP_PORT", config):
            raise
        found = None
    return from_http(config) if found is None else found


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is found, for a person."""
    agent, sessions = found["agent"], found["sessions"]
    yield "version", found["version"]
    if found.get("url"):
        yield "listens on", found["url"]
    if found.get("uptime_seconds") is not None:
        yield "up", duration(found["uptime_seconds"])
    if found["stopping"]:
        yield "state", "stopping"
    readiness = "ready" if agent["ready"] else "not ready"
    yield "agent", ", ".join(filter(None, (agent.get("name"), readiness)))
    yield "connections", f"{found['connections']}"
    yield "sessions", f"{sessions['connected']} connected, {sessions['away']} away"
    yield "turns", f"{found['turns_running']} running, {found['messages_waiting']} messages waiting"
    yield "cards", f"{found['cards_open']} open"
    yield "kept", f"{found['units_kept']} units, {found['units_kept_bytes']} bytes"


def duration(seconds: int) -> str:
    """In the two largest units that say something."""
    days, hours, minutes = seconds // DAY, seconds % DAY // HOUR, seconds % HOUR // MINUTE
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds % MINUTE} s"


def from_http(config: Path | None) -> dict[str, Any]:
    """What health and metrics tell of a server with these settings on this machine.

    *Errors*: NoServerError.
    """
    host, port = (remote.setting(f"MOBILE_HTTP_{name}", config) for name in ("HOST", "PORT"))
    if not port:
        raise remote.NoServerError("no server: it has no admin socket here, and no HTTP side")
    tls = remote.trust(None, config)
    try:
        ready, _ = get(host, port, tls, "/readyz")
        _, metrics = get(host, port, tls, "/metrics")
        figures = {
            (sample.name.removeprefix("hermes_mobile_"), *sample.labels.values()): sample
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
        }
        return of_figures(figures, ready=ready == HTTPStatus.OK)
    except OSError as error:
        raise remote.NoServerError(f"no server: {host}, port {port}: {error.strerror}") from None
    except (http.client.HTTPException, ValueError, KeyError):
        raise remote.NoServerError(f"no server: what answers on port {port} is another") from None


def get(host: str, port: int, tls: SSLContext | None, path: str) -> tuple[int, str]:
    address = remote.dialled(host), port
    connection = (
        http.client.HTTPConnection(*address, timeout=HTTP_SECONDS)
        if tls is None
        else http.client.HTTPSConnection(*address, timeout=HTTP_SECONDS, context=tls)
    )
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def of_figures(figures: dict[tuple[str, ...], Sample], *, ready: bool) -> dict[str, Any]:
    """The same as the admin socket tells, as far as metrics know it. *Errors*: KeyError, ValueError."""

    def number(*key: str) -> int:
        return int(figures[key].value)

    (build,) = (sample for key, sample in figures.items() if key[0] == "build_info")
    started = figures.get(("process_start_time_seconds",))
    return {
        "version": build.labels["version"],
        "uptime_seconds": None if started is None else max(0, int(time.time() - started.value)),
        "stopping": False,
        "agent": {"ready": ready},
        "connections": number("connections_open"),
        "sessions": {state: number("sessions", state) for state in ("connected", "away")},
        "turns_running": number("turns_running"),
        "messages_waiting": number("messages_waiting"),
        "cards_open": number("cards_open"),
        "units_kept": number("units_kept"),
        "units_kept_bytes": number("units_kept_bytes"),
    }
