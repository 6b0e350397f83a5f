"""The peer on picows, on uvloop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import uvloop
from picows import WSCloseCode, WSListener, WSMsgType, ws_create_server

from bench.peers.work import (
    HOST,
    PING_SECONDS,
    Conversation,
    RefusedError,
    Service,
    announce,
)
from hermes_mobile.protocol.limits import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from picows import WSFrame, WSTransport, WSUpgradeRequest


class Phone(WSListener):
    def __init__(self, service: Service) -> None:
        self._conversation = Conversation(service)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            return
        try:
            for answer in self._conversation.hear(frame.get_payload_as_memoryview()):
                transport.send(WSMsgType.TEXT, answer)
        except RefusedError as refusal:
            transport.send(WSMsgType.TEXT, refusal.frame)
            if refusal.fatal:
                transport.send_close(WSCloseCode.POLICY_VIOLATION, refusal.code.encode())
                transport.disconnect()


async def main() -> None:
    service = Service()

    def answer(_: WSUpgradeRequest) -> Phone:
        return Phone(service)

    server = await ws_create_server(
        answer,
        HOST,
        0,
        max_frame_size=MAX_FRAME_BYTES,
        enable_auto_ping=True,
        auto_ping_idle_timeout=PING_SECONDS,
    )
    announce(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
