"""The drawing and the words of a group's connections."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect
from widgets.draw.table import Table
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture, nothing
from widgets.welder import connections, view
from widgets.welder.connections import ConnectionRows
from widgets.welder.stream_layout import LEFT, X1, bands_of
from widgets.welder.stream_marks import band_marks, by, tip

WIDTH, TOP = 780.0, 66.0


def caption(rows: ConnectionRows) -> str:
    """What is connected, in one line."""
    s = rows.stream
    mine = sum(not o.outside for o in s.operators)
    beside = len(s.operators) - mine
    more = f" and {rows.left_out} more that are not drawn" if rows.left_out else ""
    kernels = f"{mine} kernel{'s' * (mine != 1)}"
    return f"{s.group} on {s.device}: {kernels} in one, {beside} beside{more}"


def table(rows: ConnectionRows) -> Table:
    """One row a value: who writes it, who reads it, and where it is handed over."""
    s = rows.stream
    readers: dict[str, list[str]] = {}
    for r in s.reuse:
        readers.setdefault(r.tensor, []).append(s.operators[r.target].label)
    columns = ("value", "written by", "read by", "shape", "bytes", "level", "can be moved")
    shown = [slot for slot in s.slots if slot.tensor in readers]
    found = tuple(
        (
            slot.tensor,
            s.operators[slot.operator].label,
            ", ".join(readers[slot.tensor]),
            by(slot.full),
            slot.rects[0].bytes,
            slot.rects[0].level,
            "yes" if slot.tensor in rows.movable else "no: a result of the program",
        )
        for slot in shown
    )
    ops = tuple(s.operators[slot.operator].ops for slot in shown)
    return Table(columns, found, ops, caption(rows))


def figure(rows: ConnectionRows, selected: str = "") -> Svg:
    """Kernels from left to right, values at their levels; neighbours have dashed boxes."""
    s, said = rows.stream, caption(rows)
    hint = "each value at the level where it is handed over; one in memory keeps its kernels apart"
    marks = [
        label(LEFT, 20, fit(said, X1 - LEFT), "i w", title=said),
        label(LEFT, 37, fit(hint, X1 - LEFT), "q", title=hint),
    ]
    bands = bands_of(s, TOP)
    for band in bands:
        marks += band_marks(s, band, rows.movable)
    y = bands[-1].end + 22 if bands else TOP
    marks += _legend(y)
    return Svg(WIDTH, y + 14, "".join(marks), f"Connections: {said}", selected)


def _legend(y: float) -> Iterator[str]:
    yield rect(LEFT, y - 9, 14, 10, "var(--pane)", 'rx="2" stroke="var(--ink)"')
    yield label(LEFT + 19, y, "a value, all of it")
    x = LEFT + 124
    yield path(f"M{x:g} {y - 4:g}h20", "var(--ink)", 'stroke-width="1.3"')
    yield tip(x + 24, y - 4, "right")
    yield label(x + 30, y, "who reads it")
    x += 110
    edge = 'rx="2" stroke="var(--ink2)" stroke-dasharray="3 2"'
    yield rect(x, y - 9, 14, 10, "var(--pane)", edge)
    yield label(x + 19, y, "a kernel of another group")
    x += 168
    yield rect(x, y - 9, 14, 10, "var(--tint)", 'rx="3" stroke="var(--line2)"')
    yield label(x + 19, y, "one kernel after welding")


def _draw(s: OnShow, op: str) -> Drawn:
    """The connections of one group, as they are or as they were moved by hand."""
    found = view.welded(s, op)
    if found is None:
        return nothing(view.NO_GROUPS)
    outcome = s.hand.on(found.device.name).outcome
    program = outcome.program if outcome else None
    if program is None:
        program = view.program_for(s, found.device)
    found = view.regrouped(s, found, program, op)
    graph = program.decisions.tile_graph
    assert graph is not None
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    rows = connections.data(found, view.before_welding(s.now.compiled), graph, sizes)
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="connections",
    title="Connections",
    words="A group's values by the memory level that hands them on; any can be moved by hand.",
    stage=Stage.WELDED,
    family=view.GROUPS_IN_USE,
    about="kernel",
    live="levels",
    draw=_draw,
)
