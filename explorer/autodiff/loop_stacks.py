"""What a loop stacks for the loop that reverses it.

h, y = loop body(h, x[t]) times n   ->   h, y, hs, ps = loop body.kept(h, x[t]) times n
p = h @ w + x[t] in the body             hs: each h before its trip; ps: each p

The states that trips began with, and the products of a trip: reading one again takes less than
multiplying again. All else is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.autodiff.differentiating import Differentiating, Surroundings, is_active_type
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
    """A loop that stacks, in its bindings; what each trip began with and its products stand as
    `rows`. `own`: how many results the loop had before.
    """

    bindings: tuple[Binding, ...]
    loop: Loop
    rows: tuple[Var, ...]
    own: int


def stacking(reverse: Differentiating, binding: Binding, loop: Loop) -> Stacked:
    """The loop, stacking the states that its trips begin with and their products behind what it
    stacks already.
    """
    around = reverse.around
    body = around.copy(around.functions[loop.body])
    state = body.params[COUNTERS : COUNTERS + len(loop.state)]
    for before, param in zip(loop.state, state, strict=True):
        if before.type != param.type:
            reverse.refuse(f"changes the shape of {param.name} from iteration to iteration")
    forward = replace(reverse.function, body=tuple(reverse.forward))
    trips = trips_of(loop, forward, body, around.program)
    kept = (*state, *_products(body, around))
    copies = tuple(
        Binding(
            (Var(around.name(f"{v.name}.kept"), v.type),),
            OpCall("Identity", (v,)),
            binding.origin,
        )
        for v in kept
    )
    began, products = copies[: len(state)], copies[len(state) :]
    outputs = (*body.outputs, *(b.var for b in copies))
    name = around.add(f"{body.name}.kept", body.params, (*began, *body.body, *products), outputs)
    count: Dim = around.symbol(f"{binding.name}_trips") if trips is None else trips
    types = [Tensor((count, *v.tensor.dims), v.tensor.element) for v in kept]
    rows = tuple(Var(around.name(f"{v.name}.rows"), t) for v, t in zip(kept, types, strict=True))
    more = tuple(Tensor((0, *v.tensor.dims), v.tensor.element) for v in kept if loop.rows)
    made = replace(loop, body=name, scans=loop.scans + len(kept), rows=(*loop.rows, *more))
    if trips is not None:
        whole = Binding((*binding.vars, *rows), made, binding.origin)
        return Stacked((whole,), made, rows, len(binding.vars))
    raw = [
        Var(around.name(f"{r.name}.found"), Tensor(None, r.tensor.element, r.tensor.rank))
        for r in rows
    ]
    casts = [Binding((r,), MatchCast(f), binding.origin) for r, f in zip(rows, raw, strict=True)]
    whole = Binding((*binding.vars, *raw), made, binding.origin)
    return Stacked((whole, *casts), made, rows, len(binding.vars))


def without(stacked: Stacked, unread: Sequence[int], around: Surroundings) -> Stacked:
    """The same without some of its rows, by their numbers; where a run counts the trips, one stays
    by which it does.
    """
    whole, *casts = stacked.bindings
    unread = unread[1:] if casts and len(unread) == len(casts) else unread
    loop, gone = stacked.loop, {stacked.own + n for n in unread}
    function = around.functions[loop.body]
    first = len(function.outputs) - len(whole.vars)  # outputs that are no results: it goes on
    outputs = tuple(v for n, v in enumerate(function.outputs) if n - first not in gone)
    around.functions[loop.body] = replace(function, outputs=outputs)
    vars = tuple(v for n, v in enumerate(whole.vars) if n not in gone)
    rows = tuple(t for n, t in enumerate(loop.rows) if n + len(whole.vars) - loop.scans not in gone)
    made = replace(loop, scans=loop.scans - len(gone), rows=rows)
    left = tuple(r for n, r in enumerate(stacked.rows) if n not in unread)
    kept = (b for n, b in enumerate(casts) if n not in unread)
    return Stacked((Binding(vars, made, whole.origin), *kept), made, left, stacked.own)


def _products(body: Function, around: Surroundings) -> list[Var]:
    """Sums of products that a body binds, each with what is added to it alone at once."""
    inside = frozenset[str]().union(*(defined_by(b) for b in body.body))
    readers, outputs = uses(body), {v.name for v in body.outputs}
    found: dict[str, Var] = {}
    for b in body.body:
        made = _compute(b, around)
        if made is None or contraction(made) is None or symbols_in(b.var.type) & inside:
            continue
        value = b.var
        while value.name not in outputs and len(readers.get(value.name, ())) == 1:
            reader = readers[value.name][0]
            added = _compute(reader, around)
            same = added is not None and reader.var.type == value.type
            if not (same and added is not None and _is_sum(added)):
                break
            value = reader.var
        found.setdefault(value.name, value)
    return list(found.values())


def _compute(binding: Binding, around: Surroundings) -> Compute | None:
    """What an operator computes, where that is one expression of floats."""
    if not isinstance(binding.expr, OpCall) or not is_active_type(binding.vars[0]):
        return None
    made = around.lowered(binding)
    if len(made) != 1 or not isinstance(made[0].expr, KernelCall):
        return None
    computes = made[0].kernel_call.kernel.computes
    return computes[0] if len(computes) == 1 else None


def _is_sum(c: Compute) -> bool:
    """Whether it adds two values element by element: neither is needed for its derivative."""
    match c.expr:
        case Apply("add" | "sub", (Read(), Read())):
            return not c.reduce
    return False
