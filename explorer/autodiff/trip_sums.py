"""Sums over the trips of a loop, done once behind it.

dw = dw + h[t] @ g   in a loop   ->   g stacked in it as gs, and behind it
                                      dw = sum over t of hs[t] @ gs[t]

A sum that is carried is read and written in each trip, and its products are as deep as one trip.
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
    """The sum over the trips of a reversed loop of what a kernel gives in one.

    `args`: what it reads, a value around the loop or the number of a result that the loop stacks;
    `forward`: the tensors of which it reads the row of the trip that is reversed.
    """

    call: KernelCall
    args: tuple[Var | int, ...]
    forward: frozenset[str]

    def behind(self, stacked: Sequence[Var], trips: Dim) -> KernelCall:
        """The kernel of all trips; `stacked` are the loop's results, from the last trip on."""
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
        known = dict(zip(kernel.inputs, args, strict=True))
        specs = tuple(
            replace(s, shape=known[s.name].tensor.dims) if s.name in known else s
            for s in kernel.tensors
        )
        expr = _of_rows(c.expr, first)
        whole = replace(c, expr=expr, reduce=(trip, *c.reduce))
        return KernelCall(replace(kernel, tensors=specs, computes=(whole,)), tuple(args))


def trip_sum(
    part: Var,
    body: Iterable[Binding],
    around: Mapping[str, Var],
    rows: Mapping[str, Var],
    number: Callable[[Var], int],
    known: Callable[[Var], bool],
    env: ShapeEnv,
) -> TripSum | None:
    """What a trip adds to a sum, where stacking what it is made of moves less than carrying the
    sum.

    `around`: values of the loop that no trip changes, by their names in its body; `rows`: values
    that are rows of the trip's number of one around it. All others are stacked: `number` says as
    which result, and those that are `known` are so anyway.
    """
    bindings = tuple(body)
    made = next((b for b in bindings if part in b.vars), None)
    if made is None or not isinstance(made.expr, KernelCall):
        return None
    if needed_by(made) & frozenset[str]().union(*map(defined_by, bindings)):
        return None  # in each trip as many elements as that finds
    call = made.expr
    if len(call.kernel.computes) != 1 or not _is_plain(call.kernel.computes[0]):
        return None
    outside = around.keys() | rows.keys()
    new = [v for v in call.args if v.name not in outside and not known(v)]
    if sum(_elements(v, env) for v in new) >= _elements(part, env):
        return None
    args = [around.get(v.name) or rows.get(v.name) for v in call.args]
    given = tuple(a or number(v) for a, v in zip(args, call.args, strict=True))
    of_rows = zip(call.kernel.inputs, call.args, strict=True)
    return TripSum(call, given, frozenset(n for n, v in of_rows if v.name in rows))


def copied_from(body: Iterable[Binding]) -> Mapping[str, str]:
    """By the name of each value that is a copy of another, as the adjoints of what is added are,
    the name of the first of them.
    """
    found: dict[str, str] = {}
    for b in body:
        match copy_map(b):
            case source, AffineMap() as m if m.index == m.pattern and m.source == m.result:
                found[b.name] = found.get(source.name, source.name)
    return found


def _is_plain(c: Compute) -> bool:
    """Whether it is a sum of products of loads at known places."""
    return c.combiner == "sum" and not c.store and _is_product(c.expr)


def _is_product(expr: Expr) -> bool:
    match expr:
        case Apply("mul" | "neg", args):
            return all(map(_is_product, args))
        case Read(_, index, _):
            return all(isinstance(i, Affine) for i in index)
    return isinstance(expr, Const)


def _of_rows(expr: Expr, first: Mapping[str, Affine]) -> Expr:
    """The expression over stacked tensors, by the index of the row of each."""
    match expr:
        case Apply(op, args):
            return Apply(op, tuple(_of_rows(a, first) for a in args))
        case Read(tensor, index, fill) if tensor in first:
            return Read(tensor, (first[tensor], *index), fill)
    return expr


def _elements(var: Var, env: ShapeEnv) -> int:
    return evaluate_dim(product(var.tensor.dims), env.hints)
