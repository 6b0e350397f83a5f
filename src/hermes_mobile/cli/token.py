"""`hermes-mobile token`."""

from __future__ import annotations

import secrets

import click

from hermes_mobile.cli.conventions import examples, version_option


@click.command(
    epilog=examples(
        "hermes-mobile token",
        "MOBILE_TOKEN=$(hermes-mobile token) hermes-mobile serve",
    )
)
@version_option
def token() -> None:
    """Print a fresh random token."""
    click.echo(secrets.token_urlsafe(32))
