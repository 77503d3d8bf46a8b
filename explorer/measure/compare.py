"""Timing in turns: medians with intervals, and a verdict that may be "not distinguishable".

An interval contains the true median 99 times in 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, exp, isfinite, log
from time import perf_counter_ns

import numpy as np

from explorer.errors import BadOption
from explorer.measure.machine import machine
from explorer.measure.turns import Clock, Series, Work, take_turns
from explorer.plain_text import duration
from explorer.printed import Printed

WIDE_RATIO = 1.1  # an interval whose ends lie further apart says little; chosen
NONE = "not distinguishable"
RESOLUTION_SHARE = 0.01  # by where code and buffers lie in memory; no measurement kept
CONFIDENCE = 0.99
BATCHES = 16  # consecutive parts of a long series, each as long as the noise remembers; chosen
LEAST_VALUES = 8  # fewer cannot say anything 99 times in 100: 2 * 0.5**7 > 0.01


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Printed):
    """Median time of n calls in microseconds with its 99 % interval, and the machine."""

    median_us: float
    low_us: float
    high_us: float
    n: int
    machine: str = ""

    def __str__(self) -> str:
        """Return median, interval, number of calls and machine."""
        interval = f"99 %: {duration(self.low_us)} to {duration(self.high_us)}, n = {self.n:,}"
        machine = f", on {self.machine}" if self.machine else ""
        return f"{duration(self.median_us)} per run ({interval}){machine}"


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Printed):
    """The first function against the second.

    `ratio` is the second's time over the first's, with its 99 % interval. `verdict` describes the
    first: "faster", "slower", or "not distinguishable" if the interval contains 1 or the ratio is
    within 1 % of it. `n` counts the rounds.
    """

    ratio: float
    low: float
    high: float
    n: int
    verdict: str
    first: Measurement
    second: Measurement

    @property
    def times(self) -> tuple[float, float, float]:
        """The first's time over the second's, and the ends of its interval."""
        return 1 / self.ratio, 1 / self.high, 1 / self.low

    @property
    def factor(self) -> tuple[float, float, float]:
        """How many times faster, or slower, the first is, as the verdict says, with the ends."""
        return self.times if self.verdict == "slower" else (self.ratio, self.low, self.high)

    @property
    def wide(self) -> bool:
        """True if the ends of the interval are more than a tenth apart."""
        return self.high > WIDE_RATIO * self.low

    def __str__(self) -> str:
        """Return verdict, factor and interval."""
        wide = ", wide" if self.wide else ""
        ratio, low, high = self.factor
        return f"{self.verdict}: {ratio:.3g}× ({low:.3g} to {high:.3g}, n = {self.n}{wide})"


def measure(work: Work, seconds: float = 1.0, clock: Clock = perf_counter_ns) -> Measurement:
    """Measure the time of a call after warming up, with at least 8 calls.

    The interval covers what a series of this length can see, but not a machine that is slower for
    minutes. To compare two functions, use `compare`, which takes turns.
    """
    return measurement(take_turns((work,), checked_seconds(seconds), clock)[0])


def compare(
    first: Work, second: Work, seconds: float = 2.0, clock: Clock = perf_counter_ns
) -> Comparison:
    """Compare the times of two functions that take turns, at least 20 each."""
    return comparison(*take_turns((first, second), checked_seconds(seconds), clock))


def measurement(series: Series) -> Measurement:
    """Return the time of one function from its turns."""
    interval = median_interval([float(np.median(turn)) for turn in series.turns])
    calls = [time for turn in series.turns for time in turn]
    middle = float(np.median(calls))
    return Measurement(
        middle / 1e3,
        min(interval.low, middle) / 1e3,
        max(interval.high, middle) / 1e3,
        len(calls) * series.calls,
        machine().line,
    )


def comparison(first: Series, second: Series) -> Comparison:
    """Compare two functions round by round: a disturbance of a round affects both.

    Rounds with only one of the functions are ignored.
    """
    logs = [log(_turn(b) / _turn(a)) for a, b in zip(first.turns, second.turns)]
    interval = median_interval(logs)
    ratio, low, high = exp(interval.median), exp(interval.low), exp(interval.high)
    return Comparison(
        ratio,
        low,
        high,
        len(logs),
        verdict(ratio, low, high),
        measurement(first),
        measurement(second),
    )


def verdict(ratio: float, low: float, high: float) -> str:
    """Return the verdict on the function in the denominator of a ratio of times."""
    if low > 1 and ratio > 1 + RESOLUTION_SHARE:
        return "faster"
    if high < 1 and ratio < 1 / (1 + RESOLUTION_SHARE):
        return "slower"
    return NONE


def checked_seconds(seconds: float) -> float:
    """Return a time to measure for; raise BadOption if it is invalid."""
    if not isfinite(seconds) or seconds < 0:
        raise BadOption(f"seconds must be a time, not {seconds}", actual=seconds)
    return seconds


def _turn(times: Sequence[float]) -> float:
    """Return the median of a turn."""
    return max(1e-3, float(np.median(times)))


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and its bounds."""

    median: float
    low: float
    high: float


def median_interval(series: Sequence[float]) -> Interval:
    """Return the median and its 99 % interval from order statistics.

    No distribution of the noise is assumed. A disturbance affects consecutive values, so a long
    series counts as 16 values: the medians of its consecutive parts. For fewer than 8 values the
    bounds are the least and the greatest.
    """
    values = np.asarray(series, float)
    middle = float(np.median(values))
    if len(values) >= 2 * BATCHES:
        values = np.array([np.median(part) for part in np.array_split(values, BATCHES)])
    ordered = np.sort(values)
    rank = _rank(len(ordered))
    low, high = float(ordered[rank]), float(ordered[-1 - rank])
    return Interval(middle, min(low, middle), max(high, middle))


@cache
def _rank(n: int) -> int:
    """Return how many values may lie outside on either side (the sign test's bound)."""
    allowed = int((1 - CONFIDENCE) / 2 * 2.0**n)  # of the 2**n ways; n stays below 32
    below, rank = 0, 0
    while (below := below + comb(n, rank)) <= allowed:
        rank += 1
    return max(0, rank - 1)
