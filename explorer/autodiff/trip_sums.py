"""Sums over the trips of a loop, computed once after it.

    dw = dw + h[t] @ g   in a loop   ->   g stacked in it as gs, and after it
                                          dw = sum over t of hs[t] @ gs[t]

A carried sum is read and written in each trip, and its contraction is only as deep as one trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.ir.affine import Affine, affine
from explorer.ir.affine import var as loop_variable
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, Read
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, ShapeEnv, evaluate_dim, product
from explorer.ir.symbols import defined_by, needed_by
from explorer.passes.copies.copy_maps import AffineMap, copy_map
from explorer.passes.pipeline.names import fresh


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
    return c.combiner == "sum" and not c.store and _is_product(c.expr)


def _is_product(expr: Expr) -> bool:
    match expr:
        case Apply("mul" | "neg", args):
            return all(map(_is_product, args))
        case Read(_, index, _):
            return all(isinstance(i, Affine) for i in index)
    return isinstance(expr, Const)


def _of_rows(expr: Expr, first: Mapping[str, Affine]) -> Expr:
    """Index stacked tensors by their row in addition."""
    match expr:
        case Apply(op, args):
            return Apply(op, tuple(_of_rows(a, first) for a in args))
        case Read(tensor, index, fill) if tensor in first:
            return Read(tensor, (first[tensor], *index), fill)
    return expr


def _elements(var: Var, env: ShapeEnv) -> int:
    return evaluate_dim(product(var.tensor.dims), env.hints)
