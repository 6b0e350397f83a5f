"""Who is put under load, by whom, and how much."""

import pytest
from bench.plan import Identity, Load, Target, read_devices, read_rate

LOOPBACK = "ws://127.0.0.1:8787/ws"


def test_devices_by_pattern():
    """A pattern makes ids of numbers, all with the target's token."""
    pattern, listed = read_devices("phone-{}", "secret")
    target = Target(LOOPBACK, "secret", pattern, listed)
    assert target.identity(7) == Identity("phone-7", "secret")


def test_devices_by_list(tmp_path):
    """A file names ids, some with a token of their own, which may contain `=`."""
    file = tmp_path / "devices"
    file.write_text("kitchen\nhall=to=ken\n")
    _, listed = read_devices(f"@{file}", "secret")
    assert listed == (Identity("kitchen", "secret"), Identity("hall", "to=ken"))
    assert Target(LOOPBACK, "secret", listed=listed).identity(1).id == "hall"


@pytest.mark.parametrize("text", ["phone", ""])
def test_a_pattern_without_a_place_for_the_number(text):
    """One id for all devices would be one device: it is refused."""
    with pytest.raises(ValueError, match="number"):
        read_devices(text, "secret")


def test_tokens_are_not_shown():
    """A target can be printed: its tokens are not in it."""
    target = Target(LOOPBACK, "secret", listed=(Identity("a", "secret"),))
    assert "secret" not in repr(target)


def test_loopback_sources_are_spread():
    """On loopback each of thousands of connections has an address of its own."""
    sources = {Target(LOOPBACK, "").source(number) for number in range(5000)}
    assert len(sources) == 5000
    assert all(source.startswith("127.1.") for source in sources)


@pytest.mark.parametrize("url", ["wss://agent.example.com/ws", "ws://[::1]:8787/ws"])
def test_other_sources_are_the_kernels(url):
    """Elsewhere the kernel chooses, unless addresses are given: then in turn."""
    assert Target(url, "").source(3) is None
    assert Target(url, "", sources=("10.0.0.1", "10.0.0.2")).source(3) == "10.0.0.2"


def test_rates():
    """One number is a fixed rate, two are a ramp."""
    assert read_rate("100") == (100.0, 100.0)
    assert read_rate("10:2000") == (10.0, 2000.0)


@pytest.mark.parametrize("text", ["", "fast", "-1", "0", "0:0", "inf", "nan", "1:2:3"])
def test_rates_that_are_none(text):
    """A rate is a finite number per second above 0."""
    with pytest.raises(ValueError, match=r"."):
        read_rate(text)


def test_a_load_is_told_by_name():
    """A load's fields are numbers one after the other; they are never given by position."""
    with pytest.raises(TypeError):
        Load(10)
