"""Loops and branches of PyTorch's: their graphs become functions of the program.

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
    """A graph, and those of the loops and branches in it."""
    yield module
    for node in module.graph.nodes:
        if node.op == "get_attr" and hasattr(found := getattr(module, node.target), "graph"):
            yield from graphs_in(found)


def write_cond(run: RunGraph, pred: Any, then: Any, orelse: Any, given: Sequence[Any]) -> Any:
    """`then(*given)` or `orelse(*given)`."""
    return cond(pred, lambda *v: run(then, v), lambda *v: run(orelse, v), *given)


def write_while(
    run: RunGraph, going: Any, body: Any, state: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """`while going(*state, *more): state = body(*state, *more)`."""
    begin = [_number(v) for v in state]

    def step(*values: Any) -> Any:
        found = [_number(v) for v in run(body, [*values, *more])]
        return found if len(found) > 1 else found[0]

    found = while_loop(lambda *v: run(going, [*v, *more])[0], step, *begin)
    return list(found) if len(begin) > 1 else [found]


def write_scan(
    run: RunGraph, body: Any, state: Sequence[Any], rows: Sequence[Any], more: Sequence[Any] = ()
) -> Any:
    """The last state, then what `body(*state, *row, *more)` gives besides, stacked."""

    def step(before: Any, row: Any) -> Any:
        found = run(body, [*before, *row, *more])
        return [_number(v) for v in found[: len(state)]], found[len(state) :]

    last, stacked = scan(step, [_number(v) for v in state], list(rows))
    return [*last, *stacked]


def write_map(run: RunGraph, body: Any, rows: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """What `body(*row, *more)` gives, stacked."""
    return write_scan(run, body, [], rows, more)


def _number(value: Any) -> TracedArray:
    """A value of a loop's state; a number of Python's is an int64."""
    found = traced(value)
    return converted(found, "int64") if found.weak and found.dtype.kind in "iu" else found


CONTROL_FLOW: dict[str, Callable[..., Any]] = {
    "cond": write_cond,
    "while_loop": write_while,
    "scan": write_scan,
    "map_impl": write_map,
}
