"""The drawing and the words of the streaming picture."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.decisions.tile_graph import GroupPlan
from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, arrow, fit, label, path, rect
from widgets.draw.table import Table, size_text, time_text
from widgets.model.picture import Picture
from widgets.welder import tile_curve_picture
from widgets.welder.stream_layout import LEFT, X1, bands_of
from widgets.welder.stream_marks import NAMES, band_marks, by, tip
from widgets.welder.tile_stream import StreamRows, data
from widgets.welder.view import GROUPS, of_group

WIDTH = 780.0
TOP = 66.0


def plan_words(plan: GroupPlan) -> str:
    """The tile of a plan, how many there are, and what that costs, in one line."""
    tile = " ".join(f"{axis}={size}" for axis, size in plan.tile) or "uncut"
    again = f", work × {plan.recompute:.2f} (halos again)" if plan.recompute > 1.0005 else ""
    tasks = f"{plan.grid:,} task{'s' * (plan.grid != 1)}"
    return f"tile {tile}: {tasks} in {plan.waves:,} wave{'s' * (plan.waves != 1)}{again}"


def caption(rows: StreamRows) -> str:
    """Which group under which plan on which device this is."""
    plan = rows.plan
    used = "" if rows.in_use else ", not the one in use"
    moved = size_text(farthest_moved(plan))
    return (
        f"{rows.group} on {rows.device}, {plan_words(plan)}{used}; "
        f"{moved} to and from {NAMES.get(rows.levels[-1], rows.levels[-1])}, "
        f"predicted {time_text(plan.predicted_us)}"
    )


def farthest_moved(plan: GroupPlan) -> int:
    """Bytes that cross the border of the farthest memory."""
    return plan.levels[-2].traffic if len(plan.levels) > 1 else plan.levels[-1].traffic


def table(rows: StreamRows) -> Table:
    """One row a tile in a memory, in the order of the picture."""
    columns = ("operator", "what it does", "tensor", "moves", "level", "tile", "of", "bytes")
    verbs = {"load": "loaded", "store": "stored", "reuse": "handed on"}
    found, ops = [], []
    for s in rows.slots:
        operator = rows.operators[s.operator]
        for r in s.rects:
            found.append(
                (
                    operator.name, operator.kind, s.tensor, verbs[s.kind], r.level, by(r.tile),
                    by(s.full), r.bytes,
                )
            )  # fmt: skip
            ops.append(operator.ops)
    return Table(columns, tuple(found), tuple(ops), caption(rows))


def figure(rows: StreamRows, selected: str = "") -> Svg:
    """The operators from left to right over the memory levels; what does not fit goes on below."""
    head, rest = caption(rows).split("; ", 1)
    marks = [
        label(LEFT, 20, fit(head, X1 - LEFT), "i w", title=head),
        label(LEFT, 37, fit(rest, X1 - LEFT), "i", title=rest),
    ]
    bands = bands_of(rows, TOP)
    for band in bands:
        marks += band_marks(rows, band)
    y = bands[-1].end + 22 if bands else TOP
    marks += _legend(y)
    return Svg(WIDTH, y + 14, "".join(marks), f"Memory levels: {caption(rows)}", selected)


def _legend(y: float) -> Iterator[str]:
    edge = 'rx="2" stroke="var(--edge)"'
    yield rect(LEFT, y - 9, 14, 10, "var(--pane)", edge)
    yield label(LEFT + 19, y, "a tile in a memory")
    x = LEFT + 128
    yield arrow(x, y + 1, x, y - 10)
    yield label(x + 7, y, "load")
    x += 42
    yield arrow(x, y - 10, x, y + 1)
    yield label(x + 7, y, "store, bytes of one tile")
    x += 142
    yield path(f"M{x:g} {y - 4:g}h20", "var(--ink)", 'stroke-width="1.3"')
    yield tip(x + 24, y - 4, "right")
    yield label(x + 30, y, "reuse tile, at its level")
    x += 156
    yield rect(x, y - 9, 14, 10, "var(--tint)", 'rx="3" stroke="var(--line2)"')
    yield label(x + 19, y, "a virtual node: one operator for the level below")


PICTURE = Picture(
    name="welder",
    title="Welder's fused pipeline",
    short="Fusion",
    words="A group's operators over the memory levels, and where each hands its tile to the next.",
    stage=Stage.WELDED,
    family=GROUPS,
    about="kernel",
    below=tile_curve_picture.PICTURE,
    draw=of_group(data, figure, table),
)
