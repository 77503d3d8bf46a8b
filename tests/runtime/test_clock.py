"""The cycle counter against the operating system's clock."""

import time

from explorer.runtime.workers import clock


def test_the_two_clocks_agree_on_a_pause():
    first = clock.now()
    time.sleep(0.05)
    last = clock.now()
    by_cycles = (last.cycles - first.cycles) / clock.cycles_per_us()
    assert abs(by_cycles / ((last.ns - first.ns) / 1000) - 1) < 0.01


def test_the_counter_rises():
    counts = [clock.now().cycles for _ in range(50)]
    assert counts == sorted(counts) and counts[0] < counts[-1]
