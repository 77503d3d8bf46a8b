"""Text of a brick wall: planned against measured brick by brick, and the use of time."""

from __future__ import annotations

from math import isnan

import numpy as np
from numpy.typing import NDArray

from explorer.devices.catalogue import unit_word
from explorer.measure.walls import WallComparison, off_by
from widgets.draw.table import Cell, Table, time_text
from widgets.model.brick_wall import NAMES, PREDICTED, WallRows, kind_text, units_text

MOST_ROWS = 2000
Times = NDArray[np.float64]


def match_bricks(
    planned: WallRows, ran: WallRows, comparison: WallComparison
) -> tuple[Times, Times, NDArray[np.int64]]:
    """Match planned bricks with measured ones.

    Returns the measured time of each planned brick and the planned time of each measured brick; NaN
    marks a brick without counterpart. The third array holds each planned brick's counterpart, or
    -1.
    """
    took, should = np.full(planned.bricks, np.nan), np.full(ran.bricks, np.nan)
    partner = np.full(planned.bricks, -1)
    if planned.order is None or ran.order is None:
        return took, should, partner
    at = np.full(planned.bricks, -1)
    at[planned.order] = np.arange(planned.bricks)
    place = np.array([b.planned for b in comparison.bricks], np.int64)[ran.order]
    both = np.flatnonzero(place >= 0)
    mine = at[place[both]]
    took[mine] = (ran.end - ran.start)[both]
    should[both] = (planned.end - planned.start)[mine]
    partner[mine] = both
    return took, should, partner


def compared_words(comparison: WallComparison) -> str:
    """Describe the total error, the rank correlation of bricks, and the sum of their errors."""
    rank = (
        ""
        if isnan(comparison.rank_correlation)
        else f"order agrees {comparison.rank_correlation:.2f}, "
    )
    error = f"{rank}errors of tasks {time_text(comparison.total_error_us)}"
    return f"{off_text(comparison.error)}, {error}"


def off_text(error: float) -> str:
    """Describe the error of a predicted time."""
    if abs(error) < 0.005:
        return "predicted to the percent"
    return f"predicted {abs(error):.0%} too {'long' if error > 0 else 'short'}"


def caption(
    planned: WallRows, ran: WallRows | None, comparison: WallComparison | None = None
) -> str:
    """Compare the plan with a run, measured here or recorded elsewhere, in one line."""
    units = units_text(planned.units, planned.device)
    text = f"{PREDICTED} {time_text(planned.total_us)} on {units}"
    if ran is None:
        return f"{text}: {_shares(planned)}"
    if comparison is None and ran.source:  # recorded on another device
        return f"{text}, {ran.title}: {time_text(ran.total_us)}: {_shares(ran)}"
    words = (
        compared_words(comparison)
        if comparison
        else off_text(off_by(planned.total_us, ran.total_us))
    )
    stop = ":" if ran.source else ""
    return f"{text}, {ran.title}{stop} {time_text(ran.total_us)} ({words}): {_shares(ran)}"


def _shares(rows: WallRows) -> str:
    return ", ".join(f"{NAMES.get(n, n)} {v:.1%}" for n, v in rows.shares().items())


def areas(planned: WallRows, ran: WallRows | None) -> Table:
    """Return the unit-time that is busy and that is idle by cause, with the total."""
    walls = [w for w in (planned, ran) if w is not None]
    names = dict.fromkeys(n for w in walls for n in w.areas_us())
    rows: list[tuple[Cell, ...]] = [
        (NAMES.get(n, n), *(c for w in walls for c in _cells(w, w.areas_us().get(n, 0.0))))
        for n in names
    ]
    rows.append(("all", *(c for w in walls for c in _cells(w, sum(w.areas_us().values())))))
    columns = [f"{unit_word(planned.device)}s × time"]
    for w in walls:
        columns += [f"{kind_text(w.kind)} µs", f"{kind_text(w.kind)} share"]
    return Table(tuple(columns), tuple(rows), (), caption(planned, ran))


def _cells(rows: WallRows, us: float) -> tuple[Cell, Cell]:
    return round(us, 2), f"{us / rows.area_us:.1%}" if rows.area_us else "0.0%"


def table(
    planned: WallRows,
    ran: WallRows | None = None,
    selected: str = "",
    comparison: WallComparison | None = None,
) -> Table:
    """Return one row per brick, predicted next to measured; the selected operator's come first."""
    order = _order(planned, selected)
    back = np.full(planned.bricks, -1)
    if ran is not None and comparison is not None:
        _, _, back = match_bricks(planned, ran, comparison)
    rows = tuple(_row(planned, ran, i, int(back[i])) for i in order[:MOST_ROWS].tolist())
    kind = ran.kind if ran is not None else "measured"
    columns = (
        unit_word(planned.device),
        "call",
        "family",
        "tasks",
        "predicted start µs",
        "predicted µs",
        f"{kind} start µs",
        f"{kind} µs",
        "predicted off by",
    )
    ops = tuple(planned.calls[planned.call[i]].ops for i in order[:MOST_ROWS].tolist())
    more = f", the first {MOST_ROWS:,} of {len(order):,} tasks" if len(order) > MOST_ROWS else ""
    return Table(columns, rows, ops, caption(planned, ran, comparison) + more)


def _order(rows: WallRows, selected: str) -> NDArray[np.int64]:
    mine = np.isin(rows.call, rows.calls_of(selected)) if selected else np.zeros(rows.bricks, bool)
    return np.argsort(~mine, kind="stable")


def _row(planned: WallRows, ran: WallRows | None, i: int, j: int) -> tuple[Cell, ...]:
    call = planned.calls[planned.call[i]]
    should = float(planned.end[i] - planned.start[i])
    measured: tuple[Cell, ...] = ("", "", "")
    if ran is not None and j >= 0:
        took = float(ran.end[j] - ran.start[j])
        error = f"{should / took - 1:+.0%}" if took else ""
        measured = (round(float(ran.start[j]), 1), round(took, 1), error)
    return (
        planned.lane_name(int(planned.unit[i])),
        call.label,
        call.family,
        f"{planned.first[i]} to {planned.last[i]}",
        round(float(planned.start[i]), 1),
        round(should, 1),
        *measured,
    )
