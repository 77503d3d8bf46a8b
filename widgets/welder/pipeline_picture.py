"""Text of the fused pipeline, and its record in the gallery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explorer.errors import BadOption
from explorer.ir.decisions.tile_graph import GroupPlan
from explorer.ir.stage import Stage
from widgets.draw.table import Cell, Table, count_text, size_text, time_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture, placeholder
from widgets.welder import view
from widgets.welder.pipeline import OFF, PipelineRows, Value, data
from widgets.welder.pipeline_figure import figure, see
from widgets.welder.view import GROUPS
from widgets.welder.welded_group import by, level_name

COLUMNS = ("tensor", "written by", "read by", "level", "tile", "of", "bytes of a tile", "bytes")


def plan_words(plan: GroupPlan) -> str:
    """Describe the tile of a plan, the number of tasks and waves, and its recomputation."""
    tile = " ".join(f"{axis}={size}" for axis, size in plan.tile) or "uncut"
    recomputation = (
        f", work × {plan.recompute:.2f} (halos again)" if plan.recompute > 1.0005 else ""
    )
    waves = count_text(plan.waves, "wave")
    return f"tile {tile}: {count_text(plan.grid, 'task')} in {waves}{recomputation}"


def caption(rows: PipelineRows) -> str:
    """Describe the group, its device, its cut level and its plan."""
    kernels = count_text(len(rows.kernels), "kernel")
    head = (
        f"{rows.title} on {rows.device}: {count_text(len(rows.operators), 'operator')}, {kernels}"
    )
    moved = f"{size_text(rows.traffic)} to and from {level_name(rows.levels[-1])}"
    if rows.cut != rows.cuts[-1]:
        return f"{head}, fused up to {level_name(rows.cut)}; {moved}"
    used = "" if rows.in_use else ", not the one in use"
    return (
        f"{head}, {plan_words(rows.plan)}{used}; {moved}, "
        f"predicted {time_text(rows.plan.predicted_us)}"
    )


def table(rows: PipelineRows) -> Table:
    """Return one row per value, then one per tensor in memory."""
    names = [o.label for o in rows.operators]
    lines: list[tuple[Cell, ...]] = [_value(v, rows) for v in rows.values]
    ops = [rows.operators[v.source].ops for v in rows.values]
    for o in (*rows.inputs, *rows.outputs):
        mine = ", ".join(names[n] for n in o.operators)
        maker = "" if o.what in ("weight", "input") else o.what
        written, read = (mine, "") if o.what == "output" else (maker, mine)
        last = level_name(rows.levels[-1])
        lines.append((o.label, written, read, last, "", by(o.full), "", o.bytes))
        ops.append(tuple(op for n in o.operators for op in rows.operators[n].ops))
    return Table(COLUMNS, tuple(lines), tuple(ops), caption(rows), see(rows))


def _value(v: Value, rows: PipelineRows) -> tuple[Cell, ...]:
    names = [o.label for o in rows.operators]
    readers = ", ".join(names[n] for n in v.readers)
    tile = by(v.tile) if v.tile else ""
    return (
        v.label, names[v.source], readers, level_name(v.level), tile, by(v.full), v.tile_bytes,
        v.bytes,
    )  # fmt: skip


def _rows(s: OnShow, op: str) -> PipelineRows | None:
    group_view = view.welded_group(s, op)
    if group_view is None:
        return None
    w, sizes = group_view, {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    key = repr(("pipeline", w.binding, w.device.name, s.view.rank, s.view.cut))
    before = view.before_welding(s.now.compiled)
    return s.house.cached(key, s.now.sizes, lambda: data(w, before, s.house, sizes, s.view.cut))


def _draw(s: OnShow, op: str) -> Drawn:
    rows = _rows(s, op)
    if rows is None:
        return placeholder(view.NO_GROUPS)
    if s.view.cut and s.view.cut not in rows.cuts:
        levels = ", ".join(rows.cuts)
        raise BadOption(
            f"{rows.title} cannot be shown fused up to {s.view.cut[:20]!r}", expected=levels
        )
    title = f"Fused pipeline: {caption(rows)}"
    return rows, figure(rows, title, s.view.size, op), table(rows)


def _controls(s: OnShow, op: str) -> Mapping[str, Any]:
    """Return the choices of devices and tiles, and the levels that a group can be fused up to.

    The scrubber plays through the levels.
    """
    choices, rows = dict(GROUPS.controls(s, op)), _rows(s, op)
    if rows is None or len(rows.cuts) < 2:
        return choices
    names = [level if level == OFF else level_name(level) for level in rows.cuts]
    at = rows.cuts.index(rows.cut)
    return choices | {"more": [["cut", "fuse up to", list(rows.cuts), at, names]], "play": "cut"}


PICTURE = Picture(
    name="welder",
    title="Welder's fused pipeline",
    short="Fusion",
    words="A group's operators over the memory levels, and the level where each tile passes.",
    stage=Stage.WELDED,
    family=replace(GROUPS, controls=_controls),
    about="kernel",
    draw=_draw,
)
