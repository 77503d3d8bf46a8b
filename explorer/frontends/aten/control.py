"""PyTorch's loops and branches: their graphs become functions of the program.

%cond = higher_order.cond(%gt, true_graph_0, false_graph_0, [%x])
→   cond = if gt: then(x) else: else(x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.branches import cond
from explorer.frontends.tracing.control.loops import while_loop
from explorer.frontends.tracing.control.scans import scan
from explorer.frontends.tracing.promote import converted, traced

RunGraph = Callable[[Any, Sequence[Any]], list[Any]]  # of a graph and its arguments


def graphs_in(module: Any) -> Iterator[Any]:
    """Yield a graph, and those of the loops and branches in it."""
    yield module
    for node in module.graph.nodes:
        if node.op == "get_attr" and hasattr(graph := getattr(module, node.target), "graph"):
            yield from graphs_in(graph)


def write_cond(run: RunGraph, pred: Any, then: Any, orelse: Any, args: Sequence[Any]) -> Any:
    """Emit `then(*args)` or `orelse(*args)`."""
    return cond(pred, lambda *v: run(then, v), lambda *v: run(orelse, v), *args)


def write_while(
    run: RunGraph, going: Any, body: Any, state: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """Emit `while going(*state, *more): state = body(*state, *more)`."""
    begin = [_number(v) for v in state]

    def step(*values: Any) -> Any:
        results = [_number(v) for v in run(body, [*values, *more])]
        return results if len(results) > 1 else results[0]

    results = while_loop(lambda *v: run(going, [*v, *more])[0], step, *begin)
    return list(results) if len(begin) > 1 else [results]


def write_scan(
    run: RunGraph, body: Any, state: Sequence[Any], rows: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """Emit a scan of `body(*state, *row, *more)`; return the last state and stacked results."""

    def step(before: Any, row: Any) -> Any:
        values = run(body, [*before, *row, *more])
        return [_number(v) for v in values[: len(state)]], values[len(state) :]

    last, stacked = scan(step, [_number(v) for v in state], list(rows))
    return [*last, *stacked]


def write_map(run: RunGraph, body: Any, rows: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Emit `body(*row, *more)` for each row; return the stacked results."""
    return write_scan(run, body, [], rows, more)


def _number(value: Any) -> TracedArray:
    """Return a value of a loop's state; a Python integer becomes an int64."""
    array = traced(value)
    return converted(array, "int64") if array.weak and array.dtype.kind in "iu" else array


CONTROL_FLOW: dict[str, Callable[..., Any]] = {
    "cond": write_cond,
    "while_loop": write_while,
    "scan": write_scan,
    "map_impl": write_map,
}
