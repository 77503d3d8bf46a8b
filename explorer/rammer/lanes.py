"""State of a wall under construction: when units are free, and when results are ready."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from explorer.rammer.model import ROperator, Share, VDevice


class ReadyTimes(NamedTuple):
    """The times at which an operator's results are ready: its last unit, its end, and the others'.

    A reader needs no more: a unit's own results are ready at once, those of other units one barrier
    later.
    """

    latest_us: float
    unit: int
    others_us: float


class PlacedOperator(NamedTuple):
    """Runs of an operator's tasks: their units, first tasks, counts, and ends.

    A unit may have more than one run.
    """

    operator: int
    kernel: int
    units: tuple[int, ...]
    firsts: tuple[int, ...]
    counts: tuple[int, ...]
    ends_us: tuple[float, ...]


@dataclass(slots=True)
class Lanes:
    """One rProgram that grows; times are microseconds since its launch."""

    device: VDevice
    free: list[float]
    written: dict[int, ReadyTimes] = field(default_factory=dict)
    laid: list[PlacedOperator] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)  # by operator, in `laid`

    @staticmethod
    def empty(device: VDevice) -> Lanes:
        """Return a program in which nothing is placed."""
        return Lanes(device, device.first_starts)

    def take_back(self, count: int, free: list[float]) -> None:
        """Remove all operators but the first `count`, after which the units were free at `free`."""
        for laid in self.laid[count:]:
            del self.written[laid.operator], self.places[laid.operator]
        del self.laid[count:]
        self.free = free

    @property
    def span_us(self) -> float:
        """The time from the launch to the end of the last task."""
        return max(self.free)

    @property
    def time_us(self) -> float:
        """The time of the program with its launch or barrier; 0 for an empty program."""
        return self.span_us + self.device.between_us if self.laid else 0.0

    @property
    def shares(self) -> tuple[Share, ...]:
        """The shares that are placed."""
        return tuple(
            Share(operator, unit, first, first + count, kernel)
            for operator, kernel, units, firsts, counts, _ in self.laid
            for unit, first, count in zip(units, firsts, counts)
        )

    def starts(self, operator: ROperator, reads: Sequence[int] | None = None) -> list[float]:
        """Return the earliest start of a task on each unit, when it is free and has the operands.

        The operands are those of `reads`, if given.
        """
        arrival_us, unit, own_us = self._arrivals(operator.reads if reads is None else reads)
        starts = [at if at > arrival_us else arrival_us for at in self.free]
        if unit >= 0:
            starts[unit] = max(self.free[unit], own_us)
        return starts

    def _arrivals(self, reads: Sequence[int]) -> tuple[float, int, float]:
        """Return when the operands are ready, and the one unit where they are earlier (or -1)."""
        barrier_us = self.device.barrier_us
        written = [self.written[read] for read in reads if read in self.written]
        if not written:
            return 0.0, -1, 0.0
        latest_us, unit, _ = max(written)
        own_us = 0.0
        for w in written:
            if w.unit != unit:
                own_us = max(own_us, w.latest_us + barrier_us)
            else:
                others_us = w.others_us + barrier_us if w.others_us > 0.0 else 0.0
                own_us = max(own_us, w.latest_us, others_us)
        return latest_us + barrier_us, unit, own_us

    def place(self, position: int, operator: ROperator, kernel: int = 0) -> None:
        """Give each task, one after the other, to the unit that could start it first.

        The tasks of a unit are adjacent, to read adjacent memory.
        """
        chosen = operator.kernel(kernel)
        if chosen.tasks < 1:
            return
        starts = self.starts(operator)
        counts = earliest_start_counts(starts, chosen.tasks, chosen.task_us)
        units = [unit for unit, count in enumerate(counts) if count]
        ends = [starts[unit] + counts[unit] * chosen.task_us for unit in units]
        for split in self._splits(operator, chosen.tasks):
            starts = self.starts_as(operator, split)
            after = [starts[u] + n * chosen.task_us for u, n in zip(split.units, split.counts)]
            if max(after) <= max(ends):
                laid = split._replace(operator=position, kernel=kernel, ends_us=tuple(after))
                self.lay(laid)
                return
        mine = [counts[unit] for unit in units]
        firsts = accumulate(mine[:-1], initial=0)
        self.lay(
            PlacedOperator(position, kernel, tuple(units), tuple(firsts), tuple(mine), tuple(ends))
        )

    def starts_as(self, operator: ROperator, split: PlacedOperator) -> list[float]:
        """Return the earliest start of each unit if the tasks are cut as those of an operand.

        An aligned operand that was cut the same way is then on the same unit.
        """
        same = [
            self.laid[self.places[read]]
            for read in operator.aligned
            if read in self.places and self.laid[self.places[read]][2:5] == split[2:5]
        ]
        others = [r for r in operator.reads if all(r != laid.operator for laid in same)]
        starts = self.starts(operator, others)
        for laid in same:
            for unit, end in zip(laid.units, laid.ends_us):
                starts[unit] = max(starts[unit], end)
        return starts

    def _splits(self, operator: ROperator, tasks: int) -> list[PlacedOperator]:
        """Return the cuts of the operands that an operator is aligned with."""
        cuts = [self.laid[self.places[read]] for read in operator.aligned if read in self.places]
        return [o for o in cuts if sum(o.counts) == tasks and len(set(o.units)) == len(o.units)]

    def lay(self, laid: PlacedOperator) -> None:
        """Append an operator whose tasks have been assigned to units."""
        self.free = self.free[:]
        for unit, end in zip(laid.units, laid.ends_us):
            self.free[unit] = end
        latest_us = max(laid.ends_us)
        last = laid.units[laid.ends_us.index(latest_us)]
        others_us = max((e for u, e in zip(laid.units, laid.ends_us) if u != last), default=0.0)
        self.written[laid.operator] = ReadyTimes(latest_us, last, others_us)
        self.places[laid.operator] = len(self.laid)
        self.laid.append(laid)


def earliest_start_counts(starts: Sequence[float], tasks: int, task_us: float) -> list[int]:
    """Return the number of tasks of each unit if each task goes where it could start first."""
    if tasks <= 1 or task_us <= 0.0:
        counts = [0] * len(starts)
        counts[starts.index(min(starts))] = tasks
        return counts
    level = _water_level(sorted(starts), tasks * task_us)
    counts = [int((level - start) / task_us + 1e-9) if start < level else 0 for start in starts]
    missing = tasks - sum(counts)  # below the number of units; negative only by rounding
    if missing:
        following = [start + count * task_us for start, count in zip(starts, counts)]
        order = sorted(range(len(starts)), key=following.__getitem__)
        for unit in order[:missing] if missing > 0 else reversed(order[missing:]):
            counts[unit] += 1 if missing > 0 else -1
    return counts


def _water_level(starts: Sequence[float], work_us: float) -> float:
    """Return the time at which all units would end if tasks could be cut anywhere."""
    total = 0.0
    for used, start in enumerate(starts, 1):
        total += start
        level = (work_us + total) / used
        if used == len(starts) or level <= starts[used]:
            return level
    raise AssertionError("there is at least one unit")
