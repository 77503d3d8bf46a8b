"""Drawing and text of a group's connections."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Cell, Table, count_text, size_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture, placeholder
from widgets.welder import connections, view
from widgets.welder.connections import ConnectionRows
from widgets.welder.pipeline_figure import figure
from widgets.welder.welded_group import by, level_name

COLUMNS = ("value", "written by", "read by", "shape", "bytes", "level", "can be moved")


def caption(rows: ConnectionRows) -> str:
    """Describe the connected kernels in one line."""
    s = rows.stream
    mine = sum(not o.outside for o in s.operators)
    beside = len(s.operators) - mine
    more = f" and {rows.left_out} more that are not drawn" if rows.left_out else ""
    kernel = f"{count_text(mine, 'operator')} in one kernel"
    return f"{s.title} on {s.device}: {kernel}, {beside} beside{more}"


def see(rows: ConnectionRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the values inside the kernel, and those that go through memory."""
    s = rows.stream
    inner, last = len(s.inner), s.levels[-1]
    stored = [v for v in s.values if v.level == last]
    sentences: list[Sentence] = []
    if inner:
        verb = "stay inside of the kernel." if inner > 1 else "stays inside of the kernel."
        sentences.append((Mark(count_text(inner, "value"), "kept"), f" {verb}"))
    if stored:
        size = size_text(sum(v.bytes for v in stored))
        verb = "go through memory: " if len(stored) > 1 else "goes through memory: "
        sentences.append((Mark(count_text(len(stored), "value"), "cut"), f" {verb}{size}."))
    return tuple(sentences)


def table(rows: ConnectionRows) -> Table:
    """Return one row per value: its writer, its readers, and its handover level."""
    s = rows.stream
    names = [o.label for o in s.operators]
    cells: tuple[tuple[Cell, ...], ...] = tuple(
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
    return Table(COLUMNS, cells, ops, caption(rows), see(rows))


def _draw(s: OnShow, op: str) -> Drawn:
    """Draw the connections of one group, with the moves made by hand."""
    group_view = view.welded_group(s, op)
    if group_view is None:
        return placeholder(view.NO_GROUPS)
    moves = s.manual_moves.on(group_view.device.name)
    program = moves.outcome.program if moves.outcome else None
    if program is None:
        program = view.program_for(s, group_view.device)
    group_view = view.group_in_program(s, group_view, program, op)
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    moved = dict([*s.now.compiled.options.welder.connect, *moves.moves])
    before = view.before_welding(s.now.compiled)
    rows = connections.data(group_view, before, s.house, sizes, moved)
    title = f"Connections: {caption(rows)}"
    return rows, figure(rows.stream, title, s.view.size, op, handles=True), table(rows)


PICTURE = Picture(
    name="connections",
    title="Connections",
    words="A group's values by the memory level that holds them; any can be moved by hand.",
    stage=Stage.WELDED,
    family=view.GROUPS_IN_USE,
    about="kernel",
    live="levels",
    draw=_draw,
)
