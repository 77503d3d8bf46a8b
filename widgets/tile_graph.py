"""The tile graph: which kernels became one, at which memory level each intermediate is handed over,
and the bytes saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir.decisions import Candidate, FusionGroup, TileEdge, TileGraph
from explorer.ir.dims import evaluate_dim
from explorer.ir.program import Program
from widgets.svg import Svg, arrow, fit, label, path, rect
from widgets.table import Table, size_text

LEVELS = ("register", "L1", "L2", "DRAM")
_LANE = {"register": 26, "L1": 98, "L2": 158, "DRAM": 218}


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
    steps: tuple[Candidate, ...]
    ops: tuple[str, ...]


def data(program: Program, sizes: Mapping[str, int] | None = None) -> tuple[Group, ...]:
    """Every group in program order; empty where Welder has not run."""
    graph = program.decisions.tile_graph
    if graph is None:
        return ()
    bound = {**program.env.hints, **(sizes or {})}
    return tuple(_group(g, graph, bound) for g in graph.groups)


def _group(group: FusionGroup, graph: TileGraph, sizes: Mapping[str, int]) -> Group:
    inside = set(group.members)
    handovers = tuple(
        _handover(e, sizes) for e in graph.edges if e.source in inside and e.target in inside
    )
    return Group(
        group.name,
        group.members,
        group.kinds,
        group.bytes_before,
        group.bytes_after,
        handovers,
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


def _members(group: Group) -> list[str]:
    names = {"register": "registers", "L1": "L1", "L2": "L2", "DRAM": "memory"}
    marks = []
    for level, y in _LANE.items():
        high = 64 if level == "register" else 52
        marks += [rect(8, y, 396, high, "var(--app)"), label(16, y + 15, names[level], "i w")]
    shown = group.members[:4]
    step = 316 / max(len(shown), 1)
    centre = {m: 84 + step * (i + 0.5) for i, m in enumerate(shown)}
    for member, kind in zip(shown, group.kinds):
        marks += _box(centre[member], 36, min(step - 10, 110), member, kind, group.ops)
    if len(group.members) > len(shown):
        marks.append(
            label(398, 22, f"and {len(group.members) - len(shown)} more", "q", anchor="end")
        )
    for h in group.handovers:
        if h.source in centre and h.target in centre:
            marks += _handover_marks(h, centre[h.source], centre[h.target])
    apart, welded = size_text(group.bytes_before), size_text(group.bytes_after)
    moved = f"to and from memory: {apart} apart, {welded} welded"
    refused = next((s for s in group.steps if s.refused), None)
    marks.append(label(16, 298, moved, "i"))
    if refused is not None:
        marks.append(label(16, 316, fit(f"not {refused.label}: {refused.refused}", 380), "q"))
    return marks


def _box(x: float, y: float, wide: float, name: str, kind: str, ops: tuple[str, ...]) -> list[str]:
    box = rect(
        x - wide / 2,
        y,
        wide,
        36,
        "var(--pane)",
        'rx="2" stroke="var(--edge)"',
        title=name,
        ops=" ".join(ops),
    )
    return [
        box,
        label(x, y + 15, fit(name, wide - 6), "i w", anchor="middle"),
        label(x, y + 29, fit(kind, wide - 6), anchor="middle"),
    ]


def _handover_marks(h: Handover, x0: float, x1: float) -> list[str]:
    said = size_text(h.bytes)
    if h.level == "register":
        return [
            arrow(x0, 84, x1, 84, "var(--ink)"),
            label((x0 + x1) / 2, 81, said, "i", anchor="middle"),
        ]
    y, mid = _LANE.get(h.level, 218) + 10, (x0 + x1) / 2
    return [
        arrow(x0, 73, mid - 12, y),
        arrow(mid + 12, y, x1, 75),
        rect(mid - 38, y, 76, 34, "var(--pane)", 'rx="2" stroke="var(--edge)"', title=h.tensor),
        label(mid, y + 14, fit(h.tensor, 70), "i", anchor="middle"),
        label(mid, y + 28, said, "i w", anchor="middle"),
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
                ops=" ".join(g.ops),
            ),
            rect(516, y + 4, 90 * g.bytes_after / most, 8, ink, ops=" ".join(g.ops)),
            label(668, y + 12, size_text(g.bytes_after), "i", anchor="end"),
        ]
    marks.append(label(426, 330, fit(caption(groups), 244), "q"))
    return marks
