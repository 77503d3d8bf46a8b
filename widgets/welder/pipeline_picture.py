"""The fused pipeline picture: operators over memory levels, values that dip to their level.

Kernels are boxes; a dashed cut marks a value that goes through memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from explorer.errors import BadOption
from explorer.ir.decisions.tile_graph import GroupPlan
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.slide import (
    PX,
    handle_group,
    label_width,
    legend,
    node,
    pipe,
    small_box,
    small_box_size,
    tip,
)
from widgets.draw.svg import Svg, label, path_end, rect
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, size_text, time_text
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.roller.view import shape_text
from widgets.welder import view
from widgets.welder.pipeline import (
    ENTRY,
    FAR,
    INPUT,
    OFF,
    OUT,
    Column,
    Lane,
    Layout,
    Outer,
    PipelineRows,
    Value,
    data,
)
from widgets.welder.view import GROUPS, level_name, short_name

BAR, BESIDE, APART = 30.0, 6.0, 122.0  # height above inputs, their gap, minimum lane height
COLUMNS = ("tensor", "written by", "read by", "level", "tile", "of", "bytes of a tile", "bytes")


def see(rows: PipelineRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the kernels, the values inside them, and the memory traffic."""
    count, kernels = len(rows.operators), len(rows.kernels)
    sentences: list[Sentence] = [
        (
            Mark(counted(count, "operator"), "node"),
            " runs as " if count == 1 else " run as ",
            Mark(counted(kernels, "kernel"), "kernel"),
            ".",
        )
    ]
    if rows.values:
        inner = f"{len(rows.inner)} of {counted(len(rows.values), 'value')}"
        verb = " never reaches memory." if len(rows.inner) == 1 else " never reach memory."
        sentences.append((Mark(inner, "kept"), verb))
    less = f" instead of {size_text(rows.apart)}." if rows.traffic != rows.apart else "."
    sentences.append(("Memory traffic: ", Mark(size_text(rows.traffic), "memory"), less))
    return tuple(sentences)


def figure(
    rows: PipelineRows,
    title: str,
    size: tuple[int, int],
    selected: str = "",
    *,
    handles: bool = False,
) -> Svg:
    """Draw the operators over the levels; with `handles`, values can be moved."""
    names = [n for n, o in enumerate(rows.operators) if selected and selected in o.ops]
    inner = [n for n in names if not rows.operators[n].outside] or names
    at = Layout(rows, *size, on=inner[0] if inner else 0, even=handles)
    on = frozenset(inner[:1])
    marks = [
        *_lanes(at, handles=handles),
        *(() if handles else _kernels(at)),
        *_inputs(at),
        *_outputs(at),
        *_values(at, on, handles=handles),
        *_operators(at, on),
        *_legend(at, handles=handles),
    ]
    return Svg(*size, "".join(marks), title, selected, PX)


def _lanes(at: Layout, *, handles: bool) -> Iterator[str]:
    """Draw the levels with their names and usage."""
    usage = {m.level: m for m in at.rows.usage}
    last = at.rows.levels[-1]
    for lane in at.lanes.values():
        name = short_name(lane.level) if at.narrow else level_name(lane.level)
        m = usage.get(lane.level)
        body = rect(0, lane.y, at.width, lane.high - 4, "var(--app)")
        if handles:
            where = f'class="lane" data-lane="{lane.level}"'
            body += rect(0, lane.y, at.width, lane.high - 4, "transparent", where)
        x = 6.0 if at.narrow else 12.0
        if lane.level == last:
            words, share = (
                f"{size_text(at.rows.traffic)} per run",
                at.rows.traffic / max(1, at.rows.apart),
            )
        elif m is None or m.capacity is None:
            words, share = "", 0.0
        else:
            words = f"{size_text(m.footprint)} of {size_text(m.capacity)}"
            share = m.footprint / max(1, m.capacity)
        body += _lane_words(lane, name, words, share, x, narrow=at.narrow)
        yield lit_by(body, f"lane {lane.level}{' memory' * (lane.level == last)}")


def _lane_words(lane: Lane, name: str, words: str, share: float, x: float, *, narrow: bool) -> str:
    full = "bad" if share > 1 else ""
    if lane.thin:
        return label(x, lane.y + 18, name, "w i", title=words)
    body = label(x, lane.y + min(22.0, lane.high / 2 + 4), name, "big")
    if narrow or lane.high < 64:
        return body
    body += label(x, lane.y + 42, words, full or "i")
    body += rect(x, lane.y + 50, 112, 8, "none", 'stroke="var(--edge)"')
    ink = "bad" if share > 1 else "ink2"
    return body + rect(x, lane.y + 50, 112 * min(1.0, share), 8, f"var(--{ink})")


def _kernels(at: Layout) -> Iterator[str]:
    """Draw a box around each kernel, down to the farthest level inside it, with its name."""
    rows, order = at.rows, at.rows.levels
    home = {o: n for n, k in enumerate(rows.kernels) for o in k}
    for number, members in enumerate(rows.kernels):
        inside = [v.level for v in rows.values if v.source in members and v.level != order[-1]]
        deepest = max((order.index(x) for x in inside), default=-1)
        lane = at.lanes[order[max(0, deepest)]]
        bottom = lane.y + lane.high - 5 if deepest >= 0 else at.foot + 8
        columns = [c for c in at.columns if {home.get(o) for o in c.operators} == {number}]
        places = {id(c): n for n, c in enumerate(at.columns)}
        runs = groupby(enumerate(columns), key=lambda t: places[id(t[1])] - t[0])
        for first, (_, run) in enumerate(runs):
            mine = [c for _, c in run]
            x, right = mine[0].x + 3, mine[-1].x + mine[-1].width - 3
            edge = 'rx="8" fill-opacity="0.6" stroke="var(--ink)" stroke-width="2"'
            body = rect(x, at.top - 8, right - x, bottom - at.top + 8, "var(--pane)", edge)
            name = _kernel_words(rows, number, right - x)
            if name and not first:
                body += label(x + 3, at.top - 14, name, "i w")
            yield lit_by(body, "kernel")


def _kernel_words(rows: PipelineRows, number: int, room: float) -> str:
    """Return the longest name of a kernel that fits over its box."""
    count, name = len(rows.kernels[number]), f"kernel {number + 1}"
    if len(rows.kernels) == 1:
        name = f"kernel {rows.title}"
    fused = counted(count, "operator") + " fused"
    texts = [f"{name}: {fused}", f"{count} fused"] if count > 1 else []
    texts += [name, "kernel", str(number + 1)]
    return next((s for s in texts if label_width(s, bold=True) <= room - 6), "")


def _operators(at: Layout, on: frozenset[int]) -> Iterator[str]:
    for c in at.columns:
        margin = 5.0 if at.narrow else 10.0
        x, w = c.x + margin, c.width - 2 * margin
        if c.folded:
            names = ", ".join(at.rows.operators[o].label for o in c.operators)
            ops = [op for o in c.operators for op in at.rows.operators[o].ops]
            words = f"{len(c.operators)} more"
            yield node(x, at.top, w, at.high, words, "operators", ops=ops, dashed=True, title=names)
            continue
        o = at.rows.operators[c.operators[0]]
        title = f"{o.label}: {', '.join(o.ops)}".removesuffix(": ")
        sub = "" if at.narrow else o.family
        yield node(
            x, at.top, w, at.high, o.label, sub, family=o.family, ops=o.ops,
            on=c.operators[0] in on, dashed=o.outside, title=title,
        )  # fmt: skip


def tile_text(tile: Sequence[int]) -> str:
    """Return a tile without its leading dims of one."""
    shape = list(tile)
    while len(shape) > 1 and shape[0] == 1:
        shape.pop(0)
    return shape_text(shape)


def _values(at: Layout, on: frozenset[int], *, handles: bool) -> Iterator[str]:
    """Draw the line of each value down to its level, along it, and up to its readers."""
    last = at.rows.levels[-1]
    boxes: list[str] = []
    lines: list[str] = []
    taken: set[int] = set()
    for v in sorted(at.rows.values, key=lambda v: -v.source):
        pairs = list(at.column_pairs(v))
        if not pairs:
            continue
        cut, mine = v.level == last, bool(on & {v.source})
        keys = f"edge {v.level} {'cut memory' if cut else 'kept'}"
        ink = "accent" if mine else "ink"
        body = "".join(_draw_route(at, v, pairs, ink))
        has_box = pairs[0][0] not in taken
        taken.add(pairs[0][0])
        box = _value_box(at, v, pairs, on=mine) if has_box else ""
        if cut and has_box and not handles:
            body += _cut_mark(at, pairs[0][0])
        lines.append(lit_by(body, keys))
        boxes.append(_handle(v, box, at) if handles and v.movable and box else lit_by(box, keys))
    yield from lines
    yield from boxes


def _draw_route(at: Layout, v: Value, pairs: Sequence[tuple[int, int]], ink: str) -> Iterator[str]:
    lane = at.lanes[v.level]
    y, top = lane.row, at.foot
    for source, target in pairs:
        x1 = at.columns[source].at(OUT)
        if target == source + 1:
            x2 = at.columns[target].at(ENTRY)
            yield pipe(f"M{x1:.1f} {top:.1f}V{y:.1f}H{x2:.1f}V{top + 7:.1f}", ink=ink)
            yield tip(x2, top + 1, "up", ink)
            continue
        track = at.far[source, target]
        low = (lane.row + 27 if lane.tall else lane.y + lane.high - 19) + 5 * (track % 3)
        x2 = at.columns[target].at(FAR) + 5 * (track % 3) - 5
        border = at.columns[source].at(1)
        d = f"M{x1:.1f} {top:.1f}V{y:.1f}H{border:.1f}V{low:.1f}H{x2:.1f}V{top + 7:.1f}"
        yield pipe(d, ink=ink, width=2)
        yield tip(x2, top + 1, "up", ink)


def _value_box(at: Layout, v: Value, pairs: Sequence[tuple[int, int]], *, on: bool) -> str:
    """Draw the tile and its bytes where the value is handed over, or a mark if they do not fit."""
    source = at.columns[pairs[0][0]]
    x, y = source.x + source.width, at.lanes[v.level].row
    cut = v.level == at.rows.levels[-1]
    tile = tile_text(v.tile) if v.tile else ""
    size = f"{size_text(v.bytes)} ×2" if cut else size_text(v.tile_bytes) if v.tile_bytes else ""
    part = f"{tile} of " if tile else ""
    tip_text = f"{v.label}: {part}{shape_text(v.full)} at {level_name(v.level)}"
    room, high = source.width * 0.8, at.lanes[v.level].high
    for lines in ([tile, size], [size, ""], [size.removesuffix(" ×2"), ""], [tile, ""]):
        shown = [line for line in lines if line] or [size_text(v.bytes)] * at.even
        w, h = small_box_size(shown)
        if shown and w <= room and h <= high - 8:
            return small_box(x, y, shown, on=on, title=tip_text)
    edge = f'stroke="var(--{"accent" if on else "ink"})" stroke-width="2"'
    return rect(x - 5, y - 5, 10, 10, "var(--pane)", edge, title=tip_text)


def _cut_mark(at: Layout, source: int) -> str:
    """Draw a dashed line between two kernels."""
    c, memory = at.columns[source], at.lanes[at.rows.levels[-1]]
    x, top = c.x + c.width, at.foot + 12
    bottom = memory.row - 26
    y = [*at.lanes.values()][min(1, len(at.lanes) - 2)].row
    w = label_width("cut") + 8
    return (
        pipe(f"M{x:.1f} {top:.1f}V{bottom:.1f}", ink="ink3", width=2, dashed="2 6")
        + rect(x - w / 2, y - 9, w, 18, "var(--app)")
        + label(x, y + 5, "cut", "i", anchor="middle")
    )


def _inputs(at: Layout) -> Iterator[str]:
    """Draw the tensors that operators read from memory, in grey, with names and bytes."""
    by_column: dict[int, list[Outer]] = {}
    for o in at.rows.inputs:
        for column in dict.fromkeys(at.column_of[n] for n in o.operators):
            by_column.setdefault(column, []).append(o)
    lane = at.lanes[at.rows.levels[-1]]
    for column, mine in by_column.items():
        c = at.columns[column]
        x = c.at(INPUT)
        y = lane.outer if lane.tall else lane.row
        beside = _beside(mine, c.width - 8) if lane.high >= APART else []
        top = y - BAR if beside else y
        body = pipe(f"M{x:.1f} {top:.1f}V{at.foot + 7:.1f}", ink="edge", width=2)
        body += tip(x, at.foot + 1, "up", "edge")
        yield lit_by(body + "".join(_input_boxes(mine, beside, lane, c, y)), "in memory")


def _input_boxes(
    mine: Sequence[Outer], beside: Sequence[Sequence[str]], lane: Lane, c: Column, y: float
) -> Iterator[str]:
    """Draw the boxes of a column's inputs: one each if they fit, else one for all."""
    x = c.at(INPUT)
    if beside:
        widths = [small_box_size(lines)[0] for lines in beside]
        left = min(max(c.x + 4, x - _together(widths) / 2), c.x + c.width - 4 - _together(widths))
        middles = []
        for o, lines, w in zip(mine, beside, widths):
            middles.append(left + w / 2)
            yield pipe(f"M{left + w / 2:.1f} {y:.1f}V{y - BAR:.1f}", ink="edge", width=2)
            yield small_box(left + w / 2, y, lines, title=_read(o), ops=o.ops)
            left += w + BESIDE
        first, last = min(middles[0], x), max(middles[-1], x)
        yield pipe(f"M{first - 1:.1f} {y - BAR:.1f}H{last + 1:.1f}", ink="edge", width=2)
        return
    lines = _outer_words(mine, c.width - 20)
    tip_text, ops = "; ".join(map(_read, mine)), mine[0].ops if len(mine) == 1 else ()
    if lane.tall and lines:
        yield small_box(x, y, lines, title=tip_text, ops=ops)
    else:
        yield rect(x - 4, y - 4, 8, 8, "var(--edge)", title=tip_text, ops=ops)


def _read(o: Outer) -> str:
    names = ", ".join(dict.fromkeys((o.label, o.what)))
    description = f"read from memory: {names}, {shape_text(o.full)}, {size_text(o.bytes)}"
    return f"{description}; not fused: {o.why}" if o.why else description


def _beside(mine: Sequence[Outer], room: float) -> list[list[str]]:
    """Return the text of each of several inputs if their boxes fit next to each other."""
    texts = [_outer_words([o], room) for o in mine]
    widths = [small_box_size(lines)[0] for lines in texts]
    fits = len(mine) > 1 and all(texts) and _together(widths) <= room
    return texts if fits else []


def _together(widths: Sequence[float]) -> float:
    return sum(widths) + BESIDE * (len(widths) - 1)


def _outer_words(mine: Sequence[Outer], room: float) -> list[str]:
    """Return the name of an input and its bytes, or the number of inputs, as far as they fit."""
    size = size_text(sum(o.bytes for o in mine))
    first = mine[0]
    names = (
        [first.what] if first.what == "weight" else [first.label, path_end(first.label), first.what]
    )
    if len(mine) > 1:
        names = [f"{len(mine)} inputs", f"{len(mine)} in"]
    elif first.what in ("input", "weight", "output"):
        names.append(first.what[:3])
    name = next((n for n in names if label_width(n, bold=True) <= room), "")
    lines = [line for line in (name, size) if line]
    return lines if lines and label_width(size) <= room else []


def _outputs(at: Layout) -> Iterator[str]:
    """Draw the results that operators store in memory for others."""
    lane = at.lanes[at.rows.levels[-1]]
    for o in at.rows.outputs:
        c = at.columns[at.column_of[o.operators[0]]]
        x, y = c.at(OUT), lane.row
        foot = y - 22 if lane.tall else y
        body = pipe(f"M{x:.1f} {at.foot:.1f}V{foot - 5:.1f}", width=2) + tip(x, foot, "down")
        left, right = c.at(INPUT) + 6, min(at.width - 4, c.at(1.36))
        lines = _outer_words([o], right - left - 14)
        if lane.tall and lines:
            tip_text = f"stored: {o.label}, {shape_text(o.full)}, {size_text(o.bytes)}"
            half = small_box_size(lines)[0] / 2
            body += small_box(min(max(x, left + half), right - half), y, lines, title=tip_text)
        yield lit_by(body, "out memory")


def _handle(v: Value, marks: str, at: Layout) -> str:
    """Draw a value that can be moved to another level, by pointer or by key."""
    levels = at.rows.levels
    of = len(levels) - 1
    spoken = f"{v.label}, {size_text(v.bytes)}, at {level_name(v.level)}"
    attributes = {
        "class": "handle", "data-value": v.tensor, "data-level": v.level, "tabindex": "0",
        "role": "slider", "aria-orientation": "vertical", "aria-valuemin": "0",
        "aria-valuemax": str(of), "aria-valuenow": str(of - levels.index(v.level)),
        "aria-valuetext": spoken, "aria-label": spoken,
    }  # fmt: skip
    return handle_group(marks, list(attributes.items()))


def _legend(at: Layout, *, handles: bool) -> Iterable[str]:
    items = [("edge", "pipe", "value handed on, at its level" if not at.narrow else "handed on")]
    if not handles:
        items += [
            ("in", "grey", "read from memory" if not at.narrow else "read"),
            ("kernel", "box", "one kernel" if not at.narrow else "kernel"),
        ]
        if any(v.level == at.rows.levels[-1] for v in at.rows.values):
            items.append(("cut", "dash", "cut: goes through memory" if not at.narrow else "cut"))
    else:
        items.append(("node", "dashbox", "operator of another kernel"))
    return legend(items, at.height - 9, at.width)


def plan_words(plan: GroupPlan) -> str:
    """Describe the tile of a plan, the number of tasks and waves, and its recomputation."""
    tile = " ".join(f"{axis}={size}" for axis, size in plan.tile) or "uncut"
    recomputation = (
        f", work × {plan.recompute:.2f} (halos again)" if plan.recompute > 1.0005 else ""
    )
    waves = counted(plan.waves, "wave")
    return f"tile {tile}: {counted(plan.grid, 'task')} in {waves}{recomputation}"


def caption(rows: PipelineRows) -> str:
    """Describe the group, its device, its cut level and its plan."""
    kernels = counted(len(rows.kernels), "kernel")
    head = f"{rows.title} on {rows.device}: {counted(len(rows.operators), 'operator')}, {kernels}"
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
        lines.append((o.label, written, read, last, "", shape_text(o.full), "", o.bytes))
        ops.append(tuple(op for n in o.operators for op in rows.operators[n].ops))
    return Table(COLUMNS, tuple(lines), tuple(ops), caption(rows), see(rows))


def _value(v: Value, rows: PipelineRows) -> tuple[Cell, ...]:
    names = [o.label for o in rows.operators]
    readers = ", ".join(names[n] for n in v.readers)
    tile = shape_text(v.tile) if v.tile else ""
    return (
        v.label, names[v.source], readers, level_name(v.level), tile, shape_text(v.full),
        v.tile_bytes, v.bytes,
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
