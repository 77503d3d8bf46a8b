"""The order of turns, what happens in one, and how turns wait for a quiet machine."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from explorer.measure.compare import comparison, median_interval
from explorer.measure.turns import (
    Disturbance,
    Watch,
    balanced_orders,
    in_line_ns,
    take_turns,
    wait_until_quiet,
)
from tests.measure.simulated import Counted, NoisyMachine


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_each_stands_at_each_place_and_after_each_other_equally_often(count: int) -> None:
    orders = balanced_orders(count)
    assert all(sorted(row) == list(range(count)) for row in orders)
    places = Counter((place, n) for row in orders for place, n in enumerate(row))
    assert len(places) == count**2 and len(set(places.values())) == 1
    after = Counter(pair for row in orders for pair in pairwise(row))
    assert len(after) == count * (count - 1) and len(set(after.values())) <= 1


def test_every_function_gets_one_turn_in_every_round() -> None:
    noisy = NoisyMachine(0)
    series = take_turns([noisy.work(us) for us in (9e3, 12e3, 22e3)], 1.0, noisy.clock)
    assert len({len(s.turns) for s in series}) == 1 and len(series[0].turns) >= 20
    assert [s.settles for s in series] == [True, True, False]
    assert all(len(turn) == s.samples for s in series for turn in s.turns)


def test_a_function_that_is_far_slower_sits_out_after_eight_rounds() -> None:
    noisy = NoisyMachine(0)
    quick, slow = take_turns([noisy.work(us) for us in (9e3, 90e3)], 0.0, noisy.clock)
    assert len(quick.turns) == 20 and len(slow.turns) == 8
    found = comparison(quick, slow)
    assert found.n == 8 and found.verdict == "faster" and found.low > 5


def test_calls_shorter_than_the_clock_can_tell_are_timed_together() -> None:
    noisy = NoisyMachine(0)
    short, long = take_turns([noisy.work(0.2), noisy.work(2_000.0)], 0.1, noisy.clock)
    assert short.calls > 100 and long.calls == 1
    assert np.median(np.concatenate(short.turns)) == pytest.approx(200, rel=0.15)


def test_an_interval_covers_the_median_of_independent_values_99_times_in_100() -> None:
    random = np.random.default_rng(0)
    for n in (8, 20, 31, 100):
        series = random.exponential(1.0, (1000, n))
        found = [median_interval(row) for row in series]
        held = sum(i.low <= np.log(2.0) <= i.high for i in found)
        assert held >= 980


def test_few_values_span_their_interval() -> None:
    assert median_interval([3.0]).low == 3.0
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.median, found.high) == (1.0, 2.0, 3.0)


class Process:
    """In simulated time: its other threads spin until a moment."""

    def __init__(self, until: float, share: float = 1.0) -> None:
        self.now, self.until, self.share = 0.0, until, share

    def clock(self) -> float:
        return self.now

    def others(self) -> float:
        return self.share * min(self.now, self.until)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, most: float) -> bool:
        return wait_until_quiet(most, self.clock, self.others, self.sleep)


@pytest.mark.parametrize("until", [0.0, 0.007, 0.045, 0.2])
def test_a_turn_begins_soon_after_the_last_thread_stopped(until: float) -> None:
    process = Process(until)
    assert process.wait(0.5)
    assert until < process.now <= until + 0.005


def test_threads_that_never_stop_are_waited_for_no_longer_than_patience_lasts() -> None:
    process = Process(1e9)
    assert not process.wait(0.5)
    assert 0.5 < process.now < 0.51


def test_a_little_work_of_others_is_no_spinning() -> None:
    assert Process(1e9, share=0.01).wait(0.1)


def test_a_thread_that_spins_is_seen() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=spin)
    thread.start()

    def seen() -> bool:
        watch = Watch(most_wait_s=0.02)
        watch.begin()
        return not watch.end().quiet

    try:
        assert any(seen() for _ in range(100))  # once it gets a core, on a machine that is busy
    finally:
        stop.set()
        thread.join()
    assert wait_until_quiet(5.0)


def test_the_time_in_line_never_goes_back() -> None:
    before = in_line_ns()
    time.sleep(0.001)
    assert in_line_ns() >= before >= 0


def test_a_turn_is_disturbed_where_others_stood_in_its_way() -> None:
    assert not Disturbance(1000.0, True, 3, 0.01).disturbed
    assert Disturbance(1000.0, False, 0, 0.0).disturbed
    assert Disturbance(0.0, True, 1, 0.3).disturbed


def test_every_turn_is_watched_whoever_s_it_is() -> None:
    noisy, watch = NoisyMachine(1), Counted()
    series = take_turns([noisy.work(us) for us in (900.0, 950.0)], 0.0, noisy.clock, watch)
    assert [len(s.disturbances) for s in series] == [len(s.turns) for s in series] == [20, 20]


def test_more_turns_are_taken_where_what_was_seen_is_not_enough() -> None:
    def rounds(enough: bool) -> int:
        noisy = NoisyMachine(1)
        works = [noisy.work(us) for us in (9e3, 12e3)]
        return len(take_turns(works, 1.0, noisy.clock, None, lambda series: enough)[0].turns)

    assert 2 * rounds(True) < rounds(False) < 4 * rounds(True)
