"""From TCP to a WebSocket, or not: what this port answers to everything else, and by when (D1, D4)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_mobile.server.upgrade import DISCARD_SECONDS, MAX_REQUEST_BYTES
from house import House, Peer, open_house

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trio.testing import MockClock

UPGRADE = {
    "Host": "test",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
WHAT_THIS_IS = b"hermes-mobile: this port speaks WebSocket, at /ws\n"


def request(target: str = "/ws", method: str = "GET", **headers: str | None) -> bytes:
    """A request; without `headers` a good one. A header that is None is left out."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in (UPGRADE | named).items() if value is not None]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("latin-1")


PLAIN = {"Upgrade": None, "Connection": None}


async def read_all(peer: Peer) -> bytes:
    """Everything until the server ends its side."""
    received = b""
    while data := await peer.stream.receive_some():
        received += data
    return received


async def exchange(house: House, sent: bytes) -> tuple[bytes, bytes]:
    """What the server answers to `sent`: head and body; it ends its side at once."""
    started = trio.current_time()
    peer = house.plug()
    await peer.stream.send_all(sent)
    head, _, body = (await read_all(peer)).partition(b"\r\n\r\n")
    assert trio.current_time() == started
    await peer.vanish()
    await wait_all_tasks_blocked()
    assert trio.current_time() == started
    assert not house.hub.connections
    return head, body


@contextmanager
def ends(logs: list[dict[str, Any]], *why: str) -> Iterator[None]:
    """All connections of the block end for the reasons `why`, and nothing else is logged of them."""
    logs.clear()
    yield
    assert [(entry["event"], entry.get("end")) for entry in logs] == [
        ("connection", reason) for reason in why
    ]


# What is no upgrade


@pytest.mark.parametrize("target", ["/", "/wsx", "/ws/", "/metrics", "/?path=/ws", "/WS"])
@pytest.mark.parametrize("headers", [PLAIN, {}])
async def test_another_path_is_404(
    autojump_clock: MockClock, target: str, headers: dict[str, None], logs: list[dict[str, Any]]
) -> None:
    """D1: 404 for every path but one, upgrade or not, with one line that says what this port is."""
    with ends(logs, "http 404"):
        async with open_house() as house:
            head, body = await exchange(house, request(target, **headers))
    assert head.startswith(b"HTTP/1.1 404 Not Found\r\n")
    assert b"\r\nConnection: close" in head
    assert body == WHAT_THIS_IS


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS"])
async def test_a_plain_request_on_the_path_is_426(
    autojump_clock: MockClock, method: str, logs: list[dict[str, Any]]
) -> None:
    """D1: a browser that looks at the port learns that it speaks WebSocket, and is let go at once."""
    with ends(logs, "http 426"):
        async with open_house() as house:
            head, body = await exchange(house, request("/ws?token=x", method, **PLAIN))
    assert head.startswith(b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body == WHAT_THIS_IS


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),  # a TLS ClientHello
        b"\x00",
        b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"GET /ws\r\n\r\n",
        b"GET /ws FTP/1.1\r\n\r\n",
        b"GET  /ws HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_400(
    autojump_clock: MockClock, garbage: bytes, logs: list[dict[str, Any]]
) -> None:
    """D1, D4: TLS on a plain port, scanners and noise are told what this is, and freed at once."""
    with ends(logs, "http 400"):
        async with open_house() as house:
            head, body = await exchange(house, garbage)
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert body == WHAT_THIS_IS


async def test_the_line_names_the_path_that_is_set(autojump_clock: MockClock) -> None:
    """D1: an operator's own path is the one that answers, and the one that is told."""
    async with open_house(path="/talk") as house:
        _, body = await exchange(house, request("/ws"))
        assert body == b"hermes-mobile: this port speaks WebSocket, at /talk\n"
        peer = house.plug()
        await peer.upgrade("/talk")
        assert peer.http_status is None


async def test_a_query_is_ignored_and_never_logged(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D1, D39: a token in the URL admits nobody and stands in no log."""
    async with open_house() as house:
        peer = house.plug()
        await peer.upgrade("/ws?token=secret-token&x=1")
        await peer.send({"t": "hello", "device": {"id": "phone"}})
        error = await peer.expect("error")
        assert error["code"] == "auth_failed"
        await peer.wait_closed()
        await exchange(house, request("/elsewhere?token=secret-token"))
    assert logs
    assert "secret-token" not in str(logs)
    assert "elsewhere" not in str(logs)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"Sec_WebSocket_Version": "8"}, 426),
        ({"Sec_WebSocket_Version": None}, 426),
        ({"Upgrade": "h2c"}, 426),
        ({"Sec_WebSocket_Key": None}, 400),
        ({"Connection": None}, 400),
        ({"Connection": "keep-alive"}, 400),
        ({"Host": None}, 400),
        ({"Host": "a\0b"}, 400),
        ({"X_Bad": "\x01"}, 400),
        ({"X_Bad": "folded\r\n\nSec-WebSocket-Key: two"}, 400),
        ({"X_Bad": "y\r\nSec-WebSocket-Key: two"}, 400),
        ({"method": "POST"}, 400),
    ],
)
async def test_a_bad_upgrade_frees_its_task_at_once(
    autojump_clock: MockClock,
    wrong: dict[str, str | None],
    status: int,
    logs: list[dict[str, Any]],
) -> None:
    """D1, D4: it is answered in words, and nothing waits for the upgrade's deadline."""
    with ends(logs, f"http {status}"):
        async with open_house() as house:
            head, body = await exchange(house, request(**wrong))
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (b"\r\nSec-WebSocket-Version: 13\r\n" in head) == (status == 426)
    assert body == WHAT_THIS_IS


@pytest.mark.parametrize(
    "odd",
    [
        {"Host": "\xff"},
        {"Host": "x" * 300 + ".example"},
        {"Connection": "keep-alive, Upgrade"},
        {"Upgrade": "WebSocket"},
        {"Sec_WebSocket_Protocol": "\xe9,,"},
        {"Sec_WebSocket_Extensions": "permessage-deflate; client_max_window_bits"},
        {"Sec_WebSocket_Extensions": "\xe9"},
        {"Sec_WebSocket_Key": "odd but a key"},
        {"Content_Length": "5"},
        {"Transfer_Encoding": "chunked"},
        {"Expect": "100-continue"},
    ],
)
async def test_an_odd_upgrade_is_an_upgrade(
    autojump_clock: MockClock, odd: dict[str, str], logs: list[dict[str, Any]]
) -> None:
    """D1, D3: what does not matter here breaks nothing, and compression is never agreed to."""
    async with open_house() as house:
        peer = house.plug()
        await peer.stream.send_all(request(**odd))
        head = await peer.stream.receive_some()
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"extensions" not in head.lower()
        assert logs == []


# The limit on the head


def head_of(size: int) -> bytes:
    """A good upgrade request of exactly `size` bytes."""
    filler = size - len(request(X_Filler=""))
    return request(X_Filler="x" * filler)


@pytest.mark.parametrize("step", [100, 4096, MAX_REQUEST_BYTES])
async def test_a_head_may_have_16_kib(autojump_clock: MockClock, step: int) -> None:
    """D4: exactly 16384 bytes are taken, however they arrive."""
    async with open_house() as house:
        peer = house.plug()
        head = head_of(MAX_REQUEST_BYTES)
        for start in range(0, len(head), step):
            await peer.stream.send_all(head[start : start + step])
            await wait_all_tasks_blocked()
        answer = await peer.stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("step", [100, 4096, 2 * MAX_REQUEST_BYTES])
async def test_a_longer_head_is_431(
    autojump_clock: MockClock, step: int, logs: list[dict[str, Any]]
) -> None:
    """D4: one byte more is refused, however it arrives, complete or not."""
    with ends(logs, "http 431"):
        async with open_house() as house:
            peer = house.plug()
            head = head_of(MAX_REQUEST_BYTES + 1)
            for start in range(0, len(head), step):
                await peer.stream.send_all(head[start : start + step])
                await wait_all_tasks_blocked()
            answer = await read_all(peer)
            assert answer.startswith(b"HTTP/1.1 431 ")
            assert answer.endswith(WHAT_THIS_IS)
            await peer.vanish()
            await wait_all_tasks_blocked()


async def test_frames_may_come_with_the_upgrade(autojump_clock: MockClock) -> None:
    """D4: what a hasty peer sends behind its request, in the same segment, is not lost."""
    async with open_house() as house:
        peer = house.plug()
        hello = b'{"t":"hello","token":"secret-token","device":{"id":"phone"}}'
        ping = b'{"t":"ping","ts":1}'
        frames = b"".join(
            bytes((0x81, 0x80 | len(text), 0, 0, 0, 0)) + text for text in (hello, ping)
        )
        await peer.stream.send_all(request() + frames)
        answer = b""
        while b'"pong"' not in answer:
            data = await peer.stream.receive_some()
            assert data, answer
            answer += data
        assert answer.index(b" 101 ") < answer.index(b'"ready"') < answer.index(b'"pong"')


# Deadlines


@pytest.mark.parametrize("half", [b"", b"G", request()[:60], request()[:-1]])
async def test_half_an_upgrade_is_dropped_at_15_s(
    autojump_clock: MockClock, half: bytes, logs: list[dict[str, Any]]
) -> None:
    """D4: exactly 15 s from the start, with nothing said, and the task is gone."""
    with ends(logs, "no upgrade"):
        async with open_house() as house:
            peer = house.plug()
            await peer.stream.send_all(half)
            assert await read_all(peer) == b""
            assert trio.current_time() == 15.0
            await wait_all_tasks_blocked()
            assert not house.hub.connections


async def test_a_peer_that_drips_bytes_does_not_move_the_deadline(
    autojump_clock: MockClock,
) -> None:
    """D4: a byte every two seconds is no upgrade in 15 s."""
    async with open_house() as house:
        peer = house.plug()

        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def drip() -> None:
                for byte in request():
                    await trio.sleep(2)
                    await peer.stream.send_all(bytes([byte]))

            assert await read_all(peer) == b""
            assert trio.current_time() == 15.0
            nursery.cancel_scope.cancel()


async def test_the_deadline_is_a_setting(autojump_clock: MockClock) -> None:
    """D4: MOBILE_UPGRADE_TIMEOUT."""
    async with open_house(upgrade_timeout=2.5) as house:
        assert await read_all(house.plug()) == b""
        assert trio.current_time() == 2.5


async def test_a_refused_peer_that_stays_is_left_after_a_second(
    autojump_clock: MockClock,
) -> None:
    """D4: it is listened to while it may be reading the answer, not for longer."""
    async with open_house() as house:
        peer = house.plug()
        await peer.stream.send_all(request("/"))
        await read_all(peer)
        while house.hub.connections:
            await peer.stream.send_all(b"x")
            await trio.sleep(0.1)
        assert trio.current_time() == pytest.approx(DISCARD_SECONDS, abs=0.1)


# Peers that leave


@pytest.mark.parametrize("sent", [b"", b"GET", request()[:-2]])
async def test_a_peer_that_leaves_early_is_no_fault(
    autojump_clock: MockClock, sent: bytes, logs: list[dict[str, Any]]
) -> None:
    """D4: scanners come and go; that ends their task at once and is worth one line, no error."""
    with ends(logs, "no upgrade"):
        async with open_house() as house:
            peer = house.plug()
            await peer.stream.send_all(sent)
            await peer.vanish()
            await wait_all_tasks_blocked()
            assert not house.hub.connections


@pytest.mark.parametrize(
    ("sent", "why"), [(request("/"), "http 404"), (b"\0", "http 400"), (request(), "lost")]
)
async def test_a_peer_that_does_not_wait_for_its_answer_is_no_fault(
    autojump_clock: MockClock, sent: bytes, why: str, logs: list[dict[str, Any]]
) -> None:
    """D4, D35: an answer that nobody reads breaks nothing and logs no error."""
    with ends(logs, why):
        async with open_house() as house:
            peer = house.plug()
            await peer.stream.send_all(sent)
            await peer.vanish()
            await wait_all_tasks_blocked()
            assert not house.hub.connections


async def test_a_reset_within_the_upgrade_is_no_fault(
    autojump_clock: MockClock, logs: list[dict[str, Any]]
) -> None:
    """D4, D35: a broken socket before the WebSocket is a lost peer."""
    with ends(logs, "lost"):
        async with open_house() as house:
            peer = house.plug()
            [connection] = await started(house)
            await peer.stream.send_all(b"GET /ws HTTP/1.1\r\n")
            await wait_all_tasks_blocked()
            connection._stream.socket.send(b"unread")  # closing over it resets
            await peer.vanish()
            await wait_all_tasks_blocked()
            assert not house.hub.connections


async def started(house: House) -> list[Any]:
    await wait_all_tasks_blocked()
    return list(house.hub.connections)
