"""Summaries of walls: a planned one against a measured one, and the profile of one wall.

Walls are compared in total, by brick, and by idle time. The profile is the time of a run by kernel
call and by source operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import TypeAlias

import numpy as np

from explorer.ir.calls import MatchCast, ShapeOf, View
from explorer.ir.decisions.wall import Brick, Wall
from explorer.ir.program import Binding, Program
from explorer.ops import family
from explorer.plain_text import counted, duration, percent, table
from explorer.printed import Printed
from explorer.rammer.wall_statistics import idle_by_cause

Place: TypeAlias = tuple[int, str, int, int, int]
MOST_ROWS = 20  # of a table in the summary; chosen


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


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time of one kernel or library call over all units and trips, and its share of all bricks."""

    name: str
    family: str
    us: float
    share: float
    tasks: int
    bricks: int
    origin: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time of one source operator and its share; `kind` is its operator, such as Conv.

    `shared`: some of its kernels compute other operators too; their time is split evenly, so this
    is an estimate.
    """

    name: str
    kind: str
    us: float
    share: float
    kernels: tuple[str, ...]
    shared: bool


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Printed):
    """Kernels and operators, the longest first.

    `busy_us` is the time of all bricks, `total_us` that of the run. `absent` gives the reason for
    each source operator that took no time. `kind` is the wall's: only a clock says "measured".
    """

    kernels: tuple[KernelTime, ...]
    operators: tuple[OperatorTime, ...]
    absent: tuple[tuple[str, str], ...]
    busy_us: float
    total_us: float
    units: int
    kind: str

    def __str__(self) -> str:
        """Return tables of operators and kernels."""
        tables = _table("operator", self.operators), _table("kernel", self.kernels)
        return "\n".join((self.first_line, *tables))

    @property
    def first_line(self) -> str:
        """The time of the run, and how much of it the units were busy."""
        busy = f"{duration(self.busy_us)} of work in {counted(self.units, 'row')}"
        return f"{self.kind}: {duration(self.total_us)} per run, {busy}"


def _table(what: str, entries: Sequence[KernelTime | OperatorTime]) -> str:
    """Format the longest rows as a table."""
    rows = [(row.name, duration(row.us), percent(row.share)) for row in entries[:MOST_ROWS]]
    if len(entries) > MOST_ROWS:
        left = entries[MOST_ROWS:]
        us, share = sum(row.us for row in left), sum(row.share for row in left)
        rows.append((f"{len(left):,} more", duration(us), percent(share)))
    return table((what, ">time", ">share"), rows)


def profile_of(program: Program, wall: Wall) -> Profile:
    """Return the time of each call and of each source operator of a program on one wall."""
    kernels = _kernels(program, wall.everything)
    busy = sum(k.us for k in kernels)
    operators = _operators(program, kernels, busy)
    seen = {o.name for o in operators}
    reasons = _reasons(program)
    absent = ((s.name, reasons.get(s.name, "")) for s in program.sources if s.name not in seen)
    return Profile(kernels, operators, tuple(absent), busy, wall.total_us, wall.units, wall.kind)


def _reasons(program: Program) -> dict[str, str]:
    """Return why source operators may take no time: views, skipped code, or dropped operators."""
    reasons: dict[str, str] = {}
    for _, binding in program.bindings():
        nothing = isinstance(binding.expr, View | MatchCast | ShapeOf)
        for name in binding.origin:
            if not nothing or name not in reasons:
                reasons[name] = "only a view: nothing moves" if nothing else "did not run"
    return reasons | dict(program.dropped)


def _kernels(program: Program, bricks: Iterable[Brick]) -> tuple[KernelTime, ...]:
    """Return the time of each call."""
    bindings = {v.name: b for _, b in program.bindings() for v in b.vars}
    by_call: dict[str, list[Brick]] = defaultdict(list)
    for brick in bricks:
        by_call[brick.call].append(brick)
    busy = sum(_us(b) for of_call in by_call.values() for b in of_call)
    rows = [_kernel(name, of_call, bindings.get(name), busy) for name, of_call in by_call.items()]
    return tuple(sorted(rows, key=lambda k: (-k.us, k.name)))


def _kernel(name: str, bricks: list[Brick], binding: Binding | None, busy: float) -> KernelTime:
    """Return the time of one call."""
    us = sum(_us(b) for b in bricks)
    origin = frozenset[str]().union(*(b.origin for b in bricks)) or (
        binding.origin if binding else frozenset()
    )
    return KernelTime(
        name,
        family(binding) if binding else "",
        us,
        us / busy if busy else 0.0,
        sum(b.last - b.first for b in bricks),
        len(bricks),
        tuple(sorted(origin)),
    )


def _operators(
    program: Program, kernels: tuple[KernelTime, ...], busy: float
) -> tuple[OperatorTime, ...]:
    """Return the time of each source operator."""
    kinds = {s.name: s.op for s in program.sources}
    parts: dict[str, list[KernelTime]] = defaultdict(list)
    for kernel in kernels:
        for operator in kernel.origin:
            parts[operator].append(kernel)
    rows = []
    for name, kernels_of in parts.items():
        us = sum(k.us / len(k.origin) for k in kernels_of)
        rows.append(
            OperatorTime(
                name,
                kinds.get(name, ""),
                us,
                us / busy if busy else 0.0,
                tuple(k.name for k in kernels_of),
                any(len(k.origin) > 1 for k in kernels_of),
            )
        )
    return tuple(sorted(rows, key=lambda o: (-o.us, o.name)))
