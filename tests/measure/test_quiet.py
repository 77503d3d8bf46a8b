"""Turns wait for a quiet machine, and say what they bore all the same."""

from __future__ import annotations

import threading
import time

import pytest

from explorer.measure.quiet import Disturbance, Watch, in_line_ns, wait_until_quiet
from explorer.measure.turns import take_turns
from tests.measure.simulated import Counted, NoisyMachine


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
