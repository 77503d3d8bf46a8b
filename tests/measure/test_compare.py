"""Verdicts under simulated noise: how often they are wrong, and how often they see a truth."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.measure.compare import Comparison, Measurement, compare, measure, verdict
from explorer.measure.machine import machine
from tests.measure.simulated import NoisyMachine

LENGTHS = [  # the shortest and the longest every time
    (30.0, 0.05),
    *(
        pytest.param(us, seconds, marks=pytest.mark.exhaustive)
        for us, seconds in ((150.0, 0.15), (2_000.0, 0.4), (60_000.0, 2.0))
    ),
    (300_000.0, 2.0),
]


def judged(seed: int, first_us: float, second_us: float, seconds: float) -> Comparison:
    noisy = NoisyMachine(seed)
    return compare(noisy.work(first_us), noisy.work(second_us), seconds, noisy.clock)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("us", "seconds"), LENGTHS)
def test_a_function_against_itself_is_not_distinguishable_95_times_in_100(
    us: float, seconds: float
) -> None:
    verdicts = Counter(judged(seed, us, us, seconds).verdict for seed in range(100))
    assert verdicts["not distinguishable"] >= 95


@pytest.mark.few(1)
@pytest.mark.parametrize(("us", "seconds"), LENGTHS)
def test_a_planted_slowdown_of_a_tenth_is_found_95_times_in_100(us: float, seconds: float) -> None:
    verdicts = Counter(judged(seed, us, 1.1 * us, seconds).verdict for seed in range(100))
    assert verdicts["faster"] >= 95 and not verdicts["slower"]
    verdicts = Counter(judged(seed, 1.1 * us, us, seconds).verdict for seed in range(100, 200))
    assert verdicts["slower"] >= 95 and not verdicts["faster"]


def test_the_interval_of_a_ratio_holds_the_true_one_95_times_in_100() -> None:
    found = [judged(seed, 1_000.0, 1_250.0, 0.3) for seed in range(100)]
    assert sum(c.low <= 1.25 <= c.high for c in found) >= 95
    assert all(c.low <= c.ratio <= c.high for c in found)


def test_the_ratio_speaks_of_the_first_and_is_inverse_for_the_second() -> None:
    there, back = judged(3, 1_000.0, 2_000.0, 0.3), judged(4, 2_000.0, 1_000.0, 0.3)
    assert there.ratio == pytest.approx(2.0, rel=0.05)
    assert back.ratio == pytest.approx(0.5, rel=0.05)
    assert (there.verdict, back.verdict) == ("faster", "slower")
    assert there.first.median_us < there.second.median_us


def test_a_difference_within_one_percent_is_never_called() -> None:
    assert verdict(1.008, 1.004, 1.012) == "not distinguishable"
    assert verdict(1.02, 1.015, 1.03) == "faster"
    assert verdict(1 / 1.02, 0.97, 0.99) == "slower"
    assert verdict(1.5, 0.99, 2.0) == "not distinguishable"


@pytest.mark.exhaustive
def test_the_interval_of_a_median_is_wide_enough_for_noise_that_lasts() -> None:
    """Taken as independent, a thousand calls would hold the truth 13 times in 100 here."""
    noisy = NoisyMachine(1000)
    truth = measure(noisy.work(2_000.0), 60.0, noisy.clock).median_us
    held = 0
    for seed in range(100):
        noisy = NoisyMachine(seed)
        found = measure(noisy.work(2_000.0), 4.0, noisy.clock)
        held += found.low_us <= truth <= found.high_us
        assert found.low_us <= found.median_us <= found.high_us
    assert held >= 65


def test_a_measurement_says_how_often_it_ran_and_where() -> None:
    noisy = NoisyMachine(0)
    calls = Counter[str]()
    work = noisy.work(10.0)
    found = measure(lambda: (work(), calls.update("x")), 0.05, noisy.clock)
    assert 8 <= found.n <= calls["x"]
    assert found.machine == machine().line


def test_a_slow_function_is_still_called_eight_times() -> None:
    noisy = NoisyMachine(0)
    assert measure(noisy.work(1e6), 0.0, noisy.clock).n == 8
    assert judged(0, 1e6, 1e6, 0.0).n == 20


def test_a_rare_stall_does_not_move_the_median() -> None:
    noisy = NoisyMachine(5)
    quiet = noisy.work(500.0)

    def stalls() -> None:
        quiet()
        if noisy.random.random() < 0.02:
            noisy.now_ns += 50_000_000

    found = compare(quiet, stalls, 1.0, noisy.clock)
    assert found.verdict == "not distinguishable"
    assert found.ratio == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("seconds", [np.nan, np.inf, -1.0])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(BadOption, match="seconds must be a time"):
        measure(int, seconds)


def test_what_a_function_raises_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        compare(int, lambda: 1 // 0)


def test_the_card_of_the_machine_names_no_path_and_no_host() -> None:
    import platform

    card = machine()
    assert card.cores >= 1 and card.cpu and dict(card.versions)["numpy"] == np.__version__
    assert "/" not in str(card) and platform.node() not in str(card).split()


def test_what_is_slower_is_told_by_how_many_times() -> None:
    one = Measurement(2.0, 1.9, 2.1, 20)
    found = Comparison(0.5, 0.4, 0.625, 20, "slower", one, one)
    assert str(found) == "slower: 2× (1.6 to 2.5, n = 20, wide)"
    assert str(replace(found, ratio=2.0, verdict="faster")).startswith("faster: 2×")
