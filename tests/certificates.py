"""Certificates for tests of TLS, from an authority that exists as long as the tests run."""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from pathlib import Path

NAME = "localhost"


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def certificate() -> trustme.LeafCert:
    return authority().issue_cert(NAME, "127.0.0.1")


@cache
def server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate().configure_cert(context)
    return context


def client_context(version: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED) -> ssl.SSLContext:
    """What trusts the authority, and speaks at most `version`."""
    context = ssl.create_default_context()
    context.maximum_version = version
    authority().configure_trust(context)
    return context


def write_certificate(directory: Path, issued: trustme.LeafCert | None = None) -> tuple[Path, Path]:
    """The files of a certificate, by default the one of the tests, and of its key."""
    issued = issued or certificate()
    chain, key = directory / "fullchain.pem", directory / "privkey.pem"
    chain.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return chain, key
