"""Predicted time of a loop's schedule as a function of its trips, and their crossing points."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, lcm

from explorer.devices.costs import PythonTimes
from explorer.errors import BadOption
from explorer.ir.decisions.control import ControlSchedule
from explorer.plain_text import duration, table
from explorer.printed import Printed
from explorer.runtime.planning.control_costs import Time

SAME_US = 1e-6  # smaller differences are rounding


@dataclass(frozen=True, slots=True)
class ScheduleTime:
    """The predicted time of a schedule: `entry` before the first trip, then `turn` for each turn.

    The trips that remain after complete turns are a loop of their own: it takes `entry` again, and
    `remainder_trip` a trip. If the trips are not `counted` before a run, it is always entered.
    `refused`: why the loop cannot have this schedule.
    """

    label: str
    schedule: ControlSchedule
    entry: Time = Time()
    turn: Time = Time()
    remainder_trip: Time = Time()
    counted: bool = True
    refused: str = ""

    def trips(self, count: int) -> Time:
        """Return the time of `count` trips, without the entry."""
        turns, left = divmod(count, self.schedule.unroll)
        time = self.turn.times(turns)
        if self.schedule.unroll > 1 and (left or not self.counted):
            time += self.entry + self.remainder_trip.times(left)
        return time

    def at(self, count: int) -> Time:
        """Return the time of the whole loop, with `count` trips."""
        return self.entry + self.trips(count)

    def each(self, count: int | None) -> Time:
        """Return the mean time of a trip for `count` trips; for None that of a complete turn."""
        if not count or self.schedule.unroll == 1:
            return self.turn.times(1 / self.schedule.unroll)
        return self.trips(count).times(1 / count)

    def overtakes(self, other: ScheduleTime) -> int | None:
        """Return the least trip count from which on this schedule is faster than the other.

        Return None if there is none. The gain over another schedule is the same from each common
        turn of both to the next.
        """
        period = lcm(self.schedule.unroll, other.schedule.unroll)
        gains = [other.at(n).us - self.at(n).us for n in range(period)]
        step = other.at(period).us - self.at(period).us - gains[0]
        if step <= SAME_US:
            return 0 if abs(step) <= SAME_US and min(gains) > SAME_US else None
        last = -1
        for n, gain in enumerate(gains):
            if gain <= SAME_US:
                last = max(last, n + period * floor((SAME_US - gain) / step))
        return last + 1


@dataclass(frozen=True, slots=True)
class CrossingConstants:
    """Costs between kernels, in microseconds.

    They are a launch from Python after the first, a barrier of all units, and Python's steps.
    `source` is that of the first two.
    """

    launch_us: float
    barrier_us: float
    source: str
    python: PythonTimes


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule timed with a number of trips.

    The median of `n` runs with its 99 % interval, in microseconds, without the time around the
    loop.
    """

    label: str
    trips: int
    median_us: float
    low_us: float
    high_us: float
    n: int


@dataclass(frozen=True, slots=True, repr=False)
class Crossing(Printed):
    """The schedules of a loop against its trips: predicted, and `timed` if they were measured.

    The program has the `chosen` schedule. `trips` is the loop's trip count if constants and sizes
    determine it; `symbol` is its symbol, if it is one.
    """

    loop: str
    schedules: tuple[ScheduleTime, ...]
    chosen: ControlSchedule | None
    trips: int | None
    symbol: str
    constants: CrossingConstants
    origin: tuple[str, ...] = ()
    timed: tuple[TimedSchedule, ...] = ()

    def __str__(self) -> str:
        """Return a table of the schedules."""
        rows = [
            (
                w.label,
                "" if w.refused else duration(w.each(self.trips).us),
                w.refused or ("chosen" if w.schedule == self.chosen else ""),
            )
            for w in self.schedules
        ]
        return f"{self.first_line}\n{table(('way', '>an iteration, predicted', ''), rows)}"

    @property
    def first_line(self) -> str:
        """The loop and its trip count."""
        often = self.symbol or ("unknown" if self.trips is None else f"{self.trips:,}")
        return f"loop {self.loop}, iterations: {often}"

    @property
    def open(self) -> tuple[ScheduleTime, ...]:
        """The schedules that are possible."""
        return tuple(w for w in self.schedules if not w.refused)

    def find(self, label: str) -> ScheduleTime:
        """Return a schedule by its label.

        Raises:
            BadOption: There is none.
        """
        for candidate in self.open:
            if candidate.label == label:
                return candidate
        labels = ", ".join(w.label for w in self.open)
        raise BadOption(
            f"{self.loop} has no schedule {label[:40]!r}", where=self.loop, expected=labels
        )

    def least(self, trips: int) -> ScheduleTime:
        """Return the fastest schedule for a number of trips, as predicted."""
        return min(self.open, key=lambda w: w.at(trips).us)

    def overtaking(self) -> tuple[tuple[ScheduleTime, ScheduleTime, int], ...]:
        """Return (a schedule, another one, the trips from which on it is faster), soonest first."""
        pairs = ((a, b, a.overtakes(b)) for a in self.open for b in self.open if a is not b)
        crossings = [(a, b, n) for a, b, n in pairs if n is not None]
        return tuple(sorted(crossings, key=lambda row: row[2]))
