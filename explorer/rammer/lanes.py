"""The wall while it is built: when units are free, and when results can be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.rammer.model import ROperator, Share, VDevice


@dataclass(slots=True)
class Lanes:
    """One rProgram that grows. Times are microseconds since its launch."""

    device: VDevice
    free: list[float]
    ends: dict[int, list[float]] = field(default_factory=dict)  # by operator, for each unit
    shares: list[Share] = field(default_factory=list)

    @staticmethod
    def empty(device: VDevice) -> Lanes:
        """A program in which nothing is placed."""
        return Lanes(device, device.first_starts)

    def take_back(self, count: int, free: list[float]) -> None:
        """Forget all shares but the first `count`, after which the units were free at `free`."""
        for share in self.shares[count:]:
            self.ends.pop(share.operator, None)
        del self.shares[count:]
        self.free = free

    @property
    def span_us(self) -> float:
        """From the launch to the end of the last task."""
        return max(self.free)

    @property
    def time_us(self) -> float:
        """The time of the program, its launch included; nothing is launched for nothing."""
        return self.span_us + self.device.launch_us if self.shares else 0.0

    def starts(self, operator: ROperator) -> list[float]:
        """When each unit could start a task at the earliest: it is free and has the operands."""
        starts = self.free[:]
        for read in operator.reads:
            ends = self.ends.get(read)
            if ends is not None:
                _raise_to_arrivals(starts, ends, self.device.barrier_us)
        return starts

    def place(self, position: int, operator: ROperator) -> None:
        """Give each task, one after the other, to the unit that could start it first.

        A unit's tasks are neighbours, so that it reads and writes neighbouring memory.
        """
        starts = self.starts(operator)
        counts = earliest_start_counts(starts, operator.tasks, operator.task_us)
        first = 0
        ends = [0.0] * len(starts)
        for unit, count in enumerate(counts):
            if count:
                self.shares.append(Share(position, unit, first, first + count))
                ends[unit] = self.free[unit] = starts[unit] + count * operator.task_us
                first += count
        self.ends[position] = ends


def _raise_to_arrivals(starts: list[float], ends: list[float], barrier_us: float) -> None:
    """A result of another unit can be read one barrier after it is there, one's own at once."""
    latest = max(ends)
    if latest <= 0.0:
        return
    owner = ends.index(latest)
    second = max((e for u, e in enumerate(ends) if u != owner), default=0.0)
    for unit, start in enumerate(starts):
        other = second if unit == owner else latest
        arrival = max(ends[unit], other + barrier_us if other > 0.0 else 0.0)
        if arrival > start:
            starts[unit] = arrival


def earliest_start_counts(starts: list[float], tasks: int, task_us: float) -> list[int]:
    """How many tasks each unit gets if each goes where it could start first."""
    if tasks <= 1 or task_us <= 0.0:
        counts = [0] * len(starts)
        counts[starts.index(min(starts))] = tasks
        return counts
    level = _water_level(sorted(starts), tasks * task_us)
    counts = [max(0, int((level - start) / task_us + 1e-9)) for start in starts]
    following = [start + count * task_us for start, count in zip(starts, counts)]
    order = sorted(range(len(starts)), key=following.__getitem__)
    missing = tasks - sum(counts)  # below the number of units; negative only by rounding
    for unit in order[:missing] if missing >= 0 else reversed(order[missing:]):
        counts[unit] += 1 if missing > 0 else -1
    return counts


def _water_level(starts: list[float], work_us: float) -> float:
    """The time at which all units would end if tasks could be cut anywhere."""
    total = 0.0
    for used, start in enumerate(starts, 1):
        total += start
        level = (work_us + total) / used
        if used == len(starts) or level <= starts[used]:
            return level
    raise AssertionError("there is at least one unit")
