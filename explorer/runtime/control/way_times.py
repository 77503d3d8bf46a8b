"""What a way of a loop should take, as a function of its trips; from where on one takes less than
another.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, lcm

from explorer.devices.python_times import PythonTimes
from explorer.errors import BadOption
from explorer.ir.decisions.control import ControlWay
from explorer.plain_text import duration, table
from explorer.printed import Printed
from explorer.runtime.control.costs import Time

SAME_US = 1e-6  # times that differ by less are one: sums are rounded


@dataclass(frozen=True, slots=True)
class WayTime:
    """Predicted: `entry` before the first trip, then `turn` for each `way.turn` trips. What is left
    of turns is a loop of its own: it takes `entry` again, and `one` a trip; where the trips are not
    `counted` before a run it is always entered. `refused`: why the loop cannot go this way.
    """

    label: str
    way: ControlWay
    entry: Time = Time()
    turn: Time = Time()
    one: Time = Time()
    counted: bool = True
    refused: str = ""

    def trips(self, count: int) -> Time:
        """So many trips, what stands before the first one aside."""
        turns, left = divmod(count, self.way.turn)
        time = self.turn.times(turns)
        if self.way.turn > 1 and (left or not self.counted):
            time += self.entry + self.one.times(left)
        return time

    def at(self, count: int) -> Time:
        """The whole loop, of so many trips."""
        return self.entry + self.trips(count)

    def each(self, count: int | None) -> Time:
        """A trip on average, where it makes so many; of a whole turn where nobody knows."""
        if not count or self.way.turn == 1:
            return self.turn.times(1 / self.way.turn)
        return self.trips(count).times(1 / count)

    def overtakes(self, other: WayTime) -> int | None:
        """The least number of trips from which on this way never takes as long as the other; None
        where there is none.

        What is gained over another way is, from one turn of both to the next, always the same.
        """
        period = lcm(self.way.turn, other.way.turn)
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
class Constants:
    """What stands between kernels, in microseconds: a launch from Python after the first, a barrier
    of all units, and what Python takes. `source` is that of the first two.
    """

    launch_us: float
    barrier_us: float
    source: str
    python: PythonTimes


@dataclass(frozen=True, slots=True)
class Timed:
    """A way that was timed with so many trips: the median of `n` runs with its 99 % interval, in
    microseconds, what stands around the loop left out.
    """

    label: str
    trips: int
    median_us: float
    low_us: float
    high_us: float
    n: int


@dataclass(frozen=True, slots=True, repr=False)
class Crossing(Printed):
    """The ways of a loop against its trips: predicted, and `timed` where a clock was asked. The
    program goes the `chosen` way, and makes so many `trips` where constants and sizes tell; those
    are a `symbol` where they are one.
    """

    loop: str
    ways: tuple[WayTime, ...]
    chosen: ControlWay | None
    trips: int | None
    symbol: str
    constants: Constants
    origin: tuple[str, ...] = ()
    timed: tuple[Timed, ...] = ()

    def __str__(self) -> str:
        rows = [
            (
                w.label,
                "" if w.refused else duration(w.each(self.trips).us),
                w.refused or ("chosen" if w.way == self.chosen else ""),
            )
            for w in self.ways
        ]
        return f"{self.first_line}\n{table(('way', '>an iteration, predicted', ''), rows)}"

    @property
    def first_line(self) -> str:
        """The loop, and how often it runs."""
        often = self.symbol or ("unknown" if self.trips is None else f"{self.trips:,}")
        return f"loop {self.loop}, iterations: {often}"

    @property
    def open(self) -> tuple[WayTime, ...]:
        """The ways that the loop can go."""
        return tuple(w for w in self.ways if not w.refused)

    def way(self, label: str) -> WayTime:
        """One of these, by its label; raises BadOption where there is none."""
        for found in self.open:
            if found.label == label:
                return found
        known = ", ".join(w.label for w in self.open)
        raise BadOption(f"{self.loop} cannot go {label[:40]!r}", where=self.loop, expected=known)

    def least(self, trips: int) -> WayTime:
        """The way that should take the least with so many trips."""
        return min(self.open, key=lambda w: w.at(trips).us)

    def overtaking(self) -> tuple[tuple[WayTime, WayTime, int], ...]:
        """(a way, another one, from how many trips on it takes less than that), soonest first."""
        pairs = ((a, b, a.overtakes(b)) for a in self.open for b in self.open if a is not b)
        found = [(a, b, n) for a, b, n in pairs if n is not None]
        return tuple(sorted(found, key=lambda row: row[2]))
