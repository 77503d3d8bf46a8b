"""The Connections picture: a group's kernels and its neighbours before fusion.

Between them are the values with their handover levels, which can be moved by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.ir.calls import KernelCall
from explorer.ir.dims import Sizes
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.table import Cell, Mark, Sentence, Table, size_text
from widgets.model.house import House
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.roller.view import shape_text
from widgets.welder import view
from widgets.welder.pipeline import PipelineRows, Scene, crossing
from widgets.welder.pipeline_picture import figure
from widgets.welder.view import WeldedGroup, level_name

MOST_BESIDE = 2  # neighbours drawn on either side
COLUMNS = ("value", "written by", "read by", "shape", "bytes", "level", "can be moved")


@dataclass(frozen=True, slots=True)
class ConnectionRows:
    """The pipeline of a group with its neighbours; `left_out` counts those that are not drawn."""

    stream: PipelineRows
    left_out: int


def data(
    w: WeldedGroup, before: Program, house: House, sizes: Sizes, moved: Mapping[str, str]
) -> ConnectionRows:
    """Return the group with the kernels that it reads from, and those that read it.

    Values `moved` by hand are handed over at their own level.
    """
    calls = {b.name: b for f in before.functions for b in f.body if _is_kernel(b)}
    inside = [m for m in w.group.members if m in calls]
    read = frozenset[str]().union(*(_reads(calls[m]) for m in inside))
    sources = [n for n in calls if n in read and n not in inside]
    readers = [n for n, b in calls.items() if n not in inside and _reads(b) & set(inside)]
    beside = frozenset([*sources[-MOST_BESIDE:], *readers[:MOST_BESIDE]])
    last = Scene(w, before, house, sizes).frame(None)
    where = {v.tensor: (v.level, v.tile) for v in last.inner}
    where |= {n: (level, ()) for n, level in moved.items() if n in where and level in last.levels}
    scene = Scene(w, before, house, sizes, beside)
    rows = scene.rows(where, ((),), crossing(w.plan), w.plan.levels)
    results = {v.name for f in before.functions for v in f.outputs}
    mine = {n for n, o in enumerate(rows.operators) if not o.outside}
    values = (
        replace(v, readers=tuple(r for r in v.readers if v.source in mine or r in mine),
                movable=v.tensor not in results)
        for v in rows.values
    )  # fmt: skip
    stream = replace(
        rows, values=tuple(v for v in values if v.readers), inputs=(), outputs=(),
        cuts=(rows.levels[-1],), cut=rows.levels[-1],
    )  # fmt: skip
    return ConnectionRows(stream, len({*sources, *readers}) - len(beside))


def _is_kernel(b: Binding) -> bool:
    return isinstance(b.expr, KernelCall) and len(b.vars) == 1


def _reads(b: Binding) -> frozenset[str]:
    return frozenset(a.name for a in b.kernel_call.args)


def caption(rows: ConnectionRows) -> str:
    """Describe the connected kernels in one line."""
    s = rows.stream
    mine = sum(not o.outside for o in s.operators)
    beside = len(s.operators) - mine
    more = f" and {rows.left_out} more that are not drawn" if rows.left_out else ""
    kernel = f"{counted(mine, 'operator')} in one kernel"
    return f"{s.title} on {s.device}: {kernel}, {beside} beside{more}"


def see(rows: ConnectionRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the values inside the kernel, and those that go through memory."""
    s = rows.stream
    inner, last = len(s.inner), s.levels[-1]
    stored = [v for v in s.values if v.level == last]
    sentences: list[Sentence] = []
    if inner:
        verb = "stay inside of the kernel." if inner > 1 else "stays inside of the kernel."
        sentences.append((Mark(counted(inner, "value"), "kept"), f" {verb}"))
    if stored:
        size = size_text(sum(v.bytes for v in stored))
        verb = "go through memory: " if len(stored) > 1 else "goes through memory: "
        sentences.append((Mark(counted(len(stored), "value"), "cut"), f" {verb}{size}."))
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
            shape_text(v.full),
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
    rows = data(group_view, before, s.house, sizes, moved)
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
