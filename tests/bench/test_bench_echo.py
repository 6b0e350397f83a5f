"""A device that echoes, on a fake connection: what it times and what it finds wrong."""

import asyncio
import json

import pytest
from bench.echo import Echo, fault_in, kind_of, last_turns
from bench.plan import Identity, Load
from bench.scenarios.download import skim
from picows import WSMsgType

THINKING = {"t": "avatar", "state": "thinking"}
SPEAKING = {"t": "avatar", "state": "speaking"}
IDLE = {"t": "avatar", "state": "idle"}
TYPING = {"t": "typing"}
STOP = {"t": "typing", "stop": True}


def message(text, index=0, total=1, **other):
    chunk = {"index": index, "total": total}
    return {
        "t": "message",
        "id": "m",
        "text": text,
        "chunk": chunk,
        "final": index == total - 1,
        **other,
    }


def turn(*replies):
    return [THINKING, TYPING, *replies, SPEAKING, STOP]


class FakeWorker:
    """Notes what devices report."""

    def __init__(self, **load):
        self.load = Load(**load)
        self.times = []
        self.errors = []

    def series(self, name):
        assert name == "turn"
        return self.times

    def error(self, code):
        self.errors.append(code)


class FakeTransport:
    """Notes what is sent, as frames."""

    def __init__(self):
        self.sent = []

    def send(self, kind, payload):
        assert kind == WSMsgType.TEXT
        self.sent.append(json.loads(payload))


class FakeFrame:
    msg_type = WSMsgType.TEXT
    fin = True

    def __init__(self, payload):
        self._payload = payload

    def get_payload_as_bytes(self):
        return self._payload

    def get_payload_as_memoryview(self):
        return memoryview(self._payload)


def ready_device(**load):
    device = Echo(FakeWorker(**load), 1, Identity("bench-1", "secret"))
    device.transport = FakeTransport()
    receive(device, {"t": "ready"})
    return device


def receive(device, *frames, separators=(",", ":")):
    for frame in frames:
        payload = json.dumps(frame, separators=separators).encode()
        device.on_ws_frame(device.transport, FakeFrame(payload))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_closed_loop_goes_on(separators):
    """Each end of a turn is timed and begins the next, however the server writes its JSON."""
    device = ready_device(sample=1)
    device.begin(1)
    for _ in range(3):
        text = device.transport.sent[-1]["text"]
        receive(device, *turn(message(text)), separators=separators)
    assert len(device.worker.times) == 3
    assert device.worker.errors == []
    assert len({frame["id"] for frame in device.transport.sent}) == 4


def test_depth_is_kept():
    """With depth 3 three turns are under way, before and after one of them ended."""
    device = ready_device()
    device.begin(3)
    assert device.pending == 3
    receive(device, *turn(message(device.transport.sent[0]["text"])))
    assert device.pending == 3


def test_a_text_has_the_size_that_was_asked_for():
    """Every text is unlike the others and has `size` characters."""
    device = ready_device(size=100)
    device.begin(2)
    texts = [frame["text"] for frame in device.transport.sent]
    assert [len(text) for text in texts] == [100, 100]
    assert len(set(texts)) == 2


def test_a_wrong_echo_is_found_in_the_sample():
    """With every second turn in the sample, the first and the third of three wrong ones are told."""
    device = ready_device(sample=2)
    device.begin(1)
    for _ in range(3):
        receive(device, *turn(message("nonsense")))
    assert device.worker.errors == ["bad echo", "bad echo"]


def test_a_missing_reply_is_found_in_every_turn():
    """A turn that ends without a message is an error whether or not it is in the sample."""
    device = ready_device(sample=100)
    device.begin(1)
    for _ in range(3):
        receive(device, *turn())
    assert device.worker.errors == ["no reply"] * 3


def test_a_refused_message_is_no_turn():
    """An error that names a message ends its turn: the next end of a turn is the other one's (D20)."""
    device = ready_device(sample=1)
    device.say(0.0)
    device.say(0.0)
    first, second = device.transport.sent
    receive(device, {"t": "error", "code": "internal_error", "fatal": False, "id": first["id"]})
    assert device.pending == 1
    receive(device, *turn(message(second["text"])))
    assert device.worker.errors == ["internal_error"]
    assert len(device.worker.times) == 1


def test_latency_counts_from_when_it_was_due(monkeypatch):
    """In an open loop a text that went out late is late by that, too."""
    device = ready_device()
    monkeypatch.setattr("bench.echo.time.monotonic", lambda: 100.5)
    device.say(due=100.0)
    receive(device, *turn(message(device.transport.sent[0]["text"])))
    assert device.worker.times == [0.5]


@pytest.mark.parametrize(
    ("frames", "fault"),
    [
        (turn(message("hi")), None),
        ([IDLE, *turn(message("h", 0, 2), message("i", 1, 2))], None),
        (turn(), "no reply"),
        (turn(message("ho")), "bad echo"),
        (turn(message("h", 0, 2), message("i", 2, 2)), "bad pieces"),
        (turn(message("h", 0, 2), message("i", 1, 2, id="other")), "bad pieces"),
        ([TYPING, message("hi"), SPEAKING, STOP], "bad states"),
        ([*turn(message("hi")), SPEAKING], "bad states"),
    ],
)
def test_faults_of_a_turn(frames, fault):
    """A turn thinks, types, replies in whole pieces, speaks and stops (D28, D30); idle lies between."""
    assert fault_in(frames, "hi") == fault


def test_an_agent_that_does_not_echo():
    """Where any reply will do, its text is not compared."""
    assert fault_in(turn(message("ho")), None) is None


def test_a_message_is_never_known_by_its_bytes():
    """Only frames that are always the same have a kind."""
    assert kind_of(message("hi")) is None
    assert None not in map(kind_of, (THINKING, TYPING, SPEAKING, STOP, IDLE))


def test_a_large_frame_is_read_around_its_data():
    """From both ends of a chunk its fields are known, whatever comes before or after the data."""
    head, tail = b'{"t":"media","part":0,"data":"AAAA', b'AAAA","final":true}'
    assert skim(head, tail) == {"t": "media", "part": 0, "data": "", "final": True}
    assert skim(b'{"t":"media"', tail) is None
    assert skim(head, b"AAAA") is None


def test_what_is_never_answered_is_an_error(monkeypatch):
    """A turn that does not end is not left out of the count: the open loop tells it."""
    monkeypatch.setattr("bench.echo.LAST_TURNS_SECONDS", 0.0)
    device = ready_device()
    device.say(0.0)
    device.say(0.0)
    asyncio.run(last_turns([device]))
    assert device.worker.errors == ["no answer", "no answer"]
