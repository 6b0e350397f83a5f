"""The vectors as scenarios: first frames, later frames, exchanges."""

from __future__ import annotations

import base64
import json
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

from hermes_mobile.conformance.difference import check, check_that
from hermes_mobile.conformance.scenario import Scenario, Skip
from hermes_mobile.conformance.vectors import read, spell_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hermes_mobile.conformance.connection import Connection
    from hermes_mobile.conformance.scenario import Play
    from hermes_mobile.conformance.stage import Stage

Vector: TypeAlias = "dict[str, Any]"


def of_all_vectors() -> Iterator[Scenario]:
    for vector in read("hello.json"):
        yield made("hello", vector, partial(play_first_frame, vector))
    for vector in read("app-frames.json"):
        yield made("frames", vector, partial(play_frame, vector))
    for vector in read("exchanges.json"):
        yield made("exchanges", vector, partial(play_exchange, vector))


def made(group: str, vector: Vector, play: Play) -> Scenario:
    needs = set(vector.get("needs", ()))
    return Scenario(
        group=group,
        name=vector["name"],
        rules=tuple(vector["rule"]),
        reference=vector.get("reference", False),
        needs=frozenset(needs if "allowed" in needs else needs | {"devices"}),
        play=play,
    )


async def play_first_frame(vector: Vector, stage: Stage) -> None:
    """The vectors' token stands for ours; what is understood as another one is refused (D7)."""
    vector, names = renamed(vector, stage), {"s3cret": stage.target.token}
    connection = await stage.connect(message(vector, names))
    if "error" in vector:
        await expect_error(connection, vector["error"], stage)
        return
    understood = spell_out(vector["expect"], names)
    if understood.get("token") != stage.target.token:
        await connection.expect_refusal("auth_failed")
        return
    ready = await connection.expect("ready", v=1)
    device = understood.get("device", {})
    if "id" in device:
        check(ready["device"]["id"], device["id"], "device.id in ready")
    check_that(bool(ready["device"]["id"]), "an id that the server made up", ready)
    check(ready["session"], f"mobile:{ready['device']['id']}", "session in ready")
    check(ready["device"]["name"], device.get("name", ""), "device.name in ready")
    if not understood.get("receipts", False):
        check_that(
            "receipts" not in ready["capabilities"], "no receipts that nobody asked for", ready
        )


async def play_frame(vector: Vector, stage: Stage) -> None:
    vector = renamed(vector, stage)
    if vector.get("wire", {}).get("t") == "deliver":
        connection = await join_to_deliver(stage)
    else:
        connection = await stage.join()
    await connection.send(message(vector))
    match vector:
        case {"error": error}:
            await expect_error(connection, error, stage)
        case {"answer": frames}:
            for frame in spell_out(frames):
                await connection.expect(**frame)
        case {"expect": {"type": "deliver"} as understood}:
            await expect_undelivered(connection, understood, stage)
        case {"expect": understood} if understood.get("parts", 1) == 1:
            await expect_taken(connection, spell_out(understood), stage)
            return  # what an agent says to it may still come
    await connection.expect_nothing()


async def expect_error(connection: Connection, error: Vector, stage: Stage) -> None:
    wanted = {name: value for name, value in error.items() if name != "says"}
    got = await connection.expect("error", **wanted)
    if not stage.target.reference_only and "id" not in error:
        check_that("id" not in got, "no id, since the frame has no valid one", got)
    if error["fatal"]:
        await connection.expect_closed(1008, error["code"])


async def expect_taken(connection: Connection, understood: Vector, stage: Stage) -> None:
    """It goes to the agent; if that is the demo agent, its reply tells what has come there."""
    if understood["type"] == "media" and understood["kind"] not in accepted_kinds(connection):
        raise Skip(f"the agent takes no {understood['kind']} files")
    if "demo" in stage.able and understood["type"] in {"text", "audio", "media"}:
        reply = await connection.reply()
        if understood["type"] == "text":
            check(reply, understood["text"], "the text as the agent has it")
        else:
            for line in described(understood):
                check_that(line in reply.splitlines(), f"{line}, for the agent", reply)
        return
    await connection.send({"t": "ping", "ts": "taken"})
    frames = await connection.receive_until("pong", ts="taken")
    refusals = [frame for frame in frames if frame["t"] == "error"]
    check_that(not refusals, "no refusal", refusals[:1])


def accepted_kinds(connection: Connection) -> list[str]:
    kinds: list[str] = connection.ready["capabilities"]["media_in"]
    return kinds


def described(understood: Vector) -> Iterator[str]:
    """How the demo agent describes a recording, or a file; what it guesses is left out."""
    data = base64.b64decode(understood["data"])
    yield f"size: {len(data)} bytes"
    if understood["type"] == "audio":
        yield f"format: {understood['format']}"
        yield f"transcript: {understood.get('text', '(none)')}"
        return
    yield f"kind: {understood['kind']}"
    yield f"name: {understood.get('filename', '(none)')}"
    yield f"sha256: {sha256(data).hexdigest()}"
    if "mime" in understood:
        yield f"mime: {understood['mime']}"


async def join_to_deliver(stage: Stage, **hello: Any) -> Connection:
    """A connection that has the right to deliver. *Errors*: Skip."""
    if stage.target.deliver_token:
        return await stage.join("cron", token=stage.target.deliver_token, **hello)
    if "may deliver" in stage.able:
        return await stage.join("cron", **hello)
    raise Skip("no deliver token is known, and this address may not deliver without one")


async def expect_undelivered(connection: Connection, understood: Vector, stage: Stage) -> None:
    """Nobody is there to be delivered to, which may wait, or be told; or nobody is named."""
    if "target" not in understood:
        if stage.target.home_device:
            raise Skip("there is a home device")
        await connection.expect("error", code="bad_frame", fatal=False, id=understood["id"])
    elif not understood.get("keep", False):
        await connection.expect("error", code="device_offline", fatal=False, id=understood["id"])


async def play_exchange(vector: Vector, stage: Stage) -> None:
    names, found = own_names(vector, stage), dict[str, Any]()
    connections: dict[str, Connection] = {}
    for step in vector["steps"]:
        key = step.get("on", "a")
        match step:
            case {"connect": None}:
                connections[key] = await stage.open()
            case {"connect": first}:
                connections[key] = await stage.connect(spell_out(first, names))
            case {"send": frame}:
                await connections[key].send(with_found(spell_out(frame, names), found))
            case {"expect": frame}:
                wanted = with_found(spell_out(frame, names), found)
                new = {name: value["$name"] for name, value in wanted.items() if is_name(value)}
                known = {name: value for name, value in wanted.items() if name not in new}
                got = await connections[key].expect(**known)
                found |= {name: got[field] for field, name in new.items()}
            case {"pass": seconds}:
                await stage.wait(seconds)
            case {"close": code}:
                await connections[key].leave(code)
            case {"closed": code, "reason": reason}:
                await connections[key].expect_closed(code, reason)
            case _:
                raise NotImplementedError(step)


def is_name(value: object) -> bool:
    return isinstance(value, dict) and "$name" in value


def with_found(frame: Any, found: dict[str, Any]) -> Any:
    """`frame` with the names that are known by now replaced by what they stand for."""
    if not isinstance(frame, dict):
        return frame
    return {
        field: found.get(value["$name"], value) if is_name(value) else value
        for field, value in frame.items()
    }


def own_names(vector: Vector, stage: Stage) -> dict[str, str]:
    """What the strings of an exchange are here: tokens, and ids that no other scenario uses."""
    target = stage.target
    ids = {theirs: stage.device(theirs) for theirs in ids_in(vector["steps"])}
    ids |= {"bound-1": target.bound_device} if "bound" in vector.get("needs", ()) else {}
    tokens = {
        "$token": target.token,
        "$other": target.other_token,
        "$bound": target.bound_token,
        "$deliver": target.deliver_token,
        "$wrong": f"wrong-{stage.mark}",
    }
    addresses = {f"mobile:{theirs}": f"mobile:{ours}" for theirs, ours in ids.items()}
    return ids | addresses | tokens


def ids_in(value: object) -> Iterable[str]:
    match value:
        case dict():
            for name, inner in value.items():
                if name == "id" and isinstance(inner, str):
                    yield inner
                yield from ids_in(inner)
        case list():
            for inner in value:
                yield from ids_in(inner)
        case _:
            pass


def renamed(vector: Vector, stage: Stage) -> Vector:
    """`vector` with a device of this scenario in place of the one that it names."""
    own: Vector = json.loads(json.dumps(vector).replace("tel-1", stage.device()))
    return own


def message(vector: Vector, names: dict[str, str] | None = None) -> object:
    """What the vector sends, for `Connection.send`."""
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    return spell_out(vector["raw"] if "raw" in vector else vector["wire"], names)
