"""Rammer's wall over that of two-layer scheduling, one operator at a time, on one axis."""

from __future__ import annotations

from explorer.ir.stage import Stage
from explorer.tuning.compare_policies import PolicyWall
from widgets.draw.svg import Svg, fit, label, rect, text_width
from widgets.draw.table import Table, time_text
from widgets.model.brick_wall import WallRows
from widgets.model.picture import Picture
from widgets.rammer.brick_wall_picture import (
    GUTTER,
    INSIDE,
    WIDTH,
    axis,
    cuts,
    family_mark,
    gap_marks,
    lane_marks,
    shared_lanes,
    units_of,
)
from widgets.rammer.view import MOST_COUNTED, WALLS, Rammed, of_walls

HIGH = 190.0  # of one wall
MOST_LANES = 60


def caption(found: Rammed) -> str:
    """Both utilisations in one line."""
    one, base = found.chosen.account, found.baseline.account
    return (
        f"{found.device}, {one.units} units, {found.kind}: {found.chosen.policy} "
        f"{time_text(one.total_us)} with {one.busy:.1%} of units × time filled, two-layer "
        f"{time_text(base.total_us)} with {base.busy:.1%}"
    )


def table(found: Rammed) -> Table:
    """Where units times time goes, in both."""
    sides = (found.chosen, found.baseline)
    areas = [found.rows(s).areas_us() for s in sides]
    names = dict.fromkeys(n for a in areas for n in a)
    one, other = areas
    rows = tuple((n, round(one.get(n, 0.0), 2), round(other.get(n, 0.0), 2)) for n in names)
    total = ("all", round(sum(one.values()), 2), round(sum(other.values()), 2))
    columns = ("units × µs", found.chosen.policy, "two-layer")
    return Table(columns, (*rows, total), (), caption(found))


def figure(found: Rammed, selected: str = "") -> Svg:
    """Two walls below each other."""
    walls = [(s, found.rows(s)) for s in (found.chosen, found.baseline)]
    total = max(rows.total_us for _, rows in walls) or 1.0
    said = caption(found)
    marks = [label(12, 18, fit(said, WIDTH - 20), "i w", title=said)]
    y = 42.0
    for n, (side, rows) in enumerate(walls):
        words = f"{side.policy}{' (two-layer)' * n}: {_words(found, side)}"
        marks.append(label(GUTTER, y - 6, words, "i"))
        lanes, step = _lanes(rows)
        marks += _wall(rows, y, INSIDE / total, selected)
        y += lanes * step + 32
    marks += axis(y - 24, total)
    x = float(GUTTER)
    for family in sorted({c.family for c in found.calls}):
        marks += family_mark(x, y + 6, family)
        x += 30 + text_width(family)
    return Svg(WIDTH, y + 28, "".join(marks), f"Two layers: {said}")


def _words(found: Rammed, side: PolicyWall) -> str:
    a = side.account
    barriers = f"{found.barriers(side)} barriers, " if a.units <= MOST_COUNTED else ""
    return (
        f"{time_text(a.total_us)}, {a.busy:.1%} filled, {a.launches} rPrograms, "
        f"{barriers}{time_text(a.overhead_us)} launching"
    )


def _lanes(rows: WallRows) -> tuple[int, float]:
    """How many there are, and how far apart."""
    lanes = shared_lanes(rows.lanes, MOST_LANES)
    return lanes, min(40.0, HIGH / lanes)


def _wall(rows: WallRows, y: float, scale: float, selected: str) -> list[str]:
    lanes, step = _lanes(rows)
    high = max(1.0, step - (1 if step > 5 else 0))
    marks = [rect(GUTTER, y, rows.total_us * scale, lanes * step, "var(--app)")]
    for lane in range(0, lanes, max(1, round(14 / step))):
        first, last = units_of(lane, lanes, rows.lanes)
        name = rows.lane_name(first, "u") if first == last else f"u{first}–{last}"
        marks.append(label(12, y + lane * step + min(step, 14), name, "mono q"))
    marks += gap_marks(rows, lanes, scale, y, high, step)
    marks += lane_marks(rows, lanes, scale, y, high, step, selected, outlined=False)
    marks += cuts(rows, scale, y - 2, y + lanes * step + 2)
    return marks


PICTURE = Picture(
    name="layers",
    title="Two layers",
    words="Rammer's wall over that of two-layer scheduling, on one axis.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(figure, table),
)
