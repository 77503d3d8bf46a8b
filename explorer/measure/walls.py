"""Comparison of a planned wall with a measured one: in total, by brick, and by idle time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TypeAlias

import numpy as np

from explorer.ir.decisions.wall import Brick, Wall
from explorer.rammer.walls.wall_statistics import idle_by_cause

Place: TypeAlias = tuple[int, str, int, int, int]


@dataclass(frozen=True, slots=True)
class BrickError:
    """A measured brick beside the planned one.

    `planned` is the position of the planned brick in its wall; -1 with NaN times if there is none.
    """

    planned: int
    planned_us: float
    measured_us: float
    planned_start_us: float
    measured_start_us: float

    @property
    def error_us(self) -> float:
        """Planned minus measured duration."""
        return (0.0 if isnan(self.planned_us) else self.planned_us) - self.measured_us


@dataclass(frozen=True, slots=True)
class IdleTime:
    """Idle microseconds of all units together, by cause."""

    cause: str
    planned_us: float
    measured_us: float


@dataclass(frozen=True, slots=True)
class WallComparison:
    """Accuracy of a plan against a run; times are microseconds.

    `bricks` are in the order of the measured wall; `missing` planned ones were not seen.
    `rank_correlation` is Spearman's of the durations of bricks that both walls have, and
    `start_correlation` that of their starts; NaN for fewer than two. `total_error_us` is the sum of
    every brick's absolute error, those of only one wall in full.
    """

    planned_us: float
    measured_us: float
    bricks: tuple[BrickError, ...]
    missing: int
    rank_correlation: float
    start_correlation: float
    total_error_us: float
    idle: tuple[IdleTime, ...]

    @property
    def error(self) -> float:
        """Error of the planned makespan as a share of the measured one."""
        return off_by(self.planned_us, self.measured_us)


def off_by(predicted_us: float, measured_us: float) -> float:
    """Return the error of a prediction as a share of the measurement; below 0 if too short."""
    return predicted_us / measured_us - 1 if measured_us else 0.0


def compare_walls(planned: Wall, measured: Wall) -> WallComparison:
    """Compare walls; bricks are paired by unit, call, tasks and trip."""
    plan = planned.everything
    places = {_place(b): n for n, b in enumerate(plan)}
    bricks = tuple(_error(places.pop(_place(b), -1), b, plan) for b in measured.everything)
    both = [b for b in bricks if b.planned >= 0]
    unseen = sum(_us(plan[n]) for n in places.values())
    return WallComparison(
        planned.total_us,
        measured.total_us,
        bricks,
        len(places),
        spearman([b.planned_us for b in both], [b.measured_us for b in both]),
        spearman([b.planned_start_us for b in both], [b.measured_start_us for b in both]),
        sum(abs(b.error_us) for b in bricks) + unseen,
        _idle(planned, measured),
    )


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation, with mean ranks for ties; NaN for constant values."""
    if len(first) < 2:
        return nan
    a, b = (_ranks(np.asarray(values)) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size else nan


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of values, ties sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: np.ndarray = (last - counts + last - 1) / 2.0
    return middle[inverse]


def _place(b: Brick) -> Place:
    """Return the identity of a brick."""
    return b.unit, b.call, b.first, b.last, b.iteration


def _error(place: int, b: Brick, planned: Sequence[Brick]) -> BrickError:
    """Compare a measured brick with the planned one."""
    if place < 0:
        return BrickError(-1, nan, _us(b), nan, b.start_us)
    brick = planned[place]
    return BrickError(place, _us(brick), _us(b), brick.start_us, b.start_us)


def _idle(planned: Wall, measured: Wall) -> tuple[IdleTime, ...]:
    """Return idle time by cause of both walls."""
    plan, run = idle_by_cause(planned), idle_by_cause(measured)
    return tuple(IdleTime(c, plan.get(c, 0.0), run.get(c, 0.0)) for c in sorted({*plan, *run}))


def _us(b: Brick) -> float:
    """Return the duration of a brick."""
    return b.end_us - b.start_us
