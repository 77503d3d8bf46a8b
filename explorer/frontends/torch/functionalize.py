"""Functionalization of exported programs, and the operators that have a translation.

A program is functionalized by PyTorch: its in-place operators become functional ones, and operators
without a translation are decomposed. PyTorch's loops and branches are translated too: their graphs
become functions of the program.

%cond = higher_order.cond(%gt, true_graph_0, false_graph_0, [%x])
→   cond = if gt: then(x) else: else(x)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from explorer.errors import UnsupportedOperator
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.control_flow import cond, scan, while_loop
from explorer.frontends.python.tracing.emit import converted, traced
from explorer.frontends.torch.bessel import BESSEL
from explorer.frontends.torch.elementwise import ELEMENTWISE
from explorer.frontends.torch.graphs import check_states, first_line, prepare_bodies
from explorer.frontends.torch.indexing import INDEXING
from explorer.frontends.torch.linalg import LINALG
from explorer.frontends.torch.networks import NETWORKS
from explorer.frontends.torch.reductions import REDUCTIONS
from explorer.frontends.torch.shaping import SHAPING
from explorer.frontends.torch.special import POLYNOMIALS, SPECIAL
from explorer.frontends.torch.windows import WINDOWS

OPERATORS: Mapping[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **SHAPING,
    **REDUCTIONS,
    **INDEXING,
    **NETWORKS,
    **WINDOWS,
    **SPECIAL,
    **BESSEL,
    **POLYNOMIALS,
    **LINALG,
}
NO_RESULT = frozenset(  # operators that compute nothing
    {
        *("_assert_async", "_assert_scalar", "_assert_tensor_metadata"),
        *("sym_constrain_range", "sym_constrain_range_for_size", "_functional_assert_async"),
        *("_functional_assert_scalar", "_print", "_linalg_check_errors"),
    }
)
SIZES = frozenset({"sym_size", "sym_numel", "item", "_local_scalar_dense"})
ATEN_NAMES = {  # operators outside of ATen, and their names here
    "transformers::grouped_mm_fallback": "aten::_grouped_mm",
    "torch_nn::_linear_cross_entropy_batch_chunked": "aten::linear_cross_entropy",
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction": "aten::linear_cross_entropies",
}
UNCHANGING = frozenset({"detach_"})  # in-place operators that change no element
# Argument indices of the running mean, and of the flag with which it is changed.
STATISTICS = {"batch_norm": (3, 5), "instance_norm": (3, 5)}
SCALARS: Mapping[Any, Callable[..., Any]] = {  # functions of Python numbers
    **{
        f: f
        for f in (
            *(operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod),
            *(operator.truediv, operator.pow, operator.neg, operator.eq, operator.ne),
            *(operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_),
        )
    },
    operator.not_: lambda a: not a,
    math.trunc: lambda a: a,
}


def functionalize(program: Any, *, strict: bool = False) -> Any:
    """Return the program without in-place operators, decomposed to known operators where possible.

    In-place changes of tensors without views stay, unless `strict`.

    Raises:
        UnsupportedOperator: PyTorch cannot decompose the program.
    """
    graphs = [g.graph for g in graphs_in(program.graph_module)]
    changed = {} if strict else changed_in_graphs(graphs)
    nodes = [n for graph in graphs for n in graph.nodes]
    for node in nodes:
        check_states(node)
    if all(_is_plain(node) or node in changed for node in nodes):
        return program
    torch = import_module("torch")
    program = prepare_bodies(program)
    table = import_module("torch.export").default_decompositions()
    more = import_module("torch._decomp").decomposition_table
    unknown = {n.target for n in nodes if n.op == "call_function"}
    for target in unknown:
        if target in more and target not in table and find_translation(target) is None:
            table[target] = more[target]
    for target in list(table):
        if find_translation(target) is not None and not _must_decompose(target):
            del table[target]
    try:
        with torch.no_grad():
            return program.run_decompositions(table)
    except Exception as error:  # decompositions raise exceptions of any type
        raise UnsupportedOperator(
            f"PyTorch cannot decompose this program: {first_line(error)}"
        ) from error


def changed_in_place(graph: Any) -> dict[Any, Any]:
    """Return nodes that change a tensor without views, mapped to the node that made the tensor.

    y = x.exp(); y.add_(1); z = y * 2   →   {add_: y}
    """
    origins: dict[Any, Any] = {}
    for node in graph.nodes:
        if in_place_translation(node) is not None:
            origins[node] = origins.get(node.args[0], node.args[0])
    refused = {origins.get(v, v) for n in graph.nodes for v in _aliased_arguments(n)}
    refused |= {v for v in origins.values() if not _is_allocation(v)}
    return {n: v for n, v in origins.items() if v not in refused}


def changed_in_graphs(graphs: Iterable[Any]) -> dict[Any, Any]:
    """Return `changed_in_place` of several graphs."""
    return {node: origin for graph in graphs for node, origin in changed_in_place(graph).items()}


def in_place_translation(node: Any) -> Callable[..., Any] | None:
    """Return the translation of an operator that only changes its first argument.

    It is `add` for `add_`.
    """
    name, overload = name_and_overload(node.target)
    if node.op != "call_function" or not name.endswith("_") or name.endswith("__"):
        return None
    if name in UNCHANGING:
        return None
    changes = [a for a in node.target._schema.arguments if a.alias_info and a.alias_info.is_write]
    if len(changes) != 1 or changes[0] != node.target._schema.arguments[0]:
        return None
    return OPERATORS.get(f"{name[:-1]}.{overload}") or OPERATORS.get(name[:-1])


def _aliased_arguments(node: Any) -> list[Any]:
    """Return the arguments of a node that its results alias, or that it changes in another way."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        reads = node.op != "call_function" or node.target is operator.getitem
        return [] if reads else list(node.all_input_nodes)
    named = [(a, node.args[i]) for i, a in enumerate(schema.arguments) if i < len(node.args)]
    named += [(a, node.kwargs[a.name]) for a in schema.arguments if a.name in node.kwargs]
    aliased = [v for a, v in named if a.alias_info is not None]
    if in_place_translation(node) is not None:
        aliased = aliased[1:]
    return [v for value in aliased for v in _nodes(value)]


def _nodes(value: Any) -> list[Any]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in items if hasattr(v, "users")]


def _is_allocation(node: Any) -> bool:
    """Return True for a tensor that its operator allocates, not a view."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not any(r.alias_info for r in schema.returns)


def _must_decompose(target: Any) -> bool:
    """Return True for a known operator that PyTorch must decompose to expose what it changes."""
    return name_and_overload(target)[0] in STATISTICS


def _is_plain(node: Any) -> bool:
    if node.op != "call_function":
        return node.op in ("placeholder", "output", "get_attr")
    if find_control_translation(node.target) is not None:
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.target in SCALARS or node.target is operator.getitem
    name, _ = name_and_overload(node.target)
    if name in STATISTICS and any(node.args[i] for i in STATISTICS[name][1:]):
        return False
    is_supported = find_translation(node.target) is not None or name in NO_RESULT or name in SIZES
    return is_supported and (name in UNCHANGING or not schema.is_mutable)


# Translations.


def find_translation(target: Any) -> Callable[..., Any] | None:
    """Return the translation of an overload, or None."""
    name, overload = name_and_overload(target)
    return OPERATORS.get(f"{name}.{overload}") or OPERATORS.get(name)


def find_control_translation(target: Any) -> Callable[..., Any] | None:
    """Return the translation of a PyTorch loop or branch; None for other operators."""
    is_control = type(target).__module__.startswith("torch._higher_order_ops")
    return CONTROL_FLOW.get(getattr(target, "_name", "")) if is_control else None


def name_and_overload(target: Any) -> tuple[str, str]:
    """Split `aten::add.Tensor` into `add` and `Tensor`; empty strings for other namespaces."""
    full = str(getattr(target, "name", lambda: "")())
    space, _, qualified = ATEN_NAMES.get(full, full).partition("::")
    name, _, overload = qualified.partition(".")
    return (name, overload or "default") if space == "aten" else ("", "")


# Loops and branches.


RunGraph = Callable[[Any, Sequence[Any]], list[Any]]  # of a graph and its arguments


def graphs_in(module: Any) -> Iterator[Any]:
    """Yield a graph, and those of the loops and branches in it."""
    yield module
    for node in module.graph.nodes:
        if node.op == "get_attr" and hasattr(graph := getattr(module, node.target), "graph"):
            yield from graphs_in(graph)


def _write_cond(run: RunGraph, pred: Any, then: Any, orelse: Any, args: Sequence[Any]) -> Any:
    """Emit `then(*args)` or `orelse(*args)`."""
    return cond(pred, lambda *v: run(then, v), lambda *v: run(orelse, v), *args)


def _write_while(
    run: RunGraph, going: Any, body: Any, state: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """Emit `while going(*state, *more): state = body(*state, *more)`."""
    begin = [_number(v) for v in state]

    def step(*values: Any) -> Any:
        results = [_number(v) for v in run(body, [*values, *more])]
        return results if len(results) > 1 else results[0]

    results = while_loop(lambda *v: run(going, [*v, *more])[0], step, *begin)
    return list(results) if len(begin) > 1 else [results]


def _write_scan(
    run: RunGraph, body: Any, state: Sequence[Any], rows: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """Emit a scan of `body(*state, *row, *more)`; return the last state and stacked results."""

    def step(before: Any, row: Any) -> Any:
        values = run(body, [*before, *row, *more])
        return [_number(v) for v in values[: len(state)]], values[len(state) :]

    last, stacked = scan(step, [_number(v) for v in state], list(rows))
    return [*last, *stacked]


def _write_map(run: RunGraph, body: Any, rows: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Emit `body(*row, *more)` for each row; return the stacked results."""
    return _write_scan(run, body, [], rows, more)


def _number(value: Any) -> TracedArray:
    """Return a value of a loop's state; a Python integer becomes an int64."""
    array = traced(value)
    return converted(array, "int64") if array.weak and array.dtype.kind in "iu" else array


CONTROL_FLOW: dict[str, Callable[..., Any]] = {
    "cond": _write_cond,
    "while_loop": _write_while,
    "scan": _write_scan,
    "map_impl": _write_map,
}
