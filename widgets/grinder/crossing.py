"""The schedules of a loop by trip count: predicted times, crossing points and measurements."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.runtime.control.schedule_times import (
    Crossing,
    CrossingConstants,
    ScheduleTime,
    TimedSchedule,
)
from widgets.draw.table import time_text

MOST = 10**6  # trips
HOST, PROGRAM = "on the host", "in the program"


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """The predicted times of one schedule at each trip count, in microseconds.

    `before_us` is spent before the first trip; `terms` are the costs of a trip of a full unrolled
    iteration. From `from_trips` trips on it is faster than the host (None: never).
    """

    label: str
    times_us: tuple[float, ...]
    before_us: float
    trip_us: float
    terms: tuple[tuple[str, float], ...]
    from_trips: int | None = None
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class CrossingRows:
    """The schedules of a loop at `counts` trips.

    `least` is the position of the fastest schedule at each count. `trips` is the loop's own trip
    count, None if only a run can tell; the fastest schedule changes at `crossing_counts`.
    """

    loop: str
    device: str
    supposed: bool
    counts: tuple[int, ...]
    schedules: tuple[ScheduleRow, ...]
    least: tuple[int, ...]
    refused: tuple[tuple[str, str], ...]
    trips: int | None
    symbol: str
    constants: CrossingConstants
    timed: tuple[TimedSchedule, ...]
    ops: tuple[str, ...]

    @property
    def first(self) -> int:
        """The initial position of the scrubber: the loop's own trip count, else 1,000."""
        return self.counts.index(1000 if self.trips is None else min(self.trips, MOST))

    @property
    def crossing_counts(self) -> tuple[int, ...]:
        """The counts at which the fastest schedule differs from that of the count before."""
        pairs = zip(self.counts[1:], self.least, self.least[1:])
        return tuple(n for n, a, b in pairs if a != b)


def data(loop: Crossing, device: str, supposed: bool = False) -> CrossingRows:
    """Return the rows of one loop."""
    host = loop.find(HOST)
    schedules = loop.open
    overtaking = {w.label: None if w is host else w.overtakes(host) for w in schedules}
    marks = [n for _, _, n in loop.overtaking()]
    counts = tuple(sorted({*_usual(), *(n for n in marks if n <= MOST), *_own_trips(loop)}))
    rows = tuple(_row(w, counts, overtaking[w.label], w.schedule == loop.chosen) for w in schedules)
    least = tuple(schedules.index(loop.least(n)) for n in counts)
    return CrossingRows(
        loop.loop,
        device,
        supposed,
        counts,
        rows,
        least,
        tuple((w.label, w.refused) for w in loop.schedules if w.refused),
        loop.trips,
        loop.symbol,
        loop.constants,
        loop.timed,
        loop.origin,
    )


def _usual() -> list[int]:
    """Return 0, then 1, 2 and 5 of each decade."""
    return [0, *(m * 10**p for p in range(6) for m in (1, 2, 5)), MOST]


def _own_trips(loop: Crossing) -> list[int]:
    return [] if loop.trips is None else [min(max(loop.trips, 0), MOST)]


def _row(
    schedule: ScheduleTime, counts: tuple[int, ...], begins: int | None, chosen: bool
) -> ScheduleRow:
    trip = schedule.each(None)
    times = tuple(schedule.at(n).us for n in counts)
    return ScheduleRow(
        schedule.label, times, schedule.entry.us, trip.us, trip.terms, begins, chosen
    )


def sentence(rows: CrossingRows) -> str:
    """Describe where the schedules cross."""
    schedules = {w.label: w for w in rows.schedules}
    program = next((label for label in schedules if label.startswith(PROGRAM)), "")
    if not program:
        each = f"{time_text(schedules[HOST].trip_us)} an iteration"
        return f"{rows.loop}: only the host can follow it, {each}"
    begins = schedules[program].from_trips
    if begins is not None:
        counted = "the first iteration" if begins <= 1 else f"{begins:,} iterations"
        return f"{rows.loop}: from {counted} on the program takes less than the host"
    return f"{rows.loop}: the host takes less than the program, however many iterations there are"


def at(rows: CrossingRows, position: int) -> str:
    """Describe the schedules at one count, the fastest first."""
    order = sorted(rows.schedules, key=lambda w: w.times_us[position])
    times = [f"{w.label}: {time_text(w.times_us[position])}" for w in order]
    return f"the fastest is {', '.join(times)}"
