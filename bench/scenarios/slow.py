"""A tenth of the peers read 1 kB/s: what the others notice, and what it costs.

The others' turns are measured alone first, then beside the slow peers, each of which has asked for a
megabyte. They are let go after the window; nothing of theirs may fail before.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import orjson

from bench.echo import Echo, last_turns
from bench.plan import Load
from bench.scenario import Figure, Scenario
from bench.worker import background

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.device import Frame
    from bench.run import Run
    from bench.worker import Worker

ONE_IN: Final = 10
BYTES_PER_SECOND: Final = 1000
RECEIVE_BUFFER_BYTES: Final = 4096
"""So small that the kernel does not read in the peer's place."""
TEXT: Final = 0x81
MASKED: Final = 0x80
EXTENDED: Final = 126
"""Lengths from here have two bytes of their own."""


async def drive(worker: Worker) -> None:
    load = worker.load
    slow = [number for number in worker.numbers if number % ONE_IN == ONE_IN - 1]
    devices = await worker.open_devices(Echo, sorted(set(worker.numbers) - set(slow)))
    for device in devices:
        device.begin(load.depth)
    await asyncio.sleep(load.warmup)
    async with worker.window("alone"):
        await asyncio.sleep(load.seconds / 2)
    async with background([read_slowly(worker, number) for number in slow]):
        await asyncio.sleep(load.warmup)
        async with worker.window("beside"):
            await asyncio.sleep(load.seconds)
    await last_turns(devices)
    await worker.close_devices(devices)


async def read_slowly(worker: Worker, number: int) -> None:
    """Ask for a megabyte and take it at a kilobyte per second, for ever."""
    url = urlsplit(worker.target.url)
    secure = url.scheme == "wss"
    port = url.port or (443 if secure else 80)
    sock = socket.socket(socket.AF_INET6 if ":" in (url.hostname or "") else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    sock.setblocking(False)
    source = worker.target.source(number)
    if source is not None:
        sock.bind((source, 0))
    await asyncio.get_running_loop().sock_connect(sock, (url.hostname or "", port))
    reader, writer = await asyncio.open_connection(
        sock=sock,
        limit=BYTES_PER_SECOND,
        ssl=ssl.create_default_context() if secure else None,
        server_hostname=url.hostname if secure else None,
    )
    writer.write(
        f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    identity = worker.target.identity(number)
    await reader.readuntil(b"\r\n\r\n")
    writer.write(masked({"t": "hello", "token": identity.token, "device": {"id": identity.id}}))
    writer.write(masked({"t": "text", "id": "slow", "text": "/long 1000000"}))
    while not reader.at_eof():
        await reader.read(BYTES_PER_SECOND)
        await asyncio.sleep(1)
    worker.error("closed slow")


def masked(frame: Frame) -> bytes:
    """A text frame whose mask changes nothing."""
    payload = orjson.dumps(frame)
    if len(payload) < EXTENDED:
        head = bytes((TEXT, MASKED | len(payload)))
    else:
        head = bytes((TEXT, MASKED | EXTENDED)) + len(payload).to_bytes(2)
    return head + bytes(4) + payload


def figures(run: Run) -> Iterator[Figure]:
    alone, beside = run.windows["alone"], run.windows["beside"]
    for percent in (50.0, 99.0):
        before, after = alone.percentile("turn", percent), beside.percentile("turn", percent)
        if before:
            yield Figure(f"p{percent:g} beside / alone", after / before)
    if alone.after is not None and beside.after is not None:
        more = (beside.after.rss - alone.after.rss) / max(run.load.connections // ONE_IN, 1)
        yield Figure("memory per slow peer", more / 1024, "KiB")


SLOW: Final = Scenario(
    name="slow",
    unit="turn",
    about=__doc__,
    load=Load(connections=50, seconds=20.0),
    tiny=Load(connections=10, seconds=1.0, warmup=0.2, sample=2),
    options=("connections", "depth", "seconds", "warmup", "size", "sample", "any_reply"),
    drive=drive,
    figures=figures,
)
