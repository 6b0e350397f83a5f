"""The certificate and its key: mistakes are told in one line, and a reload takes a new pair."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from certificates import NAME, authority, client_context, write_certificate
from hermes_mobile.server.hub import Address
from hermes_mobile.server.loading import load_settings
from hermes_mobile.server.overview import warnings
from hermes_mobile.server.reload import reload
from hermes_mobile.server.settings import Settings, SettingsError
from house import faults, open_house

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-that-nobody-guesses"


def load(cert: Path | None, key: Path | None, **environ: str) -> Settings:
    files = {"MOBILE_TLS_CERT": cert, "MOBILE_TLS_KEY": key}
    given = {name: str(file) for name, file in files.items() if file is not None}
    return load_settings(None, {"MOBILE_TOKEN": TOKEN, **given, **environ})


def refused(cert: Path | None, key: Path | None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(cert, key)
    message = str(caught.value)
    assert "\n" not in message
    return message


def serial_of(settings: Settings) -> str:
    """The serial number of the certificate that a client is shown."""
    assert settings.tls is not None
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = settings.tls.wrap_bio(ours, theirs, server_side=True)
    client = client_context().wrap_bio(theirs, ours, server_hostname=NAME)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return str(client.getpeercert()["serialNumber"])


def test_a_pair_is_loaded(tmp_path: Path) -> None:
    """TLS 1.2 or later, and HTTP/1.1 for whoever asks; the warning about an open port is gone."""
    settings = load(*write_certificate(tmp_path), MOBILE_HOST="::")
    assert settings.tls is not None
    assert settings.tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert settings.tls.options & ssl.OP_NO_RENEGOTIATION
    assert serial_of(settings)
    assert warnings(settings) == []
    assert "unencrypted" in warnings(load(None, None, MOBILE_HOST="::"))[0]


def test_a_secure_address_says_so() -> None:
    """In the banner, and in what the console is told."""
    assert Address("::1", 8787, "/ws", secure=True).url == "wss://[::1]:8787/ws"


def test_both_or_neither(tmp_path: Path) -> None:
    """One alone is a mistake, whichever it is."""
    cert, key = write_certificate(tmp_path)
    for pair in ((cert, None), (None, key)):
        problem = "MOBILE_TLS_CERT and MOBILE_TLS_KEY must both be set, or neither"
        assert refused(*pair) == problem


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """By the setting and the path, which is no secret."""
    cert, key = write_certificate(tmp_path)
    absent = tmp_path / "absent"
    assert refused(absent, key) == (
        f"MOBILE_TLS_CERT cannot be read: No such file or directory ({absent})"
    )
    assert refused(cert, tmp_path) == (
        f"MOBILE_TLS_KEY cannot be read: Is a directory ({tmp_path})"
    )


def test_what_is_no_pem_is_named(tmp_path: Path) -> None:
    """Files that were given the wrong way round, for instance; and PEM that holds nothing."""
    cert, key = write_certificate(tmp_path)
    assert refused(key, cert) == f"MOBILE_TLS_CERT must be a file in PEM format ({key})"
    assert refused(cert, cert) == f"MOBILE_TLS_KEY must be a file in PEM format ({cert})"
    cert.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n")
    assert refused(cert, key).endswith("must be a certificate in PEM and its key")


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    """A pair that was half renewed."""
    cert, key = write_certificate(tmp_path)
    trustme.CA().issue_cert(NAME).private_key_pem.write_to_path(key)
    assert refused(cert, key) == "MOBILE_TLS_KEY must be the key of MOBILE_TLS_CERT"


def test_a_key_with_a_password_is_refused(tmp_path: Path) -> None:
    """Nobody is asked for it."""
    cert, key = write_certificate(tmp_path)
    plain = load_pem_private_key(key.read_bytes(), None)
    form = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    key.write_bytes(plain.private_bytes(*form))
    assert refused(cert, key) == "MOBILE_TLS_KEY must be a key without a password"


async def test_a_reload_takes_a_new_certificate(tmp_path: Path, logs: list[dict[str, Any]]) -> None:
    """The paths are the same; whoever connects is shown the new one."""
    cert, key = write_certificate(tmp_path)
    async with open_house() as house:
        house.hub.apply(load(cert, key))
        before = serial_of(house.hub.settings)
        write_certificate(tmp_path, authority().issue_cert(NAME))
        assert await reload(house.hub, lambda _: load(cert, key))
        assert serial_of(house.hub.settings) != before
    assert faults(logs) == []


async def test_a_broken_pair_keeps_the_old_one(tmp_path: Path, logs: list[dict[str, Any]]) -> None:
    """And all other settings with it: a reload happens whole or not at all."""
    cert, key = write_certificate(tmp_path)
    async with open_house() as house:
        house.hub.apply(before := load(cert, key))
        key.write_bytes(b"")
        assert not await reload(house.hub, lambda _: load(cert, key, MOBILE_PROMPT_TTL="5"))
        assert house.hub.settings is before
    (fault,) = faults(logs)
    assert fault["problem"].startswith("MOBILE_TLS_KEY must be")


@pytest.mark.parametrize("begins", [True, False])
async def test_tls_begins_and_ends_with_a_restart(
    tmp_path: Path, logs: list[dict[str, Any]], begins: bool
) -> None:
    """Clients have to know before: another scheme is another address."""
    pair = write_certificate(tmp_path)
    before, after = load(None, None), load(*pair)
    if not begins:
        before, after = after, before
    async with open_house() as house:
        house.hub.apply(before)
        assert await reload(house.hub, lambda _: after)
        assert house.hub.settings == before
        assert house.hub.settings.tls is before.tls
    (told,) = [entry for entry in logs if entry["event"] == "reloaded"]
    assert told["need_restart"] == ["MOBILE_TLS_CERT", "MOBILE_TLS_KEY"]
