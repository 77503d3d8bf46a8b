"""Values that a loop stacks: for the loop that reverses it, and for sums over its trips after it.

    h, y = loop body(h, x[t]) times n   ->   h, y, hs, ps = loop body.kept(h, x[t]) times n
    p = h @ w + x[t] in the body             hs: each h before its trip; ps: each p

These are the states at the start of each trip, and the products of each trip: loading a product
takes less time than multiplying again. All other values are recomputed.

    dw = dw + h[t] @ g   in a loop   ->   g stacked in it as gs, and after it
                                          dw = sum over t of hs[t] @ gs[t]

A carried sum is read and written in each trip, and its contraction is only as deep as one trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.ir.affine import Affine, affine
from explorer.ir.affine import var as loop_variable
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import KernelCall, Loop, MatchCast, OpCall, Var
from explorer.ir.dims import Dim, ShapeEnv, evaluate_dim, product
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Read, rewrite
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import Binding, Function, fresh
from explorer.ir.symbols import defined_by, needed_by
from explorer.ir.types import Tensor
from explorer.transforms.autodiff.autodiff_context import (
    AutodiffContext,
    Differentiating,
    is_active_type,
)
from explorer.transforms.autodiff.transpose import is_product
from explorer.transforms.copies.index_maps import AffineMap, copy_map
from explorer.transforms.counted_loops import COUNTERS, trips_of
from explorer.transforms.simplify.redundancy import uses


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


@dataclass(frozen=True, slots=True)
class TripSum:
    """The sum over the trips of a reversed loop of one kernel's results.

    `args`: each operand, a value around the loop or the number of a result that the loop stacks;
    `forward`: the tensors of which it reads the row of the trip that is reversed.
    """

    call: KernelCall
    args: tuple[Var | int, ...]
    forward: frozenset[str]

    def kernel_after_loop(self, stacked: Sequence[Var], trips: Dim) -> KernelCall:
        """Return the kernel over all trips; `stacked` are the loop's results, last trip first."""
        kernel = self.call.kernel
        (c,) = kernel.computes
        args = [stacked[a] if isinstance(a, int) else a for a in self.args]
        trip = Axis(fresh("trip", {a.name for a in (*c.axes, *c.reduce)}), trips)
        first: dict[str, Affine] = {}
        for tensor, arg in zip(kernel.inputs, self.args, strict=True):
            if isinstance(arg, int):
                first[tensor] = affine({trip.name: -1}, trips - 1)
            elif tensor in self.forward:
                first[tensor] = loop_variable(trip.name)
        arg_by_tensor = dict(zip(kernel.inputs, args, strict=True))
        specs = tuple(
            replace(s, shape=arg_by_tensor[s.name].tensor.dims) if s.name in arg_by_tensor else s
            for s in kernel.tensors
        )
        expr = _of_rows(c.expr, first)
        sum_over_trips = replace(c, expr=expr, reduce=(trip, *c.reduce))
        return KernelCall(replace(kernel, tensors=specs, computes=(sum_over_trips,)), tuple(args))


def move_after_loop(
    part: Var,
    body: Iterable[Binding],
    around: Mapping[str, Var],
    rows: Mapping[str, Var],
    number: Callable[[Var], int],
    is_stacked: Callable[[Var], bool],
    env: ShapeEnv,
) -> TripSum | None:
    """Return the sum after the loop, or None if stacking its operands moves more bytes.

    `around`: loop-invariant values by their names in the body; `rows`: the arrays around the loop
    of which a value is the row of the trip. All other operands are stacked: `number` returns the
    result's number, and those that `is_stacked` are stacked anyway.
    """
    bindings = tuple(body)
    producer = next((b for b in bindings if part in b.vars), None)
    if producer is None or not isinstance(producer.expr, KernelCall):
        return None
    if needed_by(producer) & frozenset[str]().union(*map(defined_by, bindings)):
        return None  # in each trip as many elements as that finds
    call = producer.expr
    if len(call.kernel.computes) != 1 or not _is_plain(call.kernel.computes[0]):
        return None
    outside = around.keys() | rows.keys()
    new = [v for v in call.args if v.name not in outside and not is_stacked(v)]
    if sum(_elements(v, env) for v in new) >= _elements(part, env):
        return None
    args = [around.get(v.name) or rows.get(v.name) for v in call.args]
    operands = tuple(a or number(v) for a, v in zip(args, call.args, strict=True))
    of_rows = zip(call.kernel.inputs, call.args, strict=True)
    return TripSum(call, operands, frozenset(n for n, v in of_rows if v.name in rows))


def copied_from(body: Iterable[Binding]) -> Mapping[str, str]:
    """Return the first source of each copy, by name; adjoints of addends are such copies."""
    sources: dict[str, str] = {}
    for b in body:
        match copy_map(b):
            case source, AffineMap() as m if m.index == m.pattern and m.source == m.result:
                sources[b.name] = sources.get(source.name, source.name)
    return sources


def _is_plain(c: Compute) -> bool:
    """Return True if a compute is a sum of products of loads at affine indices."""
    return c.combiner == "sum" and not c.store and is_product(c.expr)


def _of_rows(expr: Expr, first: Mapping[str, Affine]) -> Expr:
    """Index stacked tensors by their row in addition."""

    def leaf(read: Read) -> Expr:
        row = first.get(read.tensor)
        return read if row is None else replace(read, index=(row, *read.index))

    return rewrite(expr, leaf)


def _elements(var: Var, env: ShapeEnv) -> int:
    return evaluate_dim(product(var.tensor.dims), env.hints)
