"""The tile graph: which kernels became one, at which memory level each intermediate is handed over,
and the bytes saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir.decisions import Candidate, FusionGroup, TileEdge, TileGraph
from explorer.ir.dims import evaluate_dim
from explorer.ir.program import Program
from explorer.ir.types import Tensor
from widgets.svg import Svg, arrow, fit, label, path, rect
from widgets.table import Table, size_text

LEVELS = ("register", "L1", "L2", "DRAM")
MOST_MEMBERS, MOST_OUTSIDE = 4, 4


@dataclass(frozen=True, slots=True)
class Handover:
    """An intermediate: from which member to which, its bytes, and the level at which it is handed
    over.
    """

    source: str
    target: str
    tensor: str
    bytes: int
    level: str
    reuse_tile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A kernel after welding: its members in order, and what it moves to and from memory before and
    after.
    """

    name: str
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    handovers: tuple[Handover, ...]
    arrivals: tuple[Handover, ...]  # from other groups
    output_bytes: int
    steps: tuple[Candidate, ...]
    ops: tuple[str, ...]


def data(program: Program, sizes: Mapping[str, int] | None = None) -> tuple[Group, ...]:
    """Every group in program order; empty where Welder has not run."""
    graph = program.decisions.tile_graph
    if graph is None:
        return ()
    bound = {**program.env.hints, **(sizes or {})}
    outputs = {
        b.var.name: evaluate_dim(b.var.type.bytes, bound)
        for b in program.kernel_calls
        if isinstance(b.var.type, Tensor) and b.var.type.is_known
    }
    return tuple(_group(g, graph, outputs.get(g.name, 0), bound) for g in graph.groups)


def _group(
    group: FusionGroup, graph: TileGraph, output_bytes: int, sizes: Mapping[str, int]
) -> Group:
    inside = set(group.members)
    mine = [e for e in graph.edges if e.target in inside]
    return Group(
        group.name,
        group.members,
        group.kinds,
        group.bytes_before,
        group.bytes_after,
        tuple(_handover(e, sizes) for e in mine if e.source in inside),
        tuple(_handover(e, sizes) for e in mine if e.source not in inside),
        output_bytes,
        group.steps,
        tuple(sorted(group.origin)),
    )


def _handover(e: TileEdge, sizes: Mapping[str, int]) -> Handover:
    return Handover(
        e.source, e.target, e.tensor, evaluate_dim(e.bytes, sizes), e.level, e.reuse_tile
    )


def of_operator(groups: tuple[Group, ...], op: str) -> Group | None:
    """The group that computes an operator, else the largest one."""
    mine = next((g for g in groups if op in g.ops), None)
    return mine or max(groups, key=lambda g: len(g.members), default=None)


def table(groups: tuple[Group, ...]) -> Table:
    """One row a group."""
    return Table(
        ("group", "members", "bytes before", "bytes after", "handed over at"),
        tuple(
            (
                g.name,
                " → ".join(g.members),
                g.bytes_before,
                g.bytes_after,
                ", ".join(sorted({h.level for h in g.handovers})),
            )
            for g in groups
        ),
        tuple(g.ops for g in groups),
        caption(groups),
    )


def caption(groups: tuple[Group, ...]) -> str:
    """What all of Welder's work did, in one line."""
    before, after = sum(g.bytes_before for g in groups), sum(g.bytes_after for g in groups)
    return (
        f"{sum(len(g.members) for g in groups)} kernels became {len(groups)}; "
        "modelled traffic to memory "
        f"{size_text(before)} → {size_text(after)}"
    )


def figure(groups: tuple[Group, ...], selected: str = "") -> Svg:
    """The selected operator's group by memory level, beside the traffic of all groups."""
    group = of_operator(groups, selected)
    if group is None:
        return Svg(680, 60, label(12, 34, "Welder has not run.", "i"), "No tile graph")
    marks = [path("M412.5 12V332", "var(--line)"), *_members(group), *_traffic(groups, group)]
    return Svg(680, 352, "".join(marks), f"Tile graph of {group.name}")


def _lanes(group: Group) -> dict[str, float]:
    """The top of each level's lane, from the registers down; levels of this machine between."""
    named = [h.level for h in (*group.handovers, *group.arrivals)]
    between = sorted({*LEVELS[1:3], *named} - {"register", "DRAM"})
    return {
        level: 92 + 192 * i / (len(between) + 1) if i >= 0 else 20
        for i, level in enumerate(("register", *between, "DRAM"), -1)
    }


def _members(group: Group) -> list[str]:
    names, lanes = {"register": "registers", "DRAM": "memory"}, _lanes(group)
    high = 192 / (len(lanes) - 1) - 8
    marks = []
    for level, y in lanes.items():
        marks.append(rect(8, y, 396, 64 if level == "register" else high, "var(--app)"))
        marks.append(label(16, y + 15, names.get(level, level), "i w"))
    shown = group.members[-MOST_MEMBERS:]
    step = 316 / max(len(shown), 1)
    centre = {m: 84 + step * (i + 0.5) for i, m in enumerate(shown)}
    for member, kind in zip(shown, group.kinds[-MOST_MEMBERS:], strict=True):
        marks += _box(centre[member], 30, min(step - 10, 110), member, kind, group.ops)
    if len(group.members) > len(shown):
        left = len(group.members) - len(shown)
        marks.append(label(398, 16, f"and {left} before them", "q", anchor="end"))
    for h in group.handovers:
        if h.source in centre and h.target in centre:
            marks += _handover_marks(h, centre[h.source], centre[h.target], lanes[h.level], high)
    marks += _outside(group, centre, lanes, high)
    apart, welded = size_text(group.bytes_before), size_text(group.bytes_after)
    marks.append(label(16, 304, f"to and from memory: {apart} apart, {welded} welded", "i"))
    refused = next((s for s in group.steps if s.refused), None)
    if refused is not None:
        marks.append(label(16, 322, fit(f"not {refused.label}: {refused.refused}", 388), "q"))
    return marks


def _outside(
    group: Group, centre: Mapping[str, float], lanes: Mapping[str, float], high: float
) -> list[str]:
    """What comes from other groups, each at its level, and what goes out."""
    shown = group.arrivals[:MOST_OUTSIDE]
    step = 250 / max(len(shown), 1)
    marks = []
    for i, h in enumerate(shown):
        x, y = 78 + step * (i + 0.5), lanes[h.level] + 4
        target = centre.get(h.target, min(centre.values()))
        marks += [
            arrow(x, y, target - 12, 68, "var(--edge)"),
            *_store(x, y, min(step - 8, 84), high - 8, h.tensor, size_text(h.bytes)),
        ]
    x, y = 362.0, lanes["DRAM"] + 4
    marks += [
        arrow(max(centre.values()) + 16, 67, x, y, "var(--edge)"),
        *_store(x, y, 76, high - 8, group.name, size_text(group.output_bytes)),
    ]
    return marks


def _store(x: float, y: float, wide: float, high: float, name: str, said: str) -> list[str]:
    """A tensor at rest: its name over its bytes, or beside them where the lane is low."""
    edge = 'rx="2" stroke="var(--edge)"'
    box = rect(x - wide / 2, y, wide, high, "var(--pane)", edge, title=f"{name}, {said}")
    if high < 28:
        return [box, label(x, y + high / 2 + 4, fit(said, wide - 6), "i", anchor="middle")]
    return [
        box,
        label(x, y + high / 2 - 2, fit(name, wide - 6), "i", anchor="middle"),
        label(x, y + high / 2 + 12, said, "i w", anchor="middle"),
    ]


def _box(x: float, y: float, wide: float, name: str, kind: str, ops: tuple[str, ...]) -> list[str]:
    box = rect(
        x - wide / 2,
        y,
        wide,
        36,
        "var(--pane)",
        'rx="2" stroke="var(--edge)"',
        title=name,
        ops=ops,
    )
    return [
        box,
        label(x, y + 15, fit(name, wide - 6), "i w", anchor="middle"),
        label(x, y + 29, fit(kind, wide - 6), anchor="middle"),
    ]


def _handover_marks(h: Handover, x0: float, x1: float, lane: float, high: float) -> list[str]:
    said, mid = size_text(h.bytes), (x0 + x1) / 2
    if h.level == "register":
        return [
            arrow(x0 + 8, 76, x1 - 8, 76, "var(--ink)"),
            label(mid, 73, said, "i", anchor="middle"),
        ]
    y = lane + 4
    return [
        arrow(x0, 66, mid - 12, y),
        arrow(mid + 12, y, x1, 68),
        *_store(mid, y, 84, high - 8, h.tensor, said),
    ]


def _traffic(groups: tuple[Group, ...], on: Group) -> list[str]:
    """A pair of bars for each group: outlined before, filled after."""
    marks = [
        label(426, 22, "Bytes to and from memory", "i w"),
        label(426, 38, "outlined apart, filled welded", "q"),
    ]
    ranked = sorted(groups, key=lambda g: g.bytes_before, reverse=True)
    shown = ranked[:12] if on in ranked[:12] else [*ranked[:11], on]
    most = max((g.bytes_before for g in shown), default=1) or 1
    for i, g in enumerate(shown):
        y, mine = 52 + i * 22, g is on
        style, ink = ("a", "var(--accent)") if mine else ("", "var(--t2)")
        marks += [
            label(426, y + 12, fit(g.name, 84), style),
            rect(
                516,
                y + 2,
                90 * g.bytes_before / most,
                12,
                "none",
                'stroke="var(--ink3)"',
                ops=g.ops,
            ),
            rect(516, y + 4, 90 * g.bytes_after / most, 8, ink, ops=g.ops),
            label(668, y + 12, size_text(g.bytes_after), "i", anchor="end"),
        ]
    for i, part in enumerate(caption(groups).split("; ")):
        marks.append(label(426, 330 + 15 * i, fit(part, 248), "q"))
    return marks
