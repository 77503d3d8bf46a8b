"""Values that a loop stacks for the loop that reverses it.

    h, y = loop body(h, x[t]) times n   ->   h, y, hs, ps = loop body.kept(h, x[t]) times n
    p = h @ w + x[t] in the body             hs: each h before its trip; ps: each p

These are the states at the start of each trip, and the products of each trip: loading a product
takes less time than multiplying again. All other values are recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.autodiff.differentiating import AutodiffContext, Differentiating, is_active_type
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import KernelCall, Loop, MatchCast, OpCall, Var
from explorer.ir.kernel import Apply, Compute, Read
from explorer.ir.patterns.contraction import contraction
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import Dim
from explorer.ir.symbols import defined_by
from explorer.ir.types import Tensor
from explorer.passes.recurrent.row_products import COUNTERS, trips_of
from explorer.passes.simplify.dead_code import uses


@dataclass(frozen=True, slots=True)
class Stacked:
    """A loop that stacks values, with its bindings.

    `rows` are the stacked states at the start of each trip, then the stacked products. `own` is the
    number of results that the loop had before.
    """

    bindings: tuple[Binding, ...]
    loop: Loop
    rows: tuple[Var, ...]
    own: int


def stack_for_reverse(reverse: Differentiating, binding: Binding, loop: Loop) -> Stacked:
    """Return the loop that also stacks the states at the start of its trips, and its products.

    The new rows follow those that the loop stacks already.
    """
    context = reverse.context
    body = context.copy(context.functions[loop.body])
    state = body.params[COUNTERS : COUNTERS + len(loop.state)]
    for before, param in zip(loop.state, state, strict=True):
        if before.type != param.type:
            reverse.refuse(f"changes the shape of {param.name} from iteration to iteration")
    forward = replace(reverse.function, body=tuple(reverse.forward))
    trips = trips_of(loop, forward, body, context.program)
    saved = (*state, *_products(body, context))
    copies = tuple(
        Binding(
            (Var(context.name(f"{v.name}.kept"), v.type),),
            OpCall("Identity", (v,)),
            binding.origin,
        )
        for v in saved
    )
    began, products = copies[: len(state)], copies[len(state) :]
    outputs = (*body.outputs, *(b.var for b in copies))
    name = context.add(f"{body.name}.kept", body.params, (*began, *body.body, *products), outputs)
    count: Dim = context.symbol(f"{binding.name}_trips") if trips is None else trips
    types = [Tensor((count, *v.tensor.dims), v.tensor.element) for v in saved]
    rows = tuple(Var(context.name(f"{v.name}.rows"), t) for v, t in zip(saved, types, strict=True))
    row_types = tuple(Tensor((0, *v.tensor.dims), v.tensor.element) for v in saved if loop.rows)
    stacking_loop = replace(
        loop, body=name, scans=loop.scans + len(saved), rows=(*loop.rows, *row_types)
    )
    if trips is not None:
        loop_binding = Binding((*binding.vars, *rows), stacking_loop, binding.origin)
        return Stacked((loop_binding,), stacking_loop, rows, len(binding.vars))
    raw = [
        Var(context.name(f"{r.name}.found"), Tensor(None, r.tensor.element, r.tensor.rank))
        for r in rows
    ]
    casts = [Binding((r,), MatchCast(f), binding.origin) for r, f in zip(rows, raw, strict=True)]
    loop_binding = Binding((*binding.vars, *raw), stacking_loop, binding.origin)
    return Stacked((loop_binding, *casts), stacking_loop, rows, len(binding.vars))


def drop_rows(stacked: Stacked, unread: Sequence[int], context: AutodiffContext) -> Stacked:
    """Drop some stacked rows, by their numbers.

    If only a run knows the trip count, one row stays, from whose shape it is read.
    """
    loop_binding, *casts = stacked.bindings
    unread = unread[1:] if casts and len(unread) == len(casts) else unread
    loop, dropped = stacked.loop, {stacked.own + n for n in unread}
    function = context.functions[loop.body]
    first = len(function.outputs) - len(
        loop_binding.vars
    )  # outputs that are no results: it goes on
    outputs = tuple(v for n, v in enumerate(function.outputs) if n - first not in dropped)
    context.functions[loop.body] = replace(function, outputs=outputs)
    vars = tuple(v for n, v in enumerate(loop_binding.vars) if n not in dropped)
    rows = tuple(
        t for n, t in enumerate(loop.rows) if n + len(loop_binding.vars) - loop.scans not in dropped
    )
    smaller_loop = replace(loop, scans=loop.scans - len(dropped), rows=rows)
    remaining_rows = tuple(r for n, r in enumerate(stacked.rows) if n not in unread)
    remaining_casts = (b for n, b in enumerate(casts) if n not in unread)
    return Stacked(
        (Binding(vars, smaller_loop, loop_binding.origin), *remaining_casts),
        smaller_loop,
        remaining_rows,
        stacked.own,
    )


def _products(body: Function, context: AutodiffContext) -> list[Var]:
    """Return the contractions that a body binds.

    A sum that is the only reader of a contraction stands for it.
    """
    inside = frozenset[str]().union(*(defined_by(b) for b in body.body))
    readers, outputs = uses(body), {v.name for v in body.outputs}
    products: dict[str, Var] = {}
    for b in body.body:
        contracted = _single_compute(b, context)
        if contracted is None or contraction(contracted) is None or symbols_in(b.var.type) & inside:
            continue
        value = b.var
        while value.name not in outputs and len(readers.get(value.name, ())) == 1:
            reader = readers[value.name][0]
            added = _single_compute(reader, context)
            same = added is not None and reader.var.type == value.type
            if not (same and added is not None and _is_sum(added)):
                break
            value = reader.var
        products.setdefault(value.name, value)
    return list(products.values())


def _single_compute(binding: Binding, context: AutodiffContext) -> Compute | None:
    """Return the single float compute that an operator lowers to, if it is one."""
    if not isinstance(binding.expr, OpCall) or not is_active_type(binding.vars[0]):
        return None
    lowered = context.lower(binding)
    if len(lowered) != 1 or not isinstance(lowered[0].expr, KernelCall):
        return None
    computes = lowered[0].kernel_call.kernel.computes
    return computes[0] if len(computes) == 1 else None


def _is_sum(c: Compute) -> bool:
    """Return True if it adds two values elementwise: its derivative needs neither."""
    match c.expr:
        case Apply("add" | "sub", (Read(), Read())):
            return not c.reduce
    return False
