"""The streaming picture of one group: its operators in order over the memory levels, the tile of
each tensor in every memory that holds it, and where each intermediate is handed on (Welder, section
3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from explorer.ir.decisions.tile_graph import GroupPlan
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.contraction import contraction
from explorer.ir.types import ITEM_BYTES
from widgets.welder.welded import Welded


@dataclass(frozen=True, slots=True)
class Rect:
    """The tile of a tensor in one memory; `bytes` of one tile."""

    level: str
    tile: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Slot:
    """One tensor beside the operator that reads it first, or writes it: `kind` is "load", "store"
    or "reuse". Its tiles, farthest memory first; `full` is all of it.
    """

    operator: int
    tensor: str
    kind: str
    full: tuple[int, ...]
    rects: tuple[Rect, ...]


@dataclass(frozen=True, slots=True)
class Reuse:
    """A reuse tile on its way from one operator to a later one, at a level."""

    source: int
    target: int
    tensor: str
    level: str
    tile: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the group, in order: what it writes, what it is called, what it does, and the
    source operators that it came from. `outside`: it belongs to another group.
    """

    name: str
    label: str
    kind: str
    ops: tuple[str, ...]
    outside: bool = False


@dataclass(frozen=True, slots=True)
class VirtualNode:
    """Operators that are connected at `level` or nearer, and so are one node below; `depth` counts
    the virtual nodes around it.
    """

    level: str
    operators: tuple[int, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class StreamRows:
    """One group under one plan; `levels` from the registers down to memory."""

    group: str
    device: str
    own: bool
    levels: tuple[str, ...]
    operators: tuple[Operator, ...]
    slots: tuple[Slot, ...]
    reuse: tuple[Reuse, ...]
    nodes: tuple[VirtualNode, ...]
    plan: GroupPlan
    in_use: bool
    ops: tuple[str, ...]


def data(welded: Welded) -> StreamRows:
    """The picture of a group under its plan."""
    plan, kernel = welded.plan, welded.kernel
    levels = tuple(m.level for m in plan.levels)
    operators = tuple(_operators(kernel, welded.names))
    reuse = tuple(_reuse(plan, operators))
    return StreamRows(
        welded.title,
        welded.device.name,
        welded.own,
        levels,
        operators,
        tuple(_slots(kernel, plan, operators, levels)),
        reuse,
        tuple(nodes_of(len(operators), reuse, levels, plan.level)),
        plan,
        welded.in_use,
        welded.ops,
    )


def _operators(kernel: Kernel, names: Mapping[str, str]) -> Iterator[Operator]:
    """Each compute; those that write one tensor in parts are one."""
    by: dict[str, list[Compute]] = {}
    for c in kernel.computes:
        by.setdefault(c.out, []).append(c)
    for name, parts in by.items():
        origin = frozenset[str]().union(*(c.origin for c in parts))
        ops = tuple(sorted(origin))
        yield Operator(name, called(name, ops, names), kind_of(parts[0]), ops)


def called(name: str, ops: Sequence[str], names: Mapping[str, str]) -> str:
    """What the source calls a compute: its only operator, or the last one and how many more."""
    known = [op for op in names if op in ops]
    if not known:
        return name
    return names[known[-1]] + (f" +{len(known) - 1}" if len(known) > 1 else "")


def kind_of(c: Compute) -> str:
    """What a compute does, in a word."""
    if not c.reduce:
        return "elementwise"
    return "contraction" if contraction(c) is not None else f"reduction, {c.combiner}"


def _slots(
    kernel: Kernel, plan: GroupPlan, operators: Sequence[Operator], levels: Sequence[str]
) -> Iterator[Slot]:
    """Each tensor once, with its tiles in all memories; what is handed on has none farther away
    than where it is.
    """
    at = {o.name: i for i, o in enumerate(operators)}
    inner = {o.name for o in operators} - {*kernel.outputs}
    order = {level: n for n, level in enumerate(levels)}
    connect = {e.tensor: e.level for e in plan.edges}
    homes: dict[str, int] = {}
    rects: dict[str, dict[str, Rect]] = {}
    full: dict[str, tuple[int, ...]] = {}
    for t in plan.tiles:
        home = at.get(t.tensor, at.get(t.node, 0))
        homes[t.tensor] = min(homes.get(t.tensor, home), home)
        full[t.tensor] = t.full
        rects.setdefault(t.tensor, {}).setdefault(t.level, Rect(t.level, t.tile, t.bytes))
    for tensor in sorted(homes, key=lambda name: (homes[name], name in at)):
        kind = "reuse" if tensor in inner else "store" if tensor in kernel.outputs else "load"
        if kind != "reuse":
            size = prod(full[tensor]) * ITEM_BYTES[kernel.dtype(tensor)]
            rects[tensor].setdefault(levels[-1], Rect(levels[-1], full[tensor], size))
        reach = order.get(connect.get(tensor, ""), len(order))
        kept = [r for r in rects[tensor].values() if order.get(r.level, 0) <= reach]
        far_first = sorted(kept, key=lambda r: -order.get(r.level, 0))
        yield Slot(homes[tensor], tensor, kind, full[tensor], tuple(far_first))


def _reuse(plan: GroupPlan, operators: Sequence[Operator]) -> Iterator[Reuse]:
    at = {o.name: i for i, o in enumerate(operators)}
    for e in plan.edges:
        if e.source in at and e.target in at and at[e.source] < at[e.target]:
            yield Reuse(at[e.source], at[e.target], e.tensor, e.level, e.reuse_tile)


def nodes_of(
    count: int, reuse: Sequence[Reuse], levels: Sequence[str], task: str = ""
) -> Iterator[VirtualNode]:
    """The hierarchy of virtual nodes, the nearest level first; one that does not grow is not told
    again. With the level of a task the whole group is one node there.
    """
    found: list[tuple[str, tuple[int, ...]]] = []
    for n, level in enumerate(levels[:-1]):
        near = [r for r in reuse if r.level in levels[: n + 1]]
        for members in _components(count, near):
            if len(members) > 1 and members not in [m for _, m in found]:
                found.append((level, members))
    everything = tuple(range(count))
    if task and count and everything not in [m for _, m in found]:
        found.append((task, everything))
    for level, members in found:
        depth = sum(set(members) < set(other) for _, other in found)
        yield VirtualNode(level, members, depth)


def _components(count: int, reuse: Sequence[Reuse]) -> list[tuple[int, ...]]:
    """Operators that edges connect."""
    home = list(range(count))
    for r in reuse:
        first, second = home[r.source], home[r.target]
        home = [first if h == second else h for h in home]
    groups: dict[int, list[int]] = {}
    for operator, h in enumerate(home):
        groups.setdefault(h, []).append(operator)
    return [tuple(g) for g in groups.values()]
