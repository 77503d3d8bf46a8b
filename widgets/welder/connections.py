"""One group and its neighbours as they were before welding: every kernel, every value between them,
and the memory level at which it is handed over. What is moved by hand is moved here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import Sizes, evaluate_dim, evaluate_shape
from explorer.ir.types import Tensor
from explorer.welder.model import form_of
from explorer.welder.tiles.levels import memories
from widgets.welder.tile_stream import Operator, Rect, Reuse, Slot, StreamRows, called, nodes_of
from widgets.welder.welded import Welded

MOST_BESIDE = 6  # neighbours on either side that are drawn


@dataclass(frozen=True, slots=True)
class ConnectionRows:
    """The streaming picture of kernels; the values that can be moved; how many neighbours are not
    drawn.
    """

    stream: StreamRows
    movable: frozenset[str]
    left_out: int


def data(welded: Welded, before: Program, graph: TileGraph, sizes: Sizes) -> ConnectionRows:
    """The group with the kernels that it reads from, and those that read it."""
    calls = {b.name: b for f in before.functions for b in f.body if _is_kernel(b)}
    inside = [m for m in welded.group.members if m in calls]
    read = frozenset[str]().union(*(_reads(calls[m]) for m in inside))
    sources = [n for n in calls if n in read and n not in inside]
    readers = [n for n, b in calls.items() if n not in inside and _reads(b) & set(inside)]
    shown = {*sources[-MOST_BESIDE:], *inside, *readers[:MOST_BESIDE]}
    names = [n for n in calls if n in shown]
    scene = _Scene(calls, names, frozenset(inside), graph, welded, sizes)
    results = {v.name for f in before.functions for v in f.outputs}
    stream = scene.stream()
    movable = frozenset(r.tensor for r in stream.reuse) - results
    return ConnectionRows(stream, movable, len(sources) + len(inside) + len(readers) - len(shown))


def _is_kernel(b: Binding) -> bool:
    return isinstance(b.expr, KernelCall) and len(b.vars) == 1


def _reads(b: Binding) -> frozenset[str]:
    return frozenset(a.name for a in b.kernel_call.args)


@dataclass(frozen=True)
class _Scene:
    """The kernels on show (`names`, in program order), `inside` of them those of the group."""

    calls: Mapping[str, Binding]
    names: Sequence[str]
    inside: frozenset[str]
    graph: TileGraph
    welded: Welded
    sizes: Sizes

    def stream(self) -> StreamRows:
        """Kernels as operators, values as reuse tiles."""
        w, levels = self.welded, tuple(m.name for m in memories(self.welded.device))
        at = self._levels(levels)
        reuse = tuple(self._reuse(at))
        handed = {r.tensor for r in reuse} | self.inside
        own = [r for r in reuse if {self.names[r.source], self.names[r.target]} <= self.inside]
        return StreamRows(
            w.title,
            w.device.name,
            w.own,
            levels,
            tuple(map(self._operator, self.names)),
            tuple(self._slot(i, at[n]) for i, n in enumerate(self.names) if n in handed),
            reuse,
            tuple(nodes_of(len(self.names), own, levels)),
            w.plan,
            w.in_use,
            w.ops,
        )

    def _levels(self, levels: Sequence[str]) -> Mapping[str, str]:
        """Where each value is handed over: as its edge says, in a group; else in memory."""
        home = {m: g.name for g in self.graph.groups for m in g.members}
        found = dict.fromkeys(self.names, levels[-1])
        for e in self.graph.edges:
            if home.get(e.source) == home.get(e.target):
                found[e.tensor] = e.level if e.level in levels else levels[1]
        return found

    def _operator(self, name: str) -> Operator:
        b = self.calls[name]
        ops = tuple(sorted(b.origin))
        label = called(name, ops, self.welded.names)
        return Operator(
            name, label, form_of(b.kernel_call.kernel).word, ops, name not in self.inside
        )

    def _slot(self, at: int, level: str) -> Slot:
        b = self.calls[self.names[at]]
        kind = b.vars[0].type
        if not isinstance(kind, Tensor) or not kind.is_known:
            return Slot(at, b.name, "reuse", (), (Rect(level, (), 0),))
        shape = evaluate_shape(kind.dims, self.sizes)
        size = evaluate_dim(kind.bytes, self.sizes)
        return Slot(at, b.name, "reuse", shape, (Rect(level, shape, size),))

    def _reuse(self, at: Mapping[str, str]) -> Iterator[Reuse]:
        """A line for each kernel that reads a value, where it or the one that writes is inside."""
        places = {n: i for i, n in enumerate(self.names)}
        for target in self.names:
            for source in sorted(_reads(self.calls[target]) & set(places)):
                if {source, target} & self.inside and places[source] < places[target]:
                    yield Reuse(places[source], places[target], source, at[source], ())
