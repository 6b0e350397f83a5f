"""What is read from the kernel and from a server's metrics."""

import os

from bench.gauges import read_gauges
from bench.process import Usage, read_status, read_usage

STATUS = "Name:\t(evil) S 1\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\nThreads:\t3\n"
METRICS = """\
# HELP hermes_mobile_turns_running Turns that the agent works on.
# TYPE hermes_mobile_turns_running gauge
hermes_mobile_turns_running 2.0
hermes_mobile_sessions{state="away"} 7.0
hermes_mobile_cards_open 1.0
"""


def test_status_has_numbers_by_name():
    """Lines that begin with a number are read, others are not numbers."""
    assert read_status(STATUS) == {"VmHWM": 2048, "VmRSS": 1024, "Threads": 3}


def test_this_process_can_be_looked_at():
    """Of ourselves everything is known, and what we have at most is not less than what we have."""
    usage = read_usage(os.getpid())
    assert usage.pid == os.getpid()
    assert usage.cpu > 0
    assert 0 < usage.rss <= usage.peak_rss
    assert usage.threads >= 1
    assert usage.descriptors >= 3


def test_cpu_of_another_process_is_not_compared():
    """Across a restart there is no difference in CPU time to tell."""
    earlier, later = (Usage(pid, cpu, 1, 1, 1, 1) for pid, cpu in ((1, 1.0), (1, 3.5)))
    assert later.cpu_since(earlier) == 2.5
    assert later.cpu_since(Usage(2, 1.0, 1, 1, 1, 1)) is None
    assert later.cpu_since(None) is None


def test_gauges_that_tell_a_leak():
    """Of a metrics page those gauges are read which are at rest when everybody has left."""
    assert read_gauges(METRICS) == {"turns_running": 2.0, "cards_open": 1.0}
