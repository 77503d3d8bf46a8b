"""scan: a loop over rows of arrays that stacks its results; outside of a trace, Python's `for`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.errors import ShapeError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.bodies import Body
from explorer.frontends.tracing.control.loops import check_nesting, emit_loop, trace_loop_body
from explorer.frontends.tracing.dims import plain_dim
from explorer.frontends.tracing.emit import emit_shape
from explorer.frontends.tracing.frames import attributed_to_call, current_frame, is_tracing
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.structure import Structure, flatten, rebuild
from explorer.ir.shapes.dims import Dim, symbols_of
from explorer.ir.types import Tensor

Run = Callable[..., Any]


def scan(body: Run, init: Any, xs: Any = None, length: Any = None) -> Any:
    """Run `carry, y = body(carry, x)` for each row x of `xs`; return the last carry and all ys.

    The ys are stacked. `xs` is an array, or a tuple or a dict of arrays of equal length; without it
    `length` is the trip count. The carry keeps its dtypes and shapes.
    """
    if not is_tracing():
        return _eager_scan(body, init, xs, length)
    with attributed_to_call("scan"):
        return _scan(body, init, xs, length)


def _eager_scan(body: Run, carry: Any, xs: Any, length: int | None) -> Any:
    leaves, nesting = flatten(xs)
    rows = [np.asarray(leaf) for leaf in leaves]
    count = len(rows[0]) if rows else int(length or 0)
    if any(len(r) != count for r in rows):
        raise ShapeError(f"{calling_line()}: scan over arrays of {[len(r) for r in rows]} rows")
    outputs: list[list[Any]] = []
    for i in range(count):
        carry, y = body(carry, rebuild(nesting, [r[i] for r in rows]))
        values, nested = flatten(y)
        outputs.append(values)
    if not count:  # run on a row of zeros to determine the shapes
        _, y = body(carry, rebuild(nesting, [np.zeros(r.shape[1:], r.dtype) for r in rows]))
        values, nested = flatten(y)
        none = [np.zeros((0, *np.shape(v)), np.asarray(v).dtype) for v in values]
        return carry, rebuild(nested, none)
    return carry, rebuild(nested, [np.stack(column) for column in zip(*outputs, strict=True)])


def _scan(body: Run, init: Any, xs: Any, length: Any) -> Any:
    (start, nesting), (leaves, rows_nesting) = flatten(init), flatten(xs)
    rows = [traced(leaf) for leaf in leaves]
    count = _length(rows, length)
    nested: list[Structure] = []

    def step(at: TracedArray, going: TracedArray, *values: TracedArray) -> Any:
        carry, y = body(rebuild(nesting, values), rebuild(rows_nesting, [r[at] for r in rows]))
        after, nesting_after = flatten(carry)
        check_nesting("scan", nesting_after, nesting)
        stacked, shape = flatten(y)
        nested[:] = [shape]
        return [going, *after, *stacked]

    state, done = trace_loop_body(step, [traced(leaf) for leaf in start])
    stacked = [_stacked(y, count, done) for y in done.results[1 + len(state) :]]
    trip = emit_shape((count,), scalar=True)
    results = emit_loop(done, trip, None, state, len(stacked), stacked)
    return rebuild(nesting, results[: len(state)]), rebuild(nested[0], results[len(state) :])


def _length(rows: list[TracedArray], length: Any) -> Dim:
    env = current_frame().recorder.env
    extents = [r.type.dims[0] for r in rows if r.ndim]
    if not rows and length is not None:
        dim = plain_dim(length)
        if dim is not None:
            return dim
    if len(extents) < len(rows) or not rows or not all(env.equal(extents[0], e) for e in extents):
        operands = " and ".join(str(r.type) for r in rows) or "nothing"
        raise ShapeError(
            f"{calling_line()}: scan iterates over the rows of arrays of equal length, not over "
            f"{operands}",
            where=calling_line(),
        )
    return extents[0]


def _stacked(y: TracedArray, count: Dim, body: Body) -> Tensor:
    inner = {s for d in y.type.dims for s in symbols_of(d)} & body.frame.defined
    if inner:
        raise ShapeError(
            f"{calling_line()}: each step returns {y.type}, whose {', '.join(sorted(inner))} may "
            "differ from step to step, so that they do not stack",
            where=calling_line(),
        )
    return Tensor((count, *y.type.dims), y.type.element)
