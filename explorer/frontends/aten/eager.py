"""An imported program held against PyTorch: both are run once on the inputs of the export."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from explorer.errors import Cancelled, IronworksError, UnsupportedOperator
from explorer.frontends.aten.importer import (
    array_of,
    changed_in_place,
    functional,
    program_of_node,
)
from explorer.frontends.aten.words import name_of
from explorer.ir.calls import Var
from explorer.ir.dtypes import is_float
from explorer.ir.program import Program
from explorer.ops.reference.evaluate import bind_sizes, evaluate

SHARES = {  # of the largest element, by which roundings may differ: chosen, 4 digits of float32
    "float64": 1e-7,
    "float32": 1e-3,
    "float16": 2e-2,
    "bfloat16": 1e-1,
}

MOST_WORK = 1 << 27  # multiplications: a tenth of a second of NumPy
MOST_WORK_OF_PYTORCH = 1 << 34  # a second, of a laptop
ELEMENT = 64  # multiplications that take as long as an element of another operator
PRODUCTS = ("mm", "linear", "conv", "attention", "einsum", "dot")
SILENT = ("batch_norm", "instance_norm")  # running statistics change, which no schema says
OF_EQUALS = frozenset({"topk", "sort", "kthvalue", "median", "nanmedian", "mode"})  # any one may be


def check_program(graph: Any, program: Program, state: Mapping[str, np.ndarray]) -> None:
    """Run the program of a graph, and the graph in eager PyTorch, both from its state on; of a
    program that takes longer each kind of operator once, and nothing of one that takes PyTorch
    itself long.

    Raises UnsupportedOperator that names the first operator which computes something else.
    """
    work = sum(map(_work, graph.graph.nodes))
    values = _eager(graph) if work <= MOST_WORK_OF_PYTORCH else None
    if values is None:
        return
    if work > MOST_WORK:
        node = _first_wrong(_kinds(graph, values), values)
    elif _agree(graph, program, values, state):
        return
    else:
        if changed_in_place(graph.graph):
            graph = functional(graph, strict=True)
            values = _eager(graph) or {}
        node = _first_wrong(graph.graph.nodes, values)
    if node is not None:
        _refuse(node)


def _work(node: Any) -> int:
    """Multiplications and elements of a node, those of products taken from their operands."""
    value = node.meta.get("val")
    size = sum(_count(v) for v in (value if isinstance(value, (list, tuple)) else [value]))
    if node.op != "call_function" or not any(w in name_of(node.target) for w in PRODUCTS):
        return ELEMENT * size if node.op == "call_function" else 0
    shapes = [tuple(getattr(a.meta.get("val"), "shape", ())) for a in node.all_input_nodes[:2]]
    if "conv" in name_of(node.target):
        return size * _number(prod(map(_number, shapes[-1][1:])))
    return size * max([_number(s[-1]) for s in shapes if s], default=1)


def _count(value: Any) -> int:
    return prod(map(_number, getattr(value, "shape", (0,))))


def _number(dim: Any) -> int:
    """A dim as it was in the export."""
    node = getattr(dim, "node", None)
    return int(dim) if node is None else int(getattr(node, "hint", None) or 1)


def _kinds(graph: Any, values: Mapping[Any, Any]) -> Iterator[Any]:
    """A node of each operator, its numbers, and shapes and dtypes of what it is given; but none
    that takes long, and none that reads what was changed since.
    """
    torch, changed = import_module("torch"), changed_in_place(graph.graph)
    touched = {*changed, *changed.values()}
    seen: set[str] = set()
    for node in graph.graph.nodes:
        if node.op != "call_function" or touched & {node, *node.all_input_nodes}:
            continue

        def kind(given: Any) -> Any:
            value = values[given]
            return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else value

        text = str((node.target, torch.fx.map_arg((node.args, node.kwargs), kind)))
        if text not in seen and _work(node) <= MOST_WORK:
            seen.add(text)
            yield node


def check_written(graph: Any, program: Program) -> None:
    """The same for a program that PyTorch's exporter wrote: its values have the names of nodes. It
    is run at other sizes too, as the exporter writes some sizes of the export as numbers.
    """
    values, others = _eager(graph), _inputs_of_other_sizes(graph)
    if values is None:
        return
    _check_values(graph, program, values)
    values = None if others is None else _eager(graph, others)
    if values is not None and _fits(program, _feeds(graph, program, values)):
        _check_values(graph, program, values, " at other sizes than those of the export")


def _check_values(graph: Any, program: Program, values: Mapping[Any, Any], where: str = "") -> None:
    if _agree(graph, program, values):
        return
    for node in _different(graph, program, values):
        _refuse(node, where)
    raise UnsupportedOperator(
        f"PyTorch's exporter wrote a program in ONNX that gives other results than PyTorch{where}",
        try_="torch.export.export of parts of the module shows which",
    )


def _inputs_of_other_sizes(graph: Any) -> list[Any] | None:
    """The example inputs repeated until each symbol is one more, or one less where that is the
    most; None where no dim is a symbol.
    """
    if graph.example_inputs is None:
        return None
    torch = import_module("torch")
    given = import_module("torch.utils._pytree").tree_leaves(graph.example_inputs)
    fakes = {n.name: n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"}
    names = [str(name) for name in graph.graph_signature.user_inputs]
    dims = [
        (i, d, dim.node.expr, value.shape[d])
        for i, (name, value) in enumerate(zip(names, given, strict=True))
        for d, dim in enumerate(getattr(fakes.get(name), "shape", ()))
        if hasattr(dim, "node") and value.shape[d]
    ]
    sizes = {}
    for _, _, expr, size in dims:
        if expr.is_Symbol:
            bounds = graph.range_constraints.get(expr)
            sizes[expr] = size - 1 if bounds is not None and size >= bounds.upper else size + 1
    for i, d, expr, size in dims:
        if expr.free_symbols <= sizes.keys():
            there = torch.arange(int(expr.subs(sizes))) % size
            given[i] = given[i].index_select(d, there)
    return given if sizes else None


def _refuse(node: Any, where: str = "") -> None:
    raise UnsupportedOperator(
        f"{name_of(node.target)} at {node.name!r} computes something else here than in PyTorch"
        f"{where}",
        where=node.name,
        try_="other operators of PyTorch for it",
    )


# PyTorch.


def _eager(graph: Any, others: Sequence[Any] | None = None) -> Mapping[Any, Any] | None:
    """What each node of an exported program gives, for the inputs of its export where no others are
    given; None where there are none to run it on, or a run gives other numbers than the one before.
    """
    if graph.example_inputs is None or any(map(_is_random, graph.graph.nodes)):
        return None
    torch = import_module("torch")
    leaves = import_module("torch.utils._pytree").tree_leaves(graph.example_inputs)
    given = iter(leaves if others is None else others)
    specs = {s.arg.name: s for s in graph.graph_signature.input_specs}
    inputs = []
    changes = any(map(_may_change, graph.graph.nodes))
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            match spec.kind.name:
                case "USER_INPUT":
                    value = next(given)
                case "TOKEN":  # the order of effects: a tensor of nothing
                    value = torch.empty(0)
                case _:
                    value = _held(graph, spec)
            own = changes and isinstance(value, torch.Tensor)
            inputs.append(value.detach().clone() if own else value)

    values: dict[Any, Any] = {}

    interpreter: Any = torch.fx.Interpreter

    class Recorded(interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            found = super().run_node(node)
            values[node] = found
            return found

    with torch.no_grad():
        try:
            Recorded(graph.graph_module, garbage_collect_values=False).run(*inputs)
        except Exception:  # what PyTorch does not run there is nothing to be held against
            return None
    return values


def _may_change(node: Any) -> bool:
    """Whether an operator may change what it is given: norms by batches say nothing of it."""
    schema = getattr(node.target, "_schema", None)
    return (
        node.op == "call_function"
        and node.target is not operator.getitem
        and (schema is None or schema.is_mutable or any(w in schema.name for w in SILENT))
    )


def _held(graph: Any, spec: Any) -> Any:
    state = graph.state_dict
    return state[spec.target] if spec.target in state else graph.constants[spec.target]


def _is_random(node: Any) -> bool:
    tags = getattr(node.target, "tags", ())
    if not any(str(t).endswith("nondeterministic_seeded") for t in tags):
        return False
    name = name_of(node.target)
    if name == "aten.dropout":
        return bool(node.args[1] and node.args[2])
    if name.startswith("aten.scaled_dot_product"):
        return bool(node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0))
    return True


# Comparisons.


def _agree(
    graph: Any,
    program: Program,
    values: Mapping[Any, Any],
    state: Mapping[str, np.ndarray] | None = None,
) -> bool:
    first = state or {}
    found = _run(program, {**_feeds(graph, program, values), **first})
    wanted = list(_results(graph, values))
    return (
        found is not None
        and len(found) == len(wanted) + len(first)
        and all(map(is_same, found.values(), wanted))
    )


def _feeds(graph: Any, program: Program, values: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    """The example inputs by the names of the program's parameters."""
    kinds = {s.arg.name: s.kind.name for s in graph.graph_signature.input_specs}
    places = [
        n
        for n in graph.graph.nodes
        if n.op == "placeholder" and kinds[n.name] == "USER_INPUT" and hasattr(values[n], "dtype")
    ]
    arrays = [array_of(values[n]) for n in places]
    return dict(zip((p.name for p in program.main.params), arrays, strict=False))


def _results(graph: Any, values: Mapping[Any, Any]) -> Iterator[Any]:
    output = next(n for n in graph.graph.nodes if n.op == "output")
    for node, spec in zip(output.args[0], graph.graph_signature.output_specs, strict=True):
        if spec.kind.name == "USER_OUTPUT":
            value = values.get(node) if hasattr(node, "op") else node
            if value is not None:
                yield array_of(value) if hasattr(value, "dtype") else np.asarray(value)


def _fits(program: Program, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether a program takes inputs of these sizes."""
    try:
        bind_sizes(program, feeds)
    except IronworksError:
        return False
    return True


def _run(program: Program, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    try:
        return evaluate(program, feeds)
    except Cancelled:
        raise
    except IronworksError:
        return None


def is_same(found: Any, wanted: Any, sums: float = 0.0) -> bool:
    """Return True if two arrays differ by no more than roundings; `sums`: the magnitude of what
    is summed to each element, and may cancel.
    """
    got, want = np.asarray(found), np.asarray(wanted)
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if not is_float(want.dtype.name):
        return bool(np.array_equal(got, want))
    share = SHARES.get(want.dtype.name, 1.0)
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return False
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    largest = float(np.abs(b[finite]).max(initial=0.0))
    off = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return off <= max(share * max(largest, share), sums * float(ml_dtypes.finfo(want.dtype).eps))


# Which operator.


def _first_wrong(nodes: Iterable[Any], values: Mapping[Any, Any]) -> Any:
    """The first node that gives something else for what PyTorch gives it; None where each is right
    by itself, and what differs is made of roundings, or of which one of equal elements was taken.
    """
    for node in nodes:
        if node.op != "call_function" or not _tensors(values.get(node)):
            continue
        try:
            program, feeds = program_of_node(node, values)
        except IronworksError:
            continue
        found = None if program is None else _run(program, feeds)
        wanted = _tensors(values[node])
        if any(word in OF_EQUALS for word in name_of(node.target).split(".")):
            wanted = wanted[:1]
        if found is None:
            return node
        if _same(found.values(), wanted):
            continue
        if not _same(found.values(), wanted, _summed(node, values, wanted)):
            return node
    return None


def _same(found: Iterable[Any], wanted: Iterable[Any], sums: float = 0.0) -> bool:
    return all(is_same(f, w, sums) for f, w in zip(found, wanted))


def _summed(node: Any, values: Mapping[Any, Any], wanted: Sequence[np.ndarray]) -> float:
    """The largest sum of magnitudes that an element of a node's results may be made of."""
    operands = [a for n in node.all_input_nodes for a in _tensors(values.get(n))]
    floats = [np.abs(a.astype(np.float64)) for a in operands if is_float(a.dtype.name) and a.size]
    results = max((w.size for w in wanted), default=1) or 1
    return sum(float(np.nan_to_num(a, posinf=0).max()) * a.size / results for a in floats)


def _tensors(value: Any) -> list[np.ndarray]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return [array_of(v) for v in found if hasattr(v, "dtype")]


def _different(graph: Any, program: Program, values: Mapping[Any, Any]) -> Sequence[Any]:
    """The first node of which a value of its name differs."""
    nodes = {n.name: n for n in graph.graph.nodes if n.op == "call_function"}
    named: list[Var] = [v for b in program.main.body for v in b.vars if v.name in nodes]
    if not named:
        return []
    main = replace(program.main, outputs=tuple(named), output_names=tuple(v.name for v in named))
    found = _run(program.with_function(main), _feeds(graph, program, values)) or {}
    for name, value in found.items():
        wanted = _tensors(values.get(nodes[name]))
        if len(wanted) == 1 and not is_same(value, wanted[0]):
            return [nodes[name]]
    return []
