"""The ways of a loop against its trips: what each should take, where one overtakes another, and
what the clock said.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.runtime.control.way_times import Constants, Crossing, Timed, WayTime
from widgets.draw.table import time_text

MOST = 10**6  # trips
HOST, PROGRAM = "on the host", "in the program"


@dataclass(frozen=True, slots=True)
class WayRow:
    """A way with its time at each of the counts, in microseconds; `before` is spent before the
    first trip, `terms` are those of a trip of a whole turn. `from_trips`: from how many on it takes
    less than from the host, None: never.
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
    """A loop's ways at `counts` of trips; `least` is the position of the fastest at each. `trips`
    is how many the loop makes, None where only a run tells; `meets` are the counts at which another
    way becomes the fastest.
    """

    loop: str
    device: str
    supposed: bool
    counts: tuple[int, ...]
    ways: tuple[WayRow, ...]
    least: tuple[int, ...]
    refused: tuple[tuple[str, str], ...]
    trips: int | None
    symbol: str
    constants: Constants
    timed: tuple[Timed, ...]
    ops: tuple[str, ...]

    @property
    def first(self) -> int:
        """The position at which a reader begins: the trips that the loop makes, else a thousand."""
        return self.counts.index(1000 if self.trips is None else min(self.trips, MOST))

    @property
    def meets(self) -> tuple[int, ...]:
        """The counts from which on another way is the fastest than at the count before."""
        pairs = zip(self.counts[1:], self.least, self.least[1:])
        return tuple(n for n, a, b in pairs if a != b)


def data(found: Crossing, device: str, supposed: bool = False) -> CrossingRows:
    """The rows of one loop."""
    host = found.way(HOST)
    ways = found.open
    overtaking = {w.label: None if w is host else w.overtakes(host) for w in ways}
    marks = [n for _, _, n in found.overtaking()]
    counts = tuple(sorted({*_usual(), *(n for n in marks if n <= MOST), *_own(found)}))
    rows = tuple(_row(w, counts, overtaking[w.label], w.way == found.chosen) for w in ways)
    least = tuple(ways.index(found.least(n)) for n in counts)
    return CrossingRows(
        found.loop,
        device,
        supposed,
        counts,
        rows,
        least,
        tuple((w.label, w.refused) for w in found.ways if w.refused),
        found.trips,
        found.symbol,
        found.constants,
        found.timed,
        found.origin,
    )


def _usual() -> list[int]:
    """0, then 1, 2 and 5 of each decade."""
    return [0, *(m * 10**p for p in range(6) for m in (1, 2, 5)), MOST]


def _own(found: Crossing) -> list[int]:
    return [] if found.trips is None else [min(max(found.trips, 0), MOST)]


def _row(way: WayTime, counts: tuple[int, ...], begins: int | None, chosen: bool) -> WayRow:
    trip = way.each(None)
    times = tuple(way.at(n).us for n in counts)
    return WayRow(way.label, times, way.entry.us, trip.us, trip.terms, begins, chosen)


def sentence(rows: CrossingRows) -> str:
    """Where the ways cross, in words."""
    ways = {w.label: w for w in rows.ways}
    program = next((label for label in ways if label.startswith(PROGRAM)), "")
    if not program:
        each = f"{time_text(ways[HOST].trip_us)} an iteration"
        return f"{rows.loop}: only the host can follow it, {each}"
    begins = ways[program].from_trips
    if begins is not None:
        counted = "the first iteration" if begins <= 1 else f"{begins:,} iterations"
        return f"{rows.loop}: from {counted} on the program takes less than the host"
    return f"{rows.loop}: the host takes less than the program, however many iterations there are"


def at(rows: CrossingRows, position: int) -> str:
    """The ways at one count, in words, the fastest first."""
    order = sorted(rows.ways, key=lambda w: w.times_us[position])
    said = [f"{w.label}: {time_text(w.times_us[position])}" for w in order]
    return f"the fastest is {', '.join(said)}"
