"""The session that a person types into a WebSocket client, with a client library of other people."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from websockets.sync.client import connect

from street import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.client import ClientConnection

    from street import ServerProcess

pytestmark = pytest.mark.slow

TOKEN = "the-token-of-this-session"
PHOTO = bytes(range(256)) * (5 << 12)
CHUNK_BYTES = 3 << 20
SAID = (
    *(TOKEN, "Liebe Gr", "stands in its place", "rm -rf", "Which pudding", "Semolina"),
    *("A sample", "image.png", "holiday.jpg", "At the sea", "The kettle"),
    *(base64.b64encode(PHOTO[:24]).decode(), hashlib.sha256(PHOTO).hexdigest()),
)
"""What was said in this session, by either side."""


class Session:
    """One open WebSocket, at which somebody types JSON."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket

    def send(self, t: str, **fields: Any) -> None:
        self._websocket.send(json.dumps({"t": t, **fields}, ensure_ascii=False))

    def receive(self) -> dict[str, Any]:
        frame = json.loads(self._websocket.recv(timeout=PATIENCE))
        assert isinstance(frame, dict)
        return frame

    def receive_until(self, t: str, **fields: Any) -> list[dict[str, Any]]:
        frames = [self.receive()]
        while frames[-1]["t"] != t or not fields.items() <= frames[-1].items():
            frames.append(self.receive())
        return frames

    def expect(self, t: str, **fields: Any) -> dict[str, Any]:
        return self.receive_until(t, **fields)[-1]


@contextmanager
def session(server: ServerProcess, device: str) -> Iterator[Session]:
    with connect(server.url) as websocket:
        typed = Session(websocket)
        typed.send("hello", token=TOKEN, device={"id": device, "name": device.title()})
        ready = typed.receive()
        assert (ready["t"], ready["v"], ready["session"]) == ("ready", 1, f"mobile:{device}")
        assert ready["device"] == {"id": device, "name": device.title()}
        yield typed


def test_a_session_typed_by_hand(serve):
    """Every part of the protocol once, on two connections and one that comes back; and D39."""
    server = serve(MOBILE_TOKEN=TOKEN, MOBILE_LOG_LEVEL="debug")
    with session(server, "phone") as phone:
        echo_id = say_something(phone)
        watch_a_stream(phone)
        approve_a_command(phone)
        answer_a_question(phone)
        receive_an_image(phone)
        upload_a_photo(phone)
        with session(server, "cron") as cron:
            receive_a_delivery(phone, cron)
    with session(server, "phone") as phone:
        come_back(phone, echo_id)
    server.close()
    check_the_log(server)


def say_something(phone: Session) -> str:
    """Returns the id of the echo."""
    phone.send("text", id="m1", text="Liebe Grüße")
    frames = phone.receive_until("typing", stop=True)
    assert [frame["t"] for frame in frames] == ["avatar", "typing", "message", "avatar", "typing"]
    assert frames[2]["text"] == "Liebe Grüße"
    return frames[2]["id"]


def watch_a_stream(phone: Session) -> None:
    """D29: the whole text so far each time, one id, and an end."""
    phone.send("text", id="m2", text="/stream 30")
    frames = phone.receive_until("typing", stop=True)
    states = [frame for frame in frames if frame["t"] == "message"]
    assert len({state["id"] for state in states}) == 1
    assert [state.get("edit", False) for state in states] == [False] + [True] * (len(states) - 1)
    assert [state["final"] for state in states] == [False] * (len(states) - 1) + [True]
    for earlier, later in pairwise(states):
        assert later["text"].startswith(earlier["text"])
    assert len(states[-1]["text"].split()) == 30


def approve_a_command(phone: Session) -> None:
    phone.send("text", id="m3", text="/run rm -rf attic")
    card = phone.expect("prompt")
    assert (card["kind"], card["command"]) == ("exec_approval", "rm -rf attic")
    assert [option["id"] for option in card["options"]] == ["once", "session", "always", "deny"]
    assert (card["session"], card["timeout_seconds"]) == ("mobile:phone", 300)
    phone.send("prompt", prompt_id=card["id"], option_id="once")
    assert phone.expect("prompt_done") == {
        "t": "prompt_done",
        "id": card["id"],
        "option_id": "once",
    }
    assert phone.expect("message")["text"] == "Applied: once"


def answer_a_question(phone: Session) -> None:
    phone.send("text", id="m4", text="/ask Which pudding? | Rice | Semolina")
    card = phone.expect("prompt")
    assert (card["kind"], card["text"]) == ("clarify", "Which pudding?")
    assert [option["id"] for option in card["options"]] == ["c0", "c1", "other"]
    phone.send("prompt", prompt_id=card["id"], option_id="c1")
    assert phone.expect("prompt_done")["option_id"] == "c1"
    assert phone.expect("message")["text"] == "Answer: Semolina"


def receive_an_image(phone: Session) -> None:
    phone.send("text", id="m5", text="/image")
    image = phone.expect("media")
    assert (image["kind"], image["mime"], image["filename"]) == ("image", "image/png", "image.png")
    assert (image["part"], image["parts"], image["final"]) == (0, 1, True)
    data = base64.b64decode(image["data"], validate=True)
    assert data.startswith(b"\x89PNG\r\n")
    assert image["size"] == len(data)


def upload_a_photo(phone: Session) -> None:
    """D17: 5 MiB in two chunks are one file for the agent."""
    for part in (0, 1):
        chunk = PHOTO[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]
        data = base64.b64encode(chunk).decode()
        described = {"kind": "image", "filename": "holiday.jpg", "caption": "At the sea"}
        phone.send("media", id="f1", part=part, parts=2, data=data, **described)
    report = phone.expect("message")["text"]
    assert "name: holiday.jpg\nmime: image/jpeg\nsize: 5242880 bytes" in report
    assert hashlib.sha256(PHOTO).hexdigest() in report


def receive_a_delivery(phone: Session, cron: Session) -> None:
    """D25: it keeps its id, success is silent, and the pong says that it is known."""
    cron.send("deliver", id="d1", target="mobile:phone", text="The kettle is on")
    cron.send("ping", ts=1)
    assert cron.receive() == {"t": "pong", "ts": 1}
    delivered = phone.expect("message", id="d1")
    assert (delivered["text"], delivered["final"]) == ("The kettle is on", True)
    cron.send("deliver", id="d2", target="mobile:nobody", text="The kettle is on")
    refusal = cron.receive()
    assert (refusal["code"], refusal["id"]) == ("device_offline", "d2")


def come_back(phone: Session, echo_id: str) -> None:
    """D19, D32: what was not confirmed comes again, and the first message is not asked again."""
    phone.send("text", id="m1", text="Liebe Grüße")
    phone.send("text", id="m6", text="Liebe Grüße zurück")
    frames = phone.receive_until("message", text="Liebe Grüße zurück")
    assert {frame["id"] for frame in frames if frame.get("text") == "Liebe Grüße"} <= {echo_id}


def check_the_log(server: ServerProcess) -> None:
    """D39: one line of JSON for each connection, and none that tells what was said."""
    connections = [line for line in server.log if line["event"] == "connection"]
    assert [line["device"] for line in connections] == ["cron", "phone", "phone"]
    for line in connections:
        assert (line["role"], line["address"], line["end"]) == ("device", "127.0.0.1", "peer left")
        assert line["frames_in"] > 1 < line["frames_out"]
        assert line["bytes_in"] > 0 < line["bytes_out"]
        assert line["seconds"] > 0
    assert [said for said in SAID if said in server.log_text] == []
