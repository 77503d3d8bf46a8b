"""Padded rows of a loop that its data may end: memory for the most rows, then trimmed.

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

from explorer.ir.calls import Loop, OpCall, Var
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.relax.deduction.deducing import Deducing
from explorer.relax.deduction.knowledge import Knowledge
from explorer.relax.deduction.stacked_rows import are_symbols_in_scope, limit_of
from explorer.relax.deduction.symbols import DeducedValue

MOST_BYTES = 64 << 20  # of padded rows, as far as their extents are numbers; chosen


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
    counted = _counted(body, count)
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


def _counted(body: Function, states: int) -> Function:
    """Add a state to the body: the number of the last iteration."""
    last = Var(f"{body.name}.last", Tensor((), "int64"))
    params = (*body.params[: 2 + states], last, *body.params[2 + states :])
    outputs = (*body.outputs[: 1 + states], body.params[0], *body.outputs[1 + states :])
    return replace(body, name=f"{body.name}.counted", params=params, outputs=outputs)


def _constant(deduction: Deducing, name: str, value: object) -> Var:
    constant = Constant(np.array(value, np.int64))
    deduction.constants[name] = constant
    return Var(name, constant.type)
