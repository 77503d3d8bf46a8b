"""The drawn part of a tile graph: the selected kernel with the kernels nearest to it.

Each has its operators, their tiles, and the levels of its edges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from explorer.ir.calls import View
from explorer.ir.decisions.tile_graph import FusionGroup
from explorer.ir.program import Program
from widgets.model.on_show import OnShow
from widgets.welder import view
from widgets.welder.pipeline import PipelineRows, Scene


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """One kernel: its operators and the values between them.

    The bytes to and from memory are those of separate kernels and of the fused one.
    """

    rows: PipelineRows
    bytes_before: int
    bytes_after: int
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryEdge:
    """A value that goes through memory, between two columns and their operators."""

    source: int
    from_operator: int
    target: int
    to_operator: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GraphWindow:
    """Some columns in program order with their edges.

    `on` is the selected column; `before` and `after` count the kernels outside the window.
    """

    columns: tuple[GroupColumn, ...]
    edges: tuple[MemoryEdge, ...]
    on: int
    before: int
    after: int


def window(s: OnShow, op: str, most: int) -> GraphWindow:
    """Return at most `most` kernels around the one that computes an operator."""
    graph = s.now.compiled.program.decisions.tile_graph
    groups = graph.groups if graph else ()
    program = view.before_welding(s.now.compiled)
    alias, reads = s.house.cached(
        "reads of groups", (), lambda: _aliases_and_reads(program, groups)
    )
    first = next((g for g in groups if op and op in g.origin), None)
    first = first or max(groups, key=lambda g: g.bytes_before - g.bytes_after, default=None)
    if first is None:
        return GraphWindow((), (), 0, 0, 0)
    at = groups.index(first)
    chosen = sorted(_nearest(at, reads, most, len(groups)))
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    columns = []
    for n in chosen:
        w = view.group_in_use(s, groups[n])
        if w is not None:
            rows = Scene(w, program, s.house, sizes).frame(None)
            g = groups[n]
            columns.append(GroupColumn(rows, g.bytes_before, g.bytes_after, w.ops))
    edges = tuple(_edges(columns, alias))
    before, after = chosen[0], len(groups) - 1 - chosen[-1]
    return GraphWindow(tuple(columns), edges, chosen.index(at), before, after)


def _aliases(program: Program) -> dict[str, str]:
    """Return the underlying value of each view, by name."""
    aliases: dict[str, str] = {}
    for _, b in program.bindings():
        if isinstance(b.expr, View):
            aliases[b.name] = aliases.get(b.expr.arg.name, b.expr.arg.name)
    return aliases


def _aliases_and_reads(
    program: Program, groups: Sequence[FusionGroup]
) -> tuple[dict[str, str], list[set[int]]]:
    """Return the underlying values of views, and for each group the groups that it reads."""
    alias = _aliases(program)
    home = {m: n for n, g in enumerate(groups) for m in g.members}
    reads: list[set[int]] = [set() for _ in groups]
    for _, b in program.bindings():
        if b.name in home:
            sources = {home.get(alias.get(v.name, v.name), -1) for v in b.reads}
            reads[home[b.name]] |= sources - {-1, home[b.name]}
    return alias, reads


def _nearest(at: int, reads: Sequence[Collection[int]], most: int, count: int) -> set[int]:
    """Return the groups nearest to one, by edges, then by program order."""
    readers: list[list[int]] = [[] for _ in range(count)]
    for n, sources in enumerate(reads):
        for m in sources:
            readers[m].append(n)
    distance, front = {at: 0}, deque([at])
    while front and len(distance) < 8 * most:
        n = front.popleft()
        for m in sorted({*reads[n], *readers[n]}, key=lambda m: abs(m - n)):
            if m not in distance:
                distance[m] = distance[n] + 1
                front.append(m)
    order = sorted(range(count), key=lambda n: (distance.get(n, count), abs(n - at)))
    return set(order[:most])


def _edges(columns: Sequence[GroupColumn], alias: dict[str, str]) -> Iterator[MemoryEdge]:
    producers = {
        o.name: (c, n) for c, g in enumerate(columns) for n, o in enumerate(g.rows.operators)
    }
    for target, column in enumerate(columns):
        for i in column.rows.inputs:
            source = producers.get(alias.get(i.tensor, i.tensor))
            if source is not None and source[0] < target:
                yield MemoryEdge(*source, target, i.operators[0], i.bytes)
