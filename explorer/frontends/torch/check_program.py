"""Validation of an imported program against PyTorch, on the inputs of the export."""

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
from explorer.frontends.torch.functionalize import changed_in_place, functionalize
from explorer.frontends.torch.graphs import name_of
from explorer.frontends.torch.importer import array_of, program_of_node
from explorer.ir.calls import Var
from explorer.ir.dtypes import is_float
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import bind_sizes, evaluate

TOLERANCES = {  # tolerance relative to the largest element: chosen, 4 digits of float32
    "float64": 1e-7,
    "float32": 1e-3,
    "float16": 2e-2,
    "bfloat16": 1e-1,
}

MOST_WORK = 1 << 27  # multiplications: a tenth of a second in NumPy
MOST_WORK_OF_PYTORCH = 1 << 34  # a second on a laptop
ELEMENT = 64  # cost of an element of another operator, in multiplications
PRODUCTS = ("mm", "linear", "conv", "attention", "einsum", "dot")
# Operators that change running statistics, which their schemas omit.
CHANGES_STATISTICS = ("batch_norm", "instance_norm")
# Operators that may choose any of several equal elements.
TIE_BREAKING = frozenset({"topk", "sort", "kthvalue", "median", "nanmedian", "mode"})


def check_program(graph: Any, program: Program, state: Mapping[str, np.ndarray]) -> None:
    """Compare a program with its graph in eager PyTorch, both run from the initial state.

    If the program takes too long, each kind of operator is compared once. If PyTorch itself takes
    too long, nothing is.

    Raises:
        UnsupportedOperator: names the first operator with another result.
    """
    work = sum(map(_work, graph.graph.nodes))
    values = _eager(graph) if work <= MOST_WORK_OF_PYTORCH else None
    if values is None:
        return
    if work > MOST_WORK:
        node = _find_wrong_node(_distinct_kinds(graph, values), values)
    elif _results_agree(graph, program, values, state):
        return
    else:
        if changed_in_place(graph.graph):
            graph = functionalize(graph, strict=True)
            values = _eager(graph) or {}
        node = _find_wrong_node(graph.graph.nodes, values)
    if node is not None:
        _refuse(node)


def _work(node: Any) -> int:
    """Return the cost of a node, in multiplications; products are counted from their operands."""
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
    """Return a dim's value in the export."""
    node = getattr(dim, "node", None)
    return int(dim) if node is None else int(getattr(node, "hint", None) or 1)


def _distinct_kinds(graph: Any, values: Mapping[Any, Any]) -> Iterator[Any]:
    """Yield one node of each operator, constants, and argument shapes and dtypes.

    Expensive nodes are skipped, and those that read a tensor changed later.
    """
    torch, changed = import_module("torch"), changed_in_place(graph.graph)
    touched = {*changed, *changed.values()}
    yielded: set[str] = set()
    for node in graph.graph.nodes:
        if node.op != "call_function" or touched & {node, *node.all_input_nodes}:
            continue

        def kind(argument: Any) -> Any:
            value = values[argument]
            return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else value

        text = str((node.target, torch.fx.map_arg((node.args, node.kwargs), kind)))
        if text not in yielded and _work(node) <= MOST_WORK:
            yielded.add(text)
            yield node


def check_written(graph: Any, program: Program) -> None:
    """Compare a program that PyTorch's exporter wrote; its values are named after nodes.

    It is run at other sizes too, since the exporter writes some sizes of the export as constants.
    """
    values, others = _eager(graph), _inputs_of_other_sizes(graph)
    if values is None:
        return
    _check_values(graph, program, values)
    values = None if others is None else _eager(graph, others)
    if values is not None and _fits(program, _example_inputs(graph, program, values)):
        _check_values(graph, program, values, " at other sizes than those of the export")


def _check_values(graph: Any, program: Program, values: Mapping[Any, Any], where: str = "") -> None:
    if _results_agree(graph, program, values):
        return
    for node in _find_different_node(graph, program, values):
        _refuse(node, where)
    raise UnsupportedOperator(
        f"PyTorch's exporter wrote an ONNX program with other results than PyTorch{where}",
        try_="torch.export.export of parts of the module, to locate the operator",
    )


def _inputs_of_other_sizes(graph: Any) -> list[Any] | None:
    """Return example inputs whose symbolic dims are larger by one, or smaller at their upper bound.

    None if no dim is symbolic.
    """
    if graph.example_inputs is None:
        return None
    torch = import_module("torch")
    leaves = import_module("torch.utils._pytree").tree_leaves(graph.example_inputs)
    fakes = {n.name: n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"}
    names = [str(name) for name in graph.graph_signature.user_inputs]
    dims = [
        (i, d, dim.node.expr, value.shape[d])
        for i, (name, value) in enumerate(zip(names, leaves, strict=True))
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
            indices = torch.arange(int(expr.subs(sizes))) % size
            leaves[i] = leaves[i].index_select(d, indices)
    return leaves if sizes else None


def _refuse(node: Any, where: str = "") -> None:
    raise UnsupportedOperator(
        f"{name_of(node.target)} at {node.name!r} computes another result here than in PyTorch"
        f"{where}",
        where=node.name,
        try_="other operators of PyTorch for it",
    )


# PyTorch.


def _eager(graph: Any, others: Sequence[Any] | None = None) -> Mapping[Any, Any] | None:
    """Run an exported program and return the value of each node.

    The inputs are those of the export unless `others` are passed. None if there are no inputs, if
    PyTorch cannot run it, or if it draws random numbers.
    """
    if graph.example_inputs is None or any(map(_is_random, graph.graph.nodes)):
        return None
    torch = import_module("torch")
    leaves = import_module("torch.utils._pytree").tree_leaves(graph.example_inputs)
    user_inputs = iter(leaves if others is None else others)
    specs = {s.arg.name: s for s in graph.graph_signature.input_specs}
    inputs = []
    changes = any(map(_may_change, graph.graph.nodes))
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            match spec.kind.name:
                case "USER_INPUT":
                    value = next(user_inputs)
                case "TOKEN":  # the order of effects: an empty tensor
                    value = torch.empty(0)
                case _:
                    value = _stored_tensor(graph, spec)
            own = changes and isinstance(value, torch.Tensor)
            inputs.append(value.detach().clone() if own else value)

    values: dict[Any, Any] = {}

    interpreter: Any = torch.fx.Interpreter

    class Recorded(interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            values[node] = result
            return result

    with torch.no_grad():
        try:
            Recorded(graph.graph_module, garbage_collect_values=False).run(*inputs)
        except Exception:  # PyTorch cannot run it, so there is no reference
            return None
    return values


def _may_change(node: Any) -> bool:
    """Return True if an operator may change its arguments; schemas omit this for batch norms."""
    schema = getattr(node.target, "_schema", None)
    return (
        node.op == "call_function"
        and node.target is not operator.getitem
        and (
            schema is None or schema.is_mutable or any(w in schema.name for w in CHANGES_STATISTICS)
        )
    )


def _stored_tensor(graph: Any, spec: Any) -> Any:
    """Return the tensor of a parameter, buffer or constant."""
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


def _results_agree(
    graph: Any,
    program: Program,
    values: Mapping[Any, Any],
    state: Mapping[str, np.ndarray] | None = None,
) -> bool:
    first = state or {}
    results = _run(program, {**_example_inputs(graph, program, values), **first})
    expected = list(_results(graph, values))
    return (
        results is not None
        and len(results) == len(expected) + len(first)
        and all(map(is_same, results.values(), expected))
    )


def _example_inputs(
    graph: Any, program: Program, values: Mapping[Any, Any]
) -> dict[str, np.ndarray]:
    """Return the example inputs by the names of the program's parameters."""
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
    """Return True if a program accepts inputs of these sizes."""
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


def is_same(actual: Any, expected: Any, sums: float = 0.0) -> bool:
    """Return True if two arrays differ by no more than rounding.

    `sums` bounds the magnitudes that are summed to each element and may cancel.
    """
    left, right = np.asarray(actual), np.asarray(expected)
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not is_float(right.dtype.name):
        return bool(np.array_equal(left, right))
    share = TOLERANCES.get(right.dtype.name, 1.0)
    a, b = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return False
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    largest = float(np.abs(b[finite]).max(initial=0.0))
    off = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return off <= max(share * max(largest, share), sums * float(ml_dtypes.finfo(right.dtype).eps))


# Locating the wrong operator.


def _find_wrong_node(nodes: Iterable[Any], values: Mapping[Any, Any]) -> Any:
    """Return the first node whose result differs from PyTorch's, run on PyTorch's arguments.

    None if every node agrees; then the difference stems from rounding, or from ties between equal
    elements.
    """
    for node in nodes:
        if node.op != "call_function" or not _tensors(values.get(node)):
            continue
        try:
            program, feeds = program_of_node(node, values)
        except IronworksError:
            continue
        results = None if program is None else _run(program, feeds)
        expected = _tensors(values[node])
        if any(word in TIE_BREAKING for word in name_of(node.target).split(".")):
            expected = expected[:1]
        if results is None:
            return node
        if _all_same(results.values(), expected):
            continue
        if not _all_same(results.values(), expected, _sum_bound(node, values, expected)):
            return node
    return None


def _all_same(actual: Iterable[Any], expected: Iterable[Any], sums: float = 0.0) -> bool:
    return all(is_same(f, w, sums) for f, w in zip(actual, expected))


def _sum_bound(node: Any, values: Mapping[Any, Any], expected: Sequence[np.ndarray]) -> float:
    """Return an upper bound of the magnitudes summed to an element of a node's results."""
    operands = [a for n in node.all_input_nodes for a in _tensors(values.get(n))]
    floats = [np.abs(a.astype(np.float64)) for a in operands if is_float(a.dtype.name) and a.size]
    results = max((w.size for w in expected), default=1) or 1
    return sum(float(np.nan_to_num(a, posinf=0).max()) * a.size / results for a in floats)


def _tensors(value: Any) -> list[np.ndarray]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [array_of(v) for v in items if hasattr(v, "dtype")]


def _find_different_node(graph: Any, program: Program, values: Mapping[Any, Any]) -> Sequence[Any]:
    """Return the first node whose value differs from the program's value of the same name."""
    nodes = {n.name: n for n in graph.graph.nodes if n.op == "call_function"}
    named: list[Var] = [v for b in program.main.body for v in b.vars if v.name in nodes]
    if not named:
        return []
    main = replace(program.main, outputs=tuple(named), output_names=tuple(v.name for v in named))
    computed = _run(program.with_function(main), _example_inputs(graph, program, values)) or {}
    for name, value in computed.items():
        expected = _tensors(values.get(nodes[name]))
        if len(expected) == 1 and not is_same(value, expected[0]):
            return [nodes[name]]
    return []
