"""The peer on websockets, on uvloop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from bench.peers.work import (
    HOST,
    PING_SECONDS,
    POLICY_VIOLATION,
    Conversation,
    RefusedError,
    Service,
    announce,
)
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES


async def talk(service: Service, socket: ServerConnection) -> None:
    conversation = Conversation(service)
    with suppress(ConnectionClosed):
        while True:
            data = await socket.recv(decode=False)
            try:
                for frame in conversation.hear(data):
                    await socket.send(frame, text=True)
            except RefusedError as refusal:
                await socket.send(refusal.frame, text=True)
                if refusal.fatal:
                    await socket.close(POLICY_VIOLATION, refusal.code)


async def main() -> None:
    async with serve(
        partial(talk, Service()),
        HOST,
        0,
        max_size=MAX_FRAME_BYTES,
        compression=None,
        ping_interval=PING_SECONDS,
    ) as server:
        announce(next(iter(server.sockets)).getsockname()[1])
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
