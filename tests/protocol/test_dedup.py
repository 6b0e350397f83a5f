"""The idempotency window (D19)."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_mobile.protocol.dedup import DedupWindow


def test_same_id_is_seen_for_ten_minutes() -> None:
    """An id counts as a repeat until 600 s have passed, and not at 600 s (D19)."""
    window = DedupWindow()
    window.record("tel-1", "m-1", 100.0)
    assert window.seen("tel-1", "m-1", 100.0)
    assert window.seen("tel-1", "m-1", 699.9)
    assert not window.seen("tel-1", "m-1", 700.0)
    assert len(window) == 0


def test_ids_belong_to_their_device() -> None:
    """The key is device and id together (D19)."""
    window = DedupWindow()
    window.record("tel-1", "m-1", 0.0)
    assert not window.seen("tel-2", "m-1", 0.0)
    assert not window.seen("tel-1:m", "1", 0.0)


def test_forgotten_id_may_be_sent_again() -> None:
    """A message whose turn failed can be sent again; forgetting twice is harmless (D19)."""
    window = DedupWindow()
    window.record("tel-1", "m-1", 0.0)
    window.record("tel-1", "m-2", 0.0)
    window.forget("tel-1", "m-1")
    window.forget("tel-1", "m-1")
    assert not window.seen("tel-1", "m-1", 0.0)
    assert window.seen("tel-1", "m-2", 0.0)


def test_recording_again_starts_the_window_anew() -> None:
    """An id that is accepted again, after it was forgotten or not, is as good as new (D19)."""
    window = DedupWindow()
    window.record("tel-1", "m-1", 0.0)
    window.record("tel-1", "m-1", 500.0)
    assert len(window) == 1
    assert window.seen("tel-1", "m-1", 1_099.0)


def test_device_keeps_four_thousand_ids() -> None:
    """A busy device pushes out its own oldest ids and nobody else's (D19)."""
    window = DedupWindow()
    window.record("quiet", "m", 0.0)
    for number in range(4_001):
        window.record("busy", str(number), 0.0)
    assert len(window) == 4_001
    assert not window.seen("busy", "0", 0.0)
    assert window.seen("busy", "1", 0.0)
    assert window.seen("quiet", "m", 0.0)


def test_all_devices_keep_forty_thousand_ids() -> None:
    """However many devices there are, memory is bounded, and the oldest of all goes first (D19)."""
    window = DedupWindow()
    for number in range(40_001):
        window.record(f"tel-{number % 20}", str(number), 0.0)
    assert len(window) == 40_000
    assert not window.seen("tel-0", "0", 0.0)
    assert window.seen("tel-1", "1", 0.0)


def test_idle_device_costs_nothing() -> None:
    """What a device leaves behind is freed by the traffic of others (D19)."""
    window = DedupWindow()
    window.record("gone", "m", 0.0)
    window.record("here", "m", 600.0)
    assert list(window._ids) == ["here"]


class NaiveWindow:
    """The rules of D19 as one list, looked through from end to end."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, float]] = []

    def expire(self, now: float) -> None:
        self.entries = [entry for entry in self.entries if now - entry[2] < 10]

    def seen(self, device: str, id: str, now: float) -> bool:
        self.expire(now)
        return any(entry[:2] == (device, id) for entry in self.entries)

    def forget(self, device: str, id: str) -> None:
        self.entries = [entry for entry in self.entries if entry[:2] != (device, id)]

    def record(self, device: str, id: str, now: float) -> None:
        self.expire(now)
        self.forget(device, id)
        self.entries.append((device, id, now))
        mine = [entry for entry in self.entries if entry[0] == device]
        if len(mine) > 3:
            self.entries.remove(mine[0])
        self.entries = self.entries[-5:]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["record", "record", "seen", "forget"]),
            st.sampled_from("ABC"),
            st.sampled_from("12345"),
            st.integers(0, 4),
        )
    )
)
def test_window_agrees_with_the_naive_one(steps: list[tuple[str, str, str, int]]) -> None:
    """Whatever is recorded, asked and forgotten, in whatever time (D19)."""
    window = DedupWindow(window=10, per_device=3, total=5)
    naive = NaiveWindow()
    now = 0.0
    for action, device, message, pause in steps:
        now += pause
        match action:
            case "record":
                window.record(device, message, now)
                naive.record(device, message, now)
            case "forget":
                window.forget(device, message)
                naive.forget(device, message)
            case _:
                assert window.seen(device, message, now) == naive.seen(device, message, now)
        assert len(window) == len(naive.entries)
        assert set(window._ids) == {entry[0] for entry in naive.entries}
