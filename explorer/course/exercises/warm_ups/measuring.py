"""Warm-ups of chapter 08: medians, false positives, pairs of times, and intervals of a median."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from explorer.course.exercise import Check, Exercise, require

FAST_US, STOPPED_US = 100.0, 1000.0


def _are_numbers(sent: Any, count: int) -> bool:
    """Return True for a list, tuple or array of so many numbers."""
    if not isinstance(sent, (list, tuple, np.ndarray)) or len(sent) != count:
        return False
    return all(isinstance(x, (int, float, np.number)) for x in sent)


def _check_typical(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for trial in range(12):
        n = 2 * draw.randint(1, 100) + 1
        stopped = (n // 2, n // 2 + 1, 0)[trial] if trial < 3 else draw.randint(0, n)
        times = np.repeat((FAST_US, STOPPED_US), (n - stopped, stopped))
        right, got = (float(np.median(times)), float(np.mean(times))), answer(n, stopped)
        require(
            _are_numbers(got, 2) and np.allclose(got, right, rtol=1e-9, atol=0),
            f"{n} times, {stopped} of them of 1,000 us: the median is {right[0]:.0f} us and the "
            f"mean {right[1]:.2f} us, not {got!r}",
        )


TYPICAL = Exercise(
    name="typical_time",
    chapter="08_measuring",
    title="What a few long runs change",
    activity="predict",
    minutes=3,
    goal="A run takes 100 us. You time `n` of them, and `n` is odd. In `stopped` of the runs the "
    "machine stops for a moment: these take 1,000 us. Predict the median and the mean of the "
    "times: write `typical(n, stopped)`, which returns both, in this order, for any number of "
    "stopped runs from 0 to `n`.",
    answer="typical",
    stub='''\
def typical(n, stopped):
    """Return (median, mean) of n times: `stopped` of them are 1,000 us, and the others 100 us."""
    raise NotImplementedError
''',
    solution='''\
def typical(n, stopped):
    """Return (median, mean) of n times: `stopped` of them are 1,000 us, and the others 100 us."""
    median = 100 if stopped < n / 2 else 1000
    return median, 100 + 900 * stopped / n
''',
    hints=("Sort the times in your head. Which of the two kinds is the one in the middle?",),
    checks=(Check("random numbers of runs", 1, _check_typical),),
)


def _check_false_positives(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        comparisons = draw.randint(1, 400)
        none = 1.0  # probability that no comparison so far was wrong
        for _ in range(comparisons):
            none *= 0.99
        got = answer(comparisons)
        require(
            isinstance(got, (int, float)) and abs(got - (1 - none)) < 1e-9,
            f"{comparisons} comparisons: at least one is wrong with probability {1 - none:.4f}, "
            f"not {got!r}",
        )


FALSE_POSITIVES = Exercise(
    name="false_positives",
    chapter="08_measuring",
    title="Many comparisons, one of them wrong",
    activity="fill in",
    minutes=4,
    goal="At a confidence of 99 % a comparison of equal programs finds a difference once in a "
    "hundred times: a *false positive*. A benchmark suite makes `comparisons` of them, "
    "independently of each other, and all its programs are equal. Fill in the blank: with what "
    "probability does it report one difference or more?",
    answer="false_positive",
    stub='''\
def false_positive(comparisons):
    """Return the probability of one false positive or more."""
    return 1 - ...
''',
    solution='''\
def false_positive(comparisons):
    """Return the probability of one false positive or more."""
    return 1 - 0.99**comparisons
''',
    hints=("With what probability are two comparisons both right? And all of them?",),
    checks=(Check("random suites", 1, _check_false_positives),),
)


def _check_ratios(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        n = int(rng.integers(20, 60))
        drift = 100 * (1 + 0.2 * np.sin(rng.uniform(0, 6) + np.linspace(0, 5, n)))
        a, b = (drift * np.exp(rng.normal(0, 0.02, n)) for _ in range(2))
        a[rng.integers(n)] *= 3
        right, got = np.sort(b / a), answer(a, b)
        require(_are_numbers(got, n), f"{n} turns have {n} ratios, and it returns {got!r}"[:200])
        at = int(np.argmax(np.abs(np.asarray(got, float) - right)))
        require(
            np.allclose(got, right, rtol=1e-9, atol=0),
            f"{n} turns: ratio {at} of the sorted ones is {right[at]:.4f}, and yours is "
            f"{got[at]:.4f}; the right ones lie between {right[0]:.4f} and {right[-1]:.4f}, yours "
            f"between {min(got):.4f} and {max(got):.4f}",
        )


TURN_RATIOS = Exercise(
    name="turn_ratios",
    chapter="08_measuring",
    title="An interval that is too narrow",
    activity="find the fault",
    minutes=6,
    goal="In turn `i` two programs took `a[i]` and `b[i]`, one right after the other, on a machine "
    "that drifts. `ratios(a, b)` returns the ratio `b / a` of every turn, sorted, so that an "
    "interval of the median is two of its values. These ratios lie much too close together, so the "
    "interval is too narrow, and programs that are equal seem to differ. Find the fault.",
    answer="ratios",
    stub='''\
import numpy as np


def ratios(a, b):
    """Return b's time over a's of every turn, in ascending order."""
    a, b = np.sort(a), np.sort(b)
    return b / a
''',
    solution='''\
import numpy as np


def ratios(a, b):
    """Return b's time over a's of every turn, in ascending order."""
    return np.sort(np.asarray(b) / np.asarray(a))
''',
    hints=("Which two times does the first ratio divide? Were they measured in the same turn?",),
    checks=(Check("turns of a machine that drifts", 1, _check_ratios),),
)


def _check_confidence(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for trial in range(15):
        n = draw.randint(2, 8 if trial < 5 else 60)
        k = draw.randint(1, n // 2)
        below = np.ones(1)  # probabilities of 0, 1, 2, ... times below the median
        for _ in range(n):
            below = np.convolve(below, (0.5, 0.5))
        right, got = float(below[k : n - k + 1].sum()), answer(n, k)
        require(
            isinstance(got, (int, float)) and abs(got - right) < 1e-9,
            f"{n} times, k = {k}: the interval encloses the median with probability {right:.4f}, "
            f"not {got!r}",
        )


CONFIDENCE = Exercise(
    name="rank_confidence",
    chapter="08_measuring",
    title="How sure an interval of two times is",
    activity="write",
    minutes=15,
    goal="Sort `n` times. The k-th smallest and the k-th largest are the ends of an interval. It "
    "misses the true median if fewer than `k` times lie below the median, or fewer than `k` above. "
    "Each time lies below it with probability 1/2, whatever the distribution is, and independently "
    "of the others. Write `confidence(n, k)`: the probability that the interval encloses the true "
    "median, for `k` from 1 to `n // 2`. (This is the *sign test*, read backwards.)",
    answer="confidence",
    stub='''\
def confidence(n, k):
    """Return the probability that the k-th smallest and largest of n times enclose the median."""
    raise NotImplementedError
''',
    solution='''\
from math import comb


def confidence(n, k):
    """Return the probability that the k-th smallest and largest of n times enclose the median."""
    missed = sum(comb(n, below) for below in range(k)) / 2**n
    return 1 - 2 * missed
''',
    hints=(
        "Toss n coins: heads are times below the median. How likely are fewer than k heads?",
        "`math.comb(n, i)` of the 2**n results have i heads. Fewer than k tails are as likely as "
        "fewer than k heads.",
    ),
    checks=(Check("random numbers of times", 2, _check_confidence),),
)

WARM_UPS = (TYPICAL, FALSE_POSITIVES, TURN_RATIOS, CONFIDENCE)
