"""TLS of the server's own, with real processes, real certificates and clients of other people."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trio
import trustme

from certificates import NAME, authority, client_context, write_certificate
from handset import device, echo, exchange_large
from street import PATIENCE, TEXT, TOKEN, UPGRADE, environment, masked

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

MIB = 1 << 20


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """The settings that name a certificate, which lies in `tmp_path`."""
    cert, key = write_certificate(tmp_path)
    return {"MOBILE_TLS_CERT": cert, "MOBILE_TLS_KEY": key}


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    """The file of the authority, for programs that are told of it by SSL_CERT_FILE."""
    file = tmp_path / "authority.pem"
    authority().cert_pem.write_to_path(file)
    return str(file)


def serial_number(server) -> str:
    """That of the certificate which whoever connects now is shown."""
    with (
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as plain,
        client_context().wrap_socket(plain, server_hostname=NAME) as secured,
    ):
        return str(secured.getpeercert()["serialNumber"])


def test_a_client_of_other_people(serve, files):
    """Texts, 16 MiB upwards, 8 MiB downwards, and a closing handshake that is whole."""
    server = serve(**files)
    with device(server.url) as phone:
        exchange_large(phone)
        phone.close()
        assert phone.protocol.close_rcvd is not None
    assert not [line for line in server.log if line["level"] in {"error", "warning"}]


def test_the_conformance_suite(serve, files, trusted):
    """Nothing differs from what a server of the protocol does without TLS."""
    server = serve(**files)
    result = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "hermes_mobile", "conformance", server.url],
        env=environment(MOBILE_TOKEN=TOKEN, SSL_CERT_FILE=trusted),
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_commands_on_the_same_machine(serve, files, tmp_path):
    """They believe the certificate that lies there, whatever name it is for, and no other one."""
    server = serve(**files, MOBILE_HTTP_PORT=0)
    banner = [server.process.stdout.readline() for _ in range(3)]
    here = {**files, "MOBILE_PORT": server.port, "MOBILE_HTTP_PORT": banner[-1].split(":")[-1][:-2]}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "hermes_mobile", *arguments],
            env=environment(MOBILE_TOKEN=TOKEN, **here),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert (done := run("send", "--to", "phone", "--keep", "hello")).returncode == 0, done.stderr
    assert "ready" in run("status").stdout
    write_certificate(tmp_path, trustme.CA().issue_cert(NAME))
    refused = run("send", "--to", "phone", "--keep", "hello")
    assert refused.returncode == 5
    assert "certificate" in refused.stderr
    assert run("status").returncode == 5


def test_a_new_certificate_on_sighup(serve, files, tmp_path):
    """It is shown to who connects then; who is there stays; a broken one changes nothing."""
    server = serve(**files)
    before = serial_number(server)
    with device(server.url) as phone:
        write_certificate(tmp_path, authority().issue_cert(NAME, "127.0.0.1"))
        reload(server)
        renewed = serial_number(server)
        assert renewed != before
        echo(phone, "m1")
        files["MOBILE_TLS_KEY"].write_text("nothing")
        assert reload(server)["problem"].startswith("MOBILE_TLS_KEY must be a file in PEM format")
        assert serial_number(server) == renewed
        echo(phone, "m2")
        with device(server.url, "tablet") as tablet:
            echo(tablet, "m3")


def reload(server) -> dict[str, Any]:
    """Send SIGHUP; returns the line of the log that tells what came of it."""
    told = len(reloads(server))
    server.terminate(signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE
    while len(lines := reloads(server)) == told:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return lines[-1]


def reloads(server) -> list[dict[str, Any]]:
    return [line for line in server.log if line["event"].startswith("reload")]


def test_the_http_side(serve, files):
    """It is https, and the console learns of wss; who speaks plain HTTP there hears nothing."""
    server = serve(**files, MOBILE_HTTP_PORT=0)
    console = next(line for line in iter(server.process.stdout.readline, "") if "console" in line)
    url = console.split()[1]
    assert url.startswith("https://127.0.0.1:")
    with httpx.Client(base_url=url, verify=client_context()) as browser:
        assert browser.get("/healthz").text == "ok\n"
        assert browser.get("/config.json").json()["ws_url"] == server.url
        assert f"connect-src 'self' {server.url[:-3]};" in str(browser.get("/").headers)
    with pytest.raises(httpx.TransportError):
        httpx.get(url.replace("https", "http"))


async def test_handshakes_that_never_end(serve, files):
    """D4, D37: they end with the upgrade's time, and a good client notices nothing."""
    server = serve(**files, MOBILE_UPGRADE_TIMEOUT=2, MOBILE_MAX_PENDING_PER_ADDRESS=0)
    hello = bytes.fromhex("1603010100010000fc0303") + bytes(200)
    descriptors = server.descriptors
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        slow = [await stack.enter_async_context(server.call()) for _ in range(100)]

        async def drip(caller) -> None:
            for byte in hello:
                await caller.send(bytes((byte,)))
                await trio.sleep(0.1)

        async def hear_the_end(caller) -> None:
            with trio.fail_after(PATIENCE):
                with suppress(ConnectionResetError):  # a byte of it was on its way
                    assert await caller.socket.recv(1) == b""

        async def be_slow(caller) -> None:
            async with trio.open_nursery() as both:
                both.start_soon(swallow, drip, caller)
                await hear_the_end(caller)
                both.cancel_scope.cancel()

        started = trio.current_time()
        await trio.to_thread.run_sync(chat, server)
        async with trio.open_nursery() as callers:
            for caller in slow:
                callers.start_soon(be_slow, caller)
        assert trio.current_time() - started < 2 + PATIENCE / 2
        nursery.cancel_scope.cancel()
    with trio.fail_after(PATIENCE):
        while server.descriptors > descriptors:  # noqa: ASYNC110 - of another process
            await trio.sleep(0.01)


async def swallow(work, caller) -> None:
    try:
        await work(caller)
    except OSError:
        return


def chat(server) -> None:
    with device(server.url) as phone:
        echo(phone, "m1")


def test_a_slow_reader_gets_all_of_it(serve, files):
    """D5, D33: for longer than all timeouts together, because it moves."""
    server = serve(**files, MOBILE_WRITE_TIMEOUT=1, MOBILE_PING_INTERVAL=1, MOBILE_PING_TIMEOUT=1)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    plain.connect(("127.0.0.1", server.port))
    hello = {"t": "hello", "token": TOKEN, "device": {"id": "slow"}}
    ask = {"t": "text", "id": "m1", "text": f"/file {8 * MIB}"}
    with client_context().wrap_socket(plain, server_hostname=NAME) as phone:
        phone.settimeout(PATIENCE)
        phone.sendall(UPGRADE)
        for frame in (hello, ask):
            phone.sendall(masked(TEXT, json.dumps(frame).encode()))
        received, started = 0, time.monotonic()
        while received < 8 * MIB * 4 // 3:
            received += len(data := phone.recv(16 * 1024))
            assert data
            time.sleep(0.005)
        assert time.monotonic() - started > 3
