"""Settings and access file, read anew while the server runs (SIGHUP): for what begins next.

A reload happens whole or not at all. Connections notice nothing of it, but for those whose token, or
whose device's place on the allow-list, was withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import evolve, field, frozen

from hermes_mobile.server.devices import AccessFileError
from hermes_mobile.server.loading import check_roles
from hermes_mobile.server.overview import warnings
from hermes_mobile.server.settings import VARIABLES, Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_mobile.server.hub import Hub

log = structlog.get_logger()

FIXED_SOURCES = frozenset({"environment", "credentials"})
"""Where a process finds the same until it is started again."""
TLS = frozenset({"tls_cert", "tls_key"})
"""A renewed certificate is taken; but whether there is one at all, clients have to know before."""


@frozen
class Change:
    """What a reload does to the settings; all names are variables."""

    settings: Settings = field(repr=False)
    applied: list[str]
    need_restart: list[str]
    """They differ, and stay as they are until then."""
    not_read_again: list[str]
    """They come from the environment or from credentials."""


async def reload(hub: Hub, read: Callable[[str | None], Settings]) -> bool:
    """Apply what `read` finds now; returns whether there was nothing wrong with it.

    `read` is given the token that was made up for this run, if one was (D36); it runs in a thread.
    """
    before = hub.settings
    made_token = before.token if before.token_made else None
    try:
        found = await trio.to_thread.run_sync(read, made_token, abandon_on_cancel=True)
        change = compare(before, found)
        check_roles(change.settings)  # the agent's token stays as it was
        await hub.devices.reload()
    except (SettingsError, AccessFileError) as error:
        log.error("reload refused", problem=str(error))
        return False
    hub.apply(change.settings)
    log.info(
        "reloaded",
        applied=change.applied,
        need_restart=change.need_restart,
        not_read_again=change.not_read_again,
        closed=hub.close_withdrawn(),
    )
    for warning in warnings(change.settings):
        log.warning("configuration", warning=warning)
    return True


def compare(before: Settings, found: Settings) -> Change:
    """What becomes of the settings `before` when these were `found`.

    *Errors*: SettingsError when a token would have to be made up: nobody would be told of it.
    """
    if found.token_made and not before.token_made:
        raise SettingsError("MOBILE_TOKEN must be set: one is made up at the start only")
    kept: dict[str, Any] = {}
    applied, need_restart = [], []
    switched = TLS if (before.tls is None) is not (found.tls is None) else ()
    for variable, attribute in VARIABLES.items():
        old = getattr(before, attribute.name)
        if getattr(found, attribute.name) == old:
            continue
        if attribute.metadata["restart"] or attribute.name in switched:
            kept[attribute.name] = old
            need_restart.append(variable)
        else:
            applied.append(variable)
    if switched:
        kept["tls"] = before.tls
    not_read_again = [name for name in VARIABLES if found.sources.get(name) in FIXED_SOURCES]
    return Change(evolve(found, **kept), applied, need_restart, not_read_again)
