"""The marks of the streaming picture: lanes, virtual nodes, operators, tiles and reuse tiles of one
band.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape
from itertools import groupby

from explorer.ir.decisions.tile_graph import LevelBytes
from widgets.draw.svg import arrow, fit, label, path, path_end, rect
from widgets.draw.table import size_text
from widgets.welder.stream_layout import (
    BETWEEN,
    HEAD,
    LEFT,
    NODE,
    RECT,
    ROOM,
    SLOT,
    TRACK,
    X0,
    X1,
    Band,
    Placed,
)
from widgets.welder.tile_stream import Reuse, Slot, StreamRows, VirtualNode

BOLD = 1.07  # so many times as wide
NAMES = {"register": "registers", "DRAM": "memory"}


def by(shape: Sequence[int]) -> str:
    """Extents as they are written."""
    return "×".join(f"{n}" for n in shape) or "1"


def band_marks(rows: StreamRows, band: Band, movable: Collection[str] = ()) -> Iterator[str]:
    """All of one band; what is behind comes first. Values that are `movable` can be pointed at."""
    yield from _nodes(rows, band)
    yield from _lanes(rows, band, first=band.number == 0)
    if movable:
        yield from _targets(band)
    for r in rows.reuse:
        yield from _reuse(rows, r, band)
    for placed in band.columns:
        yield from _column(rows, placed, band, movable)


def _targets(band: Band) -> Iterator[str]:
    """Where a value can be dropped."""
    for lane in band.lanes:
        where = f'class="lane" data-lane="{escape(lane.level)}"'
        yield rect(X0 - 9, lane.y, X1 - X0 + 18, lane.high - 1, "transparent", where)


def _lanes(rows: StreamRows, band: Band, *, first: bool) -> Iterator[str]:
    """The names of the levels, with what they hold and move in the first band."""
    for n, lane in enumerate(band.lanes):
        yield path(f"M{LEFT} {lane.y - 0.5:g}H{X1}", "var(--line2)")
        held = next(m for m in rows.plan.levels if m.level == lane.level)
        farther = rows.levels[n + 1] if n + 1 < len(rows.levels) else ""
        said = level_words(held, farther)
        name = NAMES.get(lane.level, lane.level)
        yield label(LEFT, lane.y + 12, name, "bad" if not held.fits else "i w", title=said)
        if lane.thin or not first:
            continue
        lines = [size_text(held.footprint)] if held.footprint else []
        if held.capacity is not None and held.footprint:
            lines.append(f"of {size_text(held.capacity)}")
        for i, line in enumerate(lines):
            style = "bad" if not held.fits else "q"
            yield label(LEFT, lane.y + 26 + 13 * i, line, style, title=said)
    yield path(f"M{LEFT} {band.end - 0.5:g}H{X1}", "var(--line2)")


def level_words(held: LevelBytes, farther: str) -> str:
    """What a memory holds and moves, in a sentence."""
    name = NAMES.get(held.level, held.level)
    if held.capacity is None:
        room = ""
    elif held.fits:
        room = f" of {size_text(held.capacity)}"
    else:
        room = f", but there is room for {size_text(held.capacity)} only"
    moved = f"; {size_text(held.traffic)} in all between it and {farther}" if farther else ""
    return f"{name} holds {size_text(held.footprint)}{room}{moved}"


def _nodes(rows: StreamRows, band: Band) -> Iterator[str]:
    """Grey boxes, the outer ones first; one that goes on in another band is open at that side."""
    for node in sorted(rows.nodes, key=lambda n: n.depth):
        mine = [p for p in band.columns if p.column.operator in node.operators]
        numbers = {id(p): i for i, p in enumerate(band.columns)}
        runs = groupby(enumerate(mine), key=lambda t: numbers[id(t[1])] - t[0])
        for _, run in runs:
            yield from _node(rows, node, band, [p for _, p in run])


def _node(rows: StreamRows, node: VirtualNode, band: Band, run: Sequence[Placed]) -> Iterator[str]:
    lane = band.by_level[node.level]
    around = {n.depth for n in rows.nodes if n.level == node.level and n.depth < node.depth}
    reach = max(0.8, BETWEEN / 2 - 0.8 - 1.4 * node.depth)
    x, right = run[0].x - reach, run[-1].right + reach
    if node.operators[0] < band.columns[0].column.operator and run[0] is band.columns[0]:
        x = X0 - 9
    if node.operators[-1] > band.columns[-1].column.operator and run[-1] is band.columns[-1]:
        right = X1 + 9
    y, bottom = band.y - 6 + 1.5 * node.depth, lane.y + lane.high - 2 - NODE * len(around)
    count = f"{len(node.operators)} operator{'s' * (len(node.operators) != 1)}"
    title = f"virtual node: {count} connected at {node.level} or nearer"
    edge = 'rx="4" stroke="var(--line2)" fill-opacity="0.6"'
    yield rect(x, y, right - x, bottom - y, "var(--tint)", edge, title=title)


def _column(rows: StreamRows, p: Placed, band: Band, movable: Collection[str]) -> Iterator[str]:
    """An operator's box with the tensors that stand under it."""
    operator = rows.operators[p.column.operator]
    y = band.y
    name = operator.label if p.column.first else f"{operator.label}, on"
    said = f"{operator.name}, {operator.kind}: {', '.join(operator.ops)}".removesuffix(": ")
    dashed = ' stroke-dasharray="3 2"' if operator.outside else ""
    edge = f'rx="2" stroke="var(--ink2)"{dashed}'
    yield rect(p.x, y, p.column.width, HEAD - 8, "var(--pane)", edge, title=said, ops=operator.ops)
    middle, room = p.x + p.column.width / 2, p.column.width - 8
    yield label(middle, y + 13, fit(name, room / BOLD), "i w", anchor="middle", ops=operator.ops)
    yield label(middle, y + 26, fit(operator.kind, room), anchor="middle")
    for n, slot in enumerate(p.column.slots):
        marks = "".join(_slot(slot, p.slot(n), band))
        yield _handle(slot, marks, rows.levels) if slot.tensor in movable else marks


def _handle(s: Slot, marks: str, levels: Sequence[str]) -> str:
    """A value that can be moved to another level, by pointer or by key."""
    level = s.rects[0].level
    name, of = escape(s.tensor, quote=True), len(levels) - 1
    said = f"{name}, {size_text(s.rects[0].bytes)}, handed over in {NAMES.get(level, level)}"
    now = of - levels.index(level)
    return (
        f'<g class="handle" data-value="{name}" data-level="{escape(level)}" tabindex="0" '
        f'role="slider" aria-orientation="vertical" aria-valuemin="0" aria-valuemax="{of}" '
        f'aria-valuenow="{now}" aria-valuetext="{said}" aria-label="{said}">{marks}</g>'
    )


def _slot(s: Slot, x: float, band: Band) -> Iterator[str]:
    """A tensor's tiles from memory to the operator, and the arrows between them."""
    below = None
    foot = band.y + HEAD - 8
    for r in s.rects:
        lane = band.by_level[r.level]
        y = lane.y + ROOM
        if below is not None:
            yield from _arrow(s, x, below, y + RECT, size_text(r.bytes))
        said = f"{s.tensor}: {by(r.tile)} of {by(s.full)}, {size_text(r.bytes)} in {r.level}"
        edge = f'rx="2" stroke="var(--{"ink" if s.kind == "reuse" else "edge"})"'
        yield rect(x - SLOT / 2 + 4, y, SLOT - 8, RECT, "var(--pane)", edge, title=said)
        yield label(x, y + 12, fit(path_end(s.tensor), SLOT - 14), anchor="middle", title=s.tensor)
        yield label(
            x, y + 25, fit(by(r.tile), (SLOT - 12) / BOLD), "i w", anchor="middle", title=said
        )
        below = y
    if below is not None:
        yield from _arrow(s, x, below, foot, "")


def _arrow(s: Slot, x: float, low: float, high: float, said: str) -> Iterator[str]:
    """Between two levels: up where it is loaded, down where it is stored or handed on."""
    ink = "var(--ink2)"
    ends = (low - 1, high + 1) if s.kind == "load" else (high + 1, low - 1)
    yield arrow(x, ends[0], x, ends[1], ink)
    if said:
        yield label(x + 5, low - 5, fit(said, SLOT / 2 - 5), "q")


def _reuse(rows: StreamRows, r: Reuse, band: Band) -> Iterator[str]:
    """A reuse tile along its level: out of the operator that makes it, or in from the band before,
    and up into the one that reads it, or on into the next band.
    """
    if r not in band.tracks:
        return
    source, target = band.column(r.source, last=True), band.column(r.target, last=False)
    top = band.by_level[r.level].y + ROOM
    y = top + RECT + 4 + TRACK * band.tracks[r]
    d = f"M{X0 - 6:g} {y:.1f}"
    if source is not None:
        x = source.slot(source.column.position(r.tensor))
        d = f"M{x + 8:.1f} {top + RECT:.1f}V{y:.1f}"
        if target is not None and band.beside(source, target):
            d = f"M{x + SLOT / 2 - 4:.1f} {top + RECT / 2:.1f}"
    what = f"reuse tile {by(r.tile)} " if r.tile else ""
    said = f"{r.tensor}: {what}handed on at {NAMES.get(r.level, r.level)}"
    if target is None:
        yield _line(f"{d}H{X1 + 6:.1f}", said)
        yield tip(X1 + 6, y, "right")
        return
    foot = band.y + HEAD - 7
    yield _line(f"{d}H{target.entry(r):.1f}V{foot + 4:.1f}", said)
    yield tip(target.entry(r), foot, "up")


def _line(d: str, said: str) -> str:
    ink = 'fill="none" stroke="var(--ink)" stroke-width="1.3"'
    return f'<path d="{d}" {ink}><title>{escape(said)}</title></path>'


def tip(x: float, y: float, way: str) -> str:
    """The head of an arrow that goes up or right."""
    d = f"M{x:.1f} {y:.1f}l-3 6h6z" if way == "up" else f"M{x:.1f} {y:.1f}l-6 -3v6z"
    return f'<path d="{d}" fill="var(--ink)"/>'
