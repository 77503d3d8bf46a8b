"""Parts of the explorer as plain values: what the front end draws and a saved page holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from explorer.cached_property import cached_property
from explorer.compiler.operators import (
    Operator,
    call_family,
    call_labels,
    is_call,
    label_of,
    operators,
    value_labels,
)
from explorer.devices.catalogue import unit_word
from explorer.ir.calls import KernelCall, OpCall
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.plain_text import counted
from explorer.views.binding_list import signature
from widgets.draw import theme
from widgets.draw.table import Table, cell_text, size_text
from widgets.model import brick_wall, dataflow_graph, stage_strip
from widgets.model.brick_wall import WallCall
from widgets.model.compiled import Compiled
from widgets.model.dataflow_graph import Graph, GraphNode, GraphPlaces
from widgets.model.folded_layers import Tree, tree, visible_graph
from widgets.model.glossary import meanings
from widgets.model.knob import Knob
from widgets.model.knobs import threads
from widgets.model.outline import dtype_text
from widgets.model.pipeline_knobs import HIDDEN

Part = Any  # a JSON value
VIEWS = ("operators", "kernels")
MOST = 6  # operators that are listed
T = TypeVar("T")


@dataclass(frozen=True)
class House:
    """One compilation, read once: its operators, calls and graphs."""

    compiled: Compiled
    operators: tuple[Operator, ...]
    calls: tuple[WallCall, ...]
    cache: dict[tuple[str, Any], Any] = field(default_factory=dict, compare=False)

    def graph(self, view: str) -> Graph:
        """Return the full graph of a view, one of `VIEWS`."""
        build = partial(dataflow_graph.data, self.compiled, view == "kernels", self.operators)
        return self.cached("graph", view, build)

    def tree(self, view: str) -> Tree:
        """Return the repeated layers of a graph."""
        c, folded = self.compiled, view == "kernels"
        program = c.program if folded else c.model.program
        return self.cached(
            "layers",
            view,
            lambda: tree(self.graph(view), _computations(program, operators=not folded)),
        )

    def folded(self, view: str, opened: Collection[str]) -> Graph:
        """Return a graph with its layers folded, except those whose keys are `opened`."""
        return visible_graph(self.tree(view), opened)

    @cached_property
    def places(self) -> GraphPlaces:
        """Return the positions of the nodes of every step."""
        return dataflow_graph.places(self.compiled.model.program, self.operators)

    def cached(self, room: str, sizes: Any, make: Callable[[], T]) -> T:
        """Return the rows of a room at these sizes, computed once for all operators."""
        if (room, sizes) not in self.cache:
            self.cache[room, sizes] = make()
        rows: T = self.cache[room, sizes]
        return rows

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Return the compilation's parts as the front end reads them."""
        return program_parts(self)

    @cached_property
    def order(self) -> dict[str, int]:
        """Return the position of each source operator."""
        return {o.name: i for i, o in enumerate(self.operators)}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return the label of each call, by its binding."""
        return {call.name: call.label for call in self.calls}

    def label(self, binding: str, ops: Collection[str] = ()) -> str:
        """Return the label of a binding of any step.

        That of its call in the last program, else that of the heaviest source operator that it
        computes.
        """
        return self.labels.get(binding) or self.heaviest(ops) or binding

    def heaviest(self, ops: Collection[str]) -> str:
        """Return the label of what computes these source operators; "" if none is known."""
        mine = sorted(self.order[o] for o in ops if o in self.order)
        return label_of([self.operators[n] for n in mine], ops)

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Return the label of each value that existed before kernels were fused."""
        steps = [s.before for s in self.compiled.snapshots if s.stage == Stage.WELDED]
        return value_labels(self.operators, steps[0] if steps else self.compiled.program)

    def member(self, binding: str) -> str:
        """Return the label of a kernel that was fused into another."""
        return self.values.get(binding, binding)

    def kernel_of(self, op: str) -> str:
        """Return the label of the call that computes an operator; "" if there is none."""
        calls = self.operators[self.order[op]].calls if op in self.order else ()
        return self.label(calls[0]) if calls else ""

    @cached_property
    def _other_names(self) -> Mapping[str, str]:
        return other_names(self.operators, self.compiled.program)

    def other_names(self, call: str) -> str:
        """Return the other names of a call: its source operators, its binding, its kernel."""
        return self._other_names.get(call, call)

    def positions(self, ops: Sequence[str]) -> list[int]:
        """Return source operators as positions."""
        order = self.order
        return [order[o] for o in ops if o in order]


def read(c: Compiled) -> House:
    """Read a compilation into an explorer."""
    source_operators = operators(c.model.program, c.program)
    by_name = {o.name: o for o in source_operators}
    families = {
        b.vars[0].name: call_family(b, (by_name[o] for o in b.origin if o in by_name))
        for _, b in c.program.bindings()
        if is_call(b)
    }
    calls = brick_wall.calls_of(c.program, families, call_labels(source_operators, c.program))
    return House(c, source_operators, calls)


def _computations(program: Program, *, operators: bool) -> dict[str, Hashable]:
    """Return what each node of a graph computes, by its name."""
    computations: dict[str, Hashable] = {}
    for _, b in program.bindings():
        e, reads = b.expr, tuple([v.type for v in b.reads])
        if isinstance(e, OpCall):
            result_types = tuple([v.type for v in b.vars])
            does: Hashable = (
                e.op,
                e.attrs,
                tuple([a is None for a in e.args]),
                result_types,
                reads,
            )
        else:
            does = (signature(b), reads)
        for name in b.origin if operators else (b.name,):
            computations[name] = does
    return computations


def fixed_parts() -> dict[str, Part]:
    """Return the parts that are the same for every model: hatches, families and idle causes."""
    return {
        "patterns": theme.pattern_defs("p-"),
        "hatches": {name: asdict(hatch) for name, hatch in theme.HATCHES.items()},
        "families": list(theme.FAMILIES),
        "causes": [[n, word, meanings()[word]] for n, word in brick_wall.NAMES.items()],
        "dark_pane": theme.DARK["pane"],
    }


def program_parts(house: House) -> dict[str, Part]:
    """Return a compilation's parts: bar, stages, operators, calls and graphs."""
    c, order = house.compiled, house.order
    calls = {call.name: i for i, call in enumerate(house.calls)}
    shown = sum(bool(o.calls) for o in house.operators)
    return {
        "bar": {
            "name": c.model.name,
            "parts": _about(c, house.operators),
            "unit": unit_word(c.device.name),
        },
        "stages": [stage_strip.page_part(cell) for cell in stage_strip.data(c)],
        "steps": [s.name for s in c.snapshots],
        "operators": [
            [o.name, o.label, o.op, o.family, [calls[n] for n in o.calls if n in calls], o.dropped]
            for o in house.operators
        ],
        "calls": [
            [
                call.label,
                call.family,
                [order[o] for o in call.ops if o in order],
                house.other_names(call.name),
            ]
            for call in house.calls
        ],
        **{f"graph_{name}": first_graph(house, name) for name in VIEWS},
        "graph_first": "kernels" if shown > dataflow_graph.FOLD_ABOVE else "operators",
    }


def _about(c: Compiled, source_operators: Sequence[Operator]) -> list[str]:
    kernels, library = len(c.program.kernel_calls), len(c.program.library_calls)
    inputs = ", ".join(
        f"{name} {dtype_text(t.dtype or '?')}[{', '.join(map(str, t.shape or ()))}]"
        for name, t in c.model.inputs.items()
        if isinstance(t, Tensor)
    )
    calls = f", {counted(library, 'library call')}" if library else ""
    return [
        f"{counted(len(source_operators), 'operator')}, {counted(kernels, 'kernel')}{calls}",
        f"{_device(c)}",
        inputs,
        c.model.digest[:8],
    ]


def _device(c: Compiled) -> str:
    caches = ", ".join(
        f"{m.name} {size_text(m.capacity_bytes)}"
        for m in getattr(c.device, "levels", ())
        if m.capacity_bytes and m.name.startswith("L")
    )
    workers = threads(c)
    people = counted(workers, unit_word(c.device.name))
    figures = getattr(c.device, "figures", "")
    about = f"{figures} figures" if figures else ""
    return ", ".join(part for part in (c.device.name, people, caches, about) if part)


def first_graph(house: House, view: str) -> Part:
    """Return a graph as it is shown first: a large one with its repeated layers folded."""
    full_graph, layers = house.graph(view), house.tree(view)
    large = len(full_graph.nodes) > dataflow_graph.FOLD_ABOVE and layers.groups
    return (
        folded_graph(house, view, ())
        if large
        else {**_graph(full_graph, house), **_layer_fields(layers)}
    )


def folded_graph(house: House, view: str, opened: Collection[str]) -> Part:
    """Return a graph with its layers folded, and the keys of those that are open."""
    graph = _graph(house.folded(view, opened), house)
    return {**graph, **_layer_fields(house.tree(view)), "opened": sorted(opened)}


def flat_graph(house: House, view: str) -> Part:
    """Return a graph without its layers."""
    return {**_graph(house.graph(view), house), **_layer_fields(house.tree(view))}


def _layer_fields(layers: Tree) -> dict[str, Part]:
    return {"groups": layers.groups, "opened": None}


def step_part(house: House, number: int) -> Part:
    """Return the graph of the program after a step, with the same node positions in all steps."""
    step = house.compiled.snapshots[number]
    graph = dataflow_graph.step_graph(step.before, step.after, house.operators, house.places)
    nodes = [_node(n, house) for n in graph.nodes]
    return {
        "nodes": nodes, "edges": graph.edges, "rows": [], "routes": {}, "places": graph.places,
        "lines": graph.rows, "groups": 0, "opened": None,
    }  # fmt: skip


def _graph(graph: Graph, house: House) -> Part:
    nodes = [_node(n, house) for n in graph.nodes]
    return {"nodes": nodes, "edges": graph.edges, "rows": graph.rows, "routes": graph.routes}


def _node(n: GraphNode, house: House) -> Part:
    return {
        "name": n.name,
        "label": n.label,
        "kind": n.kind,
        "family": n.family,
        "ops": house.positions(n.ops),
        "note": n.note,
    }


def knob_parts(knobs: Sequence[Knob]) -> Part:
    """Return the knobs of the row without their values, which stay in Python."""
    return [
        {
            "name": k.name,
            "label": k.label,
            "kind": k.kind,
            "labels": list(k.labels),
            "now": k.now,
            "pinned": k.pinned,
            "hint": k.hint,
        }
        for k in knobs
        if k.kind != HIDDEN
    ]


def table_part(table: Table, house: House) -> Part:
    """Return a table as the front end draws it."""
    return {
        "columns": table.columns,
        "rows": [[cell_text(cell) for cell in row] for row in table.rows],
        "ops": [house.positions(ops) for ops in table.ops],
        "caption": table.caption,
        "numeric": [
            all(isinstance(row[i], int | float) or not row[i] for row in table.rows)
            for i in range(len(table.columns))
        ],
    }


def other_names(source_operators: Sequence[Operator], program: Program) -> dict[str, str]:
    """Return by binding the source operators of a call, its name in the program, and its kernel."""
    order = {o.name: i for i, o in enumerate(source_operators)}
    return {
        b.name: "; ".join(_names(b, source_operators, order))
        for _, b in program.bindings()
        if is_call(b)
    }


def _names(
    b: Binding, source_operators: Sequence[Operator], order: Mapping[str, int]
) -> Iterator[str]:
    mine = [source_operators[i] for i in sorted(order[o] for o in b.origin if o in order)]
    if mine:
        more = f" and {len(mine) - MOST} more" if len(mine) > MOST else ""
        yield ", ".join(map(label_with_name, mine[:MOST])) + more
    yield f"{b.name} in the program"
    if isinstance(b.expr, KernelCall):
        yield f"kernel {b.expr.kernel.name}"


def label_with_name(o: Operator) -> str:
    """Return an operator's label, with its name in the file if that differs."""
    return o.label if o.label == o.name else f"{o.label} ({o.name})"
