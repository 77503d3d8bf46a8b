"""The order of turns, and what happens in one."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from explorer.measure.compare import comparison
from explorer.measure.interval import median_interval
from explorer.measure.turns import balanced_orders, take_turns
from tests.measure.simulated import NoisyMachine


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
