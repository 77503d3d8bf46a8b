"""Median of a time series, and an interval that contains the true median 99 times in 100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np

CONFIDENCE = 0.99
BATCHES = 16  # consecutive parts of a long series, each as long as the noise remembers; chosen
LEAST_VALUES = 8  # fewer cannot say anything 99 times in 100: 2 * 0.5**7 > 0.01


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
