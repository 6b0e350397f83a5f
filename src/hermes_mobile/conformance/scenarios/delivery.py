"""Messages to a device from a service."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from hermes_mobile.conformance.difference import check
from hermes_mobile.conformance.playback import join_to_deliver
from hermes_mobile.conformance.scenario import scenario

if TYPE_CHECKING:
    from hermes_mobile.conformance.stage import Stage


@scenario("D25", reference=True)
async def a_text_and_a_file_arrive(stage: Stage) -> None:
    phone, cron = await stage.join("phone"), await join_to_deliver(stage)
    data = base64.b64encode(b"all well").decode()
    attachment = {"kind": "document", "mime": "text/plain", "filename": "log.txt", "data": data}
    await cron.send(delivery(stage, text="The backup is done.", media=attachment))
    await phone.expect("message", text="The backup is done.", final=True)
    file = await phone.expect("media", kind="document", filename="log.txt", final=True)
    check(file["data"], data, "data of the file")
    check(file["size"], len(b"all well"), "size of the file")


@scenario("D25")
async def a_delivery_keeps_its_id_and_changes_no_state(stage: Stage) -> None:
    phone, cron = await stage.join("phone"), await join_to_deliver(stage)
    await cron.send(delivery(stage, text="one"))
    frames = await phone.receive_until("message")
    check([frame["t"] for frame in frames], ["message"], "what the device gets")
    check(frames[0]["id"], "d1", "id of the message")
    await phone.send({"t": "ping", "ts": 1})
    frames = await phone.receive_until("pong")
    check([frame["t"] for frame in frames], ["pong"], "what the device gets then")


@scenario("D25", reference=True)
async def a_device_that_is_away(stage: Stage) -> None:
    cron = await join_to_deliver(stage)
    await cron.send(delivery(stage, text="one"))
    await cron.expect("error", code="device_offline", fatal=False, id="d1")


@scenario("D25")
async def pong_comes_after_the_outcome(stage: Stage) -> None:
    cron = await join_to_deliver(stage)
    await cron.send(delivery(stage, text="one"))
    await cron.send({"t": "ping", "ts": 1})
    await cron.expect("error", code="device_offline", id="d1")
    await cron.expect("pong", ts=1)


@scenario("D25")
async def the_address_of_a_device_may_be_its_bare_id(stage: Stage) -> None:
    phone, cron = await stage.join("phone"), await join_to_deliver(stage)
    await cron.send(delivery(stage, target=stage.device("phone"), text="one"))
    await phone.expect("message", text="one")


@scenario("D25", "D32")
async def a_delivery_that_may_wait_is_told_on_return(stage: Stage) -> None:
    cron = await join_to_deliver(stage)
    await cron.send(delivery(stage, text="one", keep=True))
    await cron.expect_nothing()
    phone = await stage.join("phone")
    await phone.expect("message", id="d1", text="one")


@scenario("D38", needs=("receipts",))
async def a_delivery_is_confirmed(stage: Stage) -> None:
    phone = await stage.join("phone")
    cron = await join_to_deliver(stage, receipts=True)
    await cron.send(delivery(stage, text="one"))
    await cron.expect("accepted", id="d1")
    await phone.expect("message", text="one")
    await cron.expect("delivered", id="d1", device=stage.device("phone"))


def delivery(stage: Stage, **fields: Any) -> dict[str, Any]:
    """A `deliver` frame for this scenario's phone."""
    return {"t": "deliver", "id": "d1", "target": f"mobile:{stage.device('phone')}", **fields}
