"""The words of a group's connections."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Cell, Table, count_text, size_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture, nothing
from widgets.welder import connections, view
from widgets.welder.connections import ConnectionRows
from widgets.welder.pipeline_figure import figure
from widgets.welder.welded import by, level_name

COLUMNS = ("value", "written by", "read by", "shape", "bytes", "level", "can be moved")


def caption(rows: ConnectionRows) -> str:
    """What is connected, in one line."""
    s = rows.stream
    mine = sum(not o.outside for o in s.operators)
    beside = len(s.operators) - mine
    more = f" and {rows.left_out} more that are not drawn" if rows.left_out else ""
    kernel = f"{count_text(mine, 'operator')} in one kernel"
    return f"{s.title} on {s.device}: {kernel}, {beside} beside{more}"


def see(rows: ConnectionRows) -> tuple[Sentence, ...]:
    """The sentences: what stays inside, what goes through memory, and what can be done."""
    s = rows.stream
    inner, last = len(s.inner), s.levels[-1]
    stored = [v for v in s.values if v.level == last]
    found: list[Sentence] = []
    if inner:
        verb = "stay inside of the kernel." if inner > 1 else "stays inside of the kernel."
        found.append((Mark(count_text(inner, "value"), "kept"), f" {verb}"))
    if stored:
        size = size_text(sum(v.bytes for v in stored))
        verb = "go through memory: " if len(stored) > 1 else "goes through memory: "
        found.append((Mark(count_text(len(stored), "value"), "cut"), f" {verb}{size}."))
    return tuple(found)


def table(rows: ConnectionRows) -> Table:
    """One row a value: who writes it, who reads it, and where it is handed on."""
    s = rows.stream
    names = [o.label for o in s.operators]
    found: tuple[tuple[Cell, ...], ...] = tuple(
        (
            v.tensor,
            names[v.source],
            ", ".join(names[r] for r in v.readers),
            by(v.full),
            v.bytes,
            level_name(v.level),
            "yes" if v.movable else "no: a result of the program",
        )
        for v in s.values
    )
    ops = tuple(s.operators[v.source].ops for v in s.values)
    return Table(COLUMNS, found, ops, caption(rows), see(rows))


def _draw(s: OnShow, op: str) -> Drawn:
    """The connections of one group, as they are or as they were moved by hand."""
    found = view.welded(s, op)
    if found is None:
        return nothing(view.NO_GROUPS)
    hand = s.hand.on(found.device.name)
    program = hand.outcome.program if hand.outcome else None
    if program is None:
        program = view.program_for(s, found.device)
    found = view.regrouped(s, found, program, op)
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    moved = dict([*s.now.compiled.options.welder.connect, *hand.moves])
    before = view.before_welding(s.now.compiled)
    rows = connections.data(found, before, s.house, sizes, moved)
    said = f"Connections: {caption(rows)}"
    return rows, figure(rows.stream, said, s.view.size, op, handles=True), table(rows)


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
