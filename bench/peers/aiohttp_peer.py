"""The peer on aiohttp, on the event loop that it comes with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import WSMsgType, web

from bench.peers.work import (
    HOST,
    PATH,
    PING_SECONDS,
    POLICY_VIOLATION,
    Conversation,
    RefusedError,
    Service,
    announce,
)
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def serve_with(service: Service) -> Callable[[web.Request], Awaitable[web.WebSocketResponse]]:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(
            max_msg_size=MAX_FRAME_BYTES,
            compress=False,
            heartbeat=PING_SECONDS,
            decode_text=False,
        )
        await socket.prepare(request)
        conversation = Conversation(service)
        async for message in socket:
            try:
                for frame in conversation.hear(message.data):
                    await socket.send_frame(frame, WSMsgType.TEXT)
            except RefusedError as refusal:
                await socket.send_frame(refusal.frame, WSMsgType.TEXT)
                if refusal.fatal:
                    await socket.close(code=POLICY_VIOLATION, message=refusal.code.encode())
        return socket

    return serve


async def main() -> None:
    app = web.Application()
    app.router.add_get(PATH, serve_with(Service()))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    announce(runner.addresses[0][1])
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
