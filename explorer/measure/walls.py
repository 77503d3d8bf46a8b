"""A planned wall beside the measured one: in all, brick by brick, and where units stood idle."""

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
    """A measured brick beside the planned one; `planned` is that one's position in its wall, -1
    and NaN where nothing was planned there.
    """

    planned: int
    planned_us: float
    measured_us: float
    planned_start_us: float
    measured_start_us: float

    @property
    def error_us(self) -> float:
        """How much longer it was planned than it took; less than nothing where it was not."""
        return (0.0 if isnan(self.planned_us) else self.planned_us) - self.measured_us


@dataclass(frozen=True, slots=True)
class IdleTime:
    """Idle microseconds of all units together, by cause."""

    cause: str
    planned_us: float
    measured_us: float


@dataclass(frozen=True, slots=True)
class WallComparison:
    """How well a plan foretold a run. Times are microseconds.

    `bricks` stand in the order of all of the measured wall's; `missing` planned ones were not seen.
    `rank_correlation` is Spearman's of the durations of bricks that both walls have, and
    `start_correlation` that of their starts; NaN where there are fewer than two.
    `total_error_us` is the sum of every brick's absolute error, those of only one wall in full.
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
        """How far the planned makespan is off, as a share of the measured one."""
        return off_by(self.planned_us, self.measured_us)


def off_by(predicted_us: float, measured_us: float) -> float:
    """Return how far a prediction is off, as a share of what was measured; below 0: too short."""
    return predicted_us / measured_us - 1 if measured_us else 0.0


def compare_walls(planned: Wall, measured: Wall) -> WallComparison:
    """The measured wall against the planned one, bricks paired by unit, call, tasks and trip."""
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
    """Spearman's rank correlation, equal values sharing their mean rank; NaN where one has no
    order at all.
    """
    if len(first) < 2:
        return nan
    a, b = (_ranks(np.asarray(values)) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size else nan


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle: np.ndarray = (last - counts + last - 1) / 2.0
    return middle[inverse]


def _place(b: Brick) -> Place:
    return b.unit, b.call, b.first, b.last, b.iteration


def _error(place: int, b: Brick, planned: Sequence[Brick]) -> BrickError:
    if place < 0:
        return BrickError(-1, nan, _us(b), nan, b.start_us)
    found = planned[place]
    return BrickError(place, _us(found), _us(b), found.start_us, b.start_us)


def _idle(planned: Wall, measured: Wall) -> tuple[IdleTime, ...]:
    plan, run = idle_by_cause(planned), idle_by_cause(measured)
    return tuple(IdleTime(c, plan.get(c, 0.0), run.get(c, 0.0)) for c in sorted({*plan, *run}))


def _us(b: Brick) -> float:
    return b.end_us - b.start_us
