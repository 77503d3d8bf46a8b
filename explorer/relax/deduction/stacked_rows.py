"""Rows that a loop stacks: as many as its trips, if the trip count is known before it.

    last, y = loop body(x) times n stacking 1   # n: an input
    ->  y.limit = Relu(n); y.trips: shape[y_trips] = match y.limit; y.count = dim_of(y_trips)
        last, y: float32[y_trips, 3] = loop body(x) times y.count stacking 1

If its data may end the loop, its rows are padded: memory for the most rows, then trimmed.

    s, y = loop body(x) times 9 while c stacking 1
    ->  s, y.at, y.rows: float32[9, 3] = loop body.counted(x, -1) times 9 while c stacking 1 padded
        y.count = Add(y.at, 1); y = Slice(y.rows, 0, y.count)

`body.counted` also returns its iteration, so `y.at` is the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from explorer.ir.calls import Loop, MatchCast, OpCall, ShapeOf, Var
from explorer.ir.dims import Dim, symbols_of
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.types import ITEM_BYTES, Object, ShapeType, Tensor
from explorer.relax.deduction.knowledge import DeducedValue, Deducing, Knowledge

COUNT = Tensor((), "int64")


MOST_BYTES = 64 << 20  # of padded rows, as far as their extents are numbers; chosen


def stack_rows(
    deduction: Deducing, loop: Loop, body: Function, knowledge: Knowledge, binding: Binding
) -> tuple[list[Binding], Loop, tuple[DeducedValue, ...]]:
    """Return the bindings before a loop, the loop, and its stacked results.

    `body` is annotated.
    """
    rows = body.outputs[1 + len(loop.state) :]
    before: list[Binding] = []
    trips: Dim | None = None
    if loop.padded or (rows and _is_true(loop.cond, knowledge) and _continues(body, knowledge)):
        trips = limit_of(deduction, loop, knowledge)
        stackable = all(_dims(deduction, row) is not None for row in rows)
        if trips is None and stackable and loop.trip is not None and _is_count(loop.trip):
            before, loop, trips = _with_count(deduction, loop, loop.trip, binding)
    return before, loop, tuple(_stacked(deduction, row, trips) for row in rows)


def _with_count(
    deduction: Deducing, loop: Loop, limit: Var, binding: Binding
) -> tuple[list[Binding], Loop, Dim]:
    """Return the loop behind a match_cast that names its limit; a negative limit is 0."""
    name, origin = binding.vars[len(loop.state)].name, binding.origin
    trips = deduction.symbols.fresh(f"{name}_trips")
    positive, count = Var(f"{name}.limit", limit.type), Var(f"{name}.count", COUNT)
    dims = Var(f"{name}.trips", ShapeType((trips,)))
    before = [
        Binding((positive,), OpCall("Relu", (limit,)), origin),
        Binding((dims,), MatchCast(positive), origin),
        Binding((count,), ShapeOf((trips,), 0), origin),
    ]
    deduction.scope.update(symbols_of(trips))
    return before, replace(loop, trip=count), trips


def _is_count(limit: Var) -> bool:
    """Return True if a value is one int64 number."""
    kind = limit.type
    return (
        isinstance(kind, Tensor) and kind.is_known and (kind.dtype, kind.elements) == ("int64", 1)
    )


def limit_of(deduction: Deducing, loop: Loop, knowledge: Knowledge) -> Dim | None:
    """Return the limit of a loop if it is a number, or made of extents."""
    limit = knowledge.values(loop.trip)
    if limit is None:
        return None
    trips: Dim = limit.reshape(-1)[0]
    if isinstance(trips, (int, np.integer)):
        return max(0, int(trips))
    is_count = (
        are_symbols_in_scope(trips, deduction) and deduction.symbols.env.bounds(trips)[0] >= 0
    )
    return trips if is_count else None


def _is_true(flag: Var | None, knowledge: Knowledge) -> bool:
    """Return True if a condition is omitted, or known to hold."""
    if flag is None:
        return True
    values = knowledge.values(flag)
    return values is not None and values.size == 1 and values.reshape(-1)[0] in (True, 1)


def _continues(body: Function, knowledge: Knowledge) -> bool:
    """Return True if a body returns the condition that it gets, or true."""
    producers = {v.name: b.expr for b in body.body for v in b.vars}
    flag = body.outputs[0]
    while isinstance(expr := producers.get(flag.name), OpCall) and expr.op == "Identity":
        (flag,) = (a for a in expr.args if a is not None)
    constant = knowledge.constants.get(flag.name)
    if constant is not None:
        return constant.size == 1 and bool(constant.array.item())
    return flag.name == body.params[1].name


def _dims(deduction: Deducing, row: Var) -> tuple[Dim, ...] | None:
    """Return the extents of a row if all are known outside of the loop."""
    kind = row.type
    if not isinstance(kind, Tensor) or kind.shape is None:
        return None
    return kind.shape if all(are_symbols_in_scope(d, deduction) for d in kind.shape) else None


def _stacked(deduction: Deducing, row: Var, trips: Dim | None) -> DeducedValue:
    """Return the rows of all iterations; their number is open if `trips` is None."""
    kind = row.type
    if not isinstance(kind, Tensor):
        return DeducedValue(Object())
    if kind.shape is None:
        return DeducedValue(Tensor(None, kind.dtype, None if kind.rank is None else kind.rank + 1))
    dims = tuple(d if are_symbols_in_scope(d, deduction) else None for d in kind.shape)
    if trips is not None and all(d is not None for d in dims):
        return DeducedValue(Tensor((trips, *kind.shape), kind.dtype))
    return DeducedValue(Tensor(None, kind.dtype, 1 + len(dims)), None, (trips, *dims))


def are_symbols_in_scope(dim: Dim, deduction: Deducing) -> bool:
    """Return True if every symbol of a dim is in scope."""
    return isinstance(dim, int) or {s.name for s in dim.free_symbols} <= deduction.scope


def pad_rows(
    deduction: Deducing, binding: Binding, values: Sequence[DeducedValue], knowledge: Knowledge
) -> list[Binding] | None:
    """Return the loop with padded rows, and their slices.

    Return None if it needs no padding or has no bound. Only extents and numbers bound it, because
    an input may be any number.
    """
    loop = binding.expr
    if not isinstance(loop, Loop) or loop.padded or not loop.scans:
        return None
    trips, count = limit_of(deduction, loop, knowledge), len(loop.state)
    if trips is None or not all(_needs_padding(deduction, f, trips) for f in values[count:]):
        return None
    body = deduction.source_functions[loop.body]
    counted = _with_last_iteration(body, count)
    deduction.source_functions[counted.name] = counted
    deduction.functions.pop(body.name, None)
    name = binding.vars[count].name
    numbers = {"none": -1, "one": 1, "begin": [0], "end": [1]}
    constants = {n: _constant(deduction, f"{name}.{n}", v) for n, v in numbers.items()}
    last = Var(f"{name}.at", Tensor())
    rows = tuple(Var(f"{v.name}.rows", Tensor()) for v in binding.vars[count:])
    state = (*loop.state, constants["none"])
    padded = replace(loop, body=counted.name, state=state, padded=True)
    out = [Binding((*binding.vars[:count], last, *rows), padded, binding.origin)]
    above, until = Var(f"{name}.count", Tensor()), Var(f"{name}.until", Tensor())
    out += [
        Binding((above,), OpCall("Add", (last, constants["one"])), binding.origin),
        Binding((until,), OpCall("Reshape", (above, constants["end"])), binding.origin),
    ]
    cut = constants["begin"], until, constants["begin"]
    for var, row in zip(binding.vars[count:], rows, strict=True):
        out.append(Binding((var,), OpCall("Slice", (row, *cut)), binding.origin))
    return out


def _needs_padding(deduction: Deducing, value: DeducedValue, trips: Dim) -> bool:
    """Return True if only the number of rows is unknown, and the padded rows are small enough."""
    kind, dims = value.type, value.dims
    if dims is None or not isinstance(kind, Tensor) or kind.dtype not in ITEM_BYTES:
        return False
    known_dims = [d for d in dims[1:] if d is not None and are_symbols_in_scope(d, deduction)]
    if dims[0] is not None or len(known_dims) < len(dims) - 1:
        return False
    extents = [max(1, d) for d in (trips, *known_dims) if isinstance(d, int)]
    return ITEM_BYTES[kind.dtype] * prod(extents) <= MOST_BYTES


def _with_last_iteration(body: Function, states: int) -> Function:
    """Add a state to the body: the number of the last iteration."""
    last = Var(f"{body.name}.last", Tensor((), "int64"))
    params = (*body.params[: 2 + states], last, *body.params[2 + states :])
    outputs = (*body.outputs[: 1 + states], body.params[0], *body.outputs[1 + states :])
    return replace(body, name=f"{body.name}.counted", params=params, outputs=outputs)


def _constant(deduction: Deducing, name: str, value: object) -> Var:
    constant = Constant(np.array(value, np.int64))
    deduction.constants[name] = constant
    return Var(name, constant.type)
