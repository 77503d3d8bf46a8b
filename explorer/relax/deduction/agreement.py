"""Casts that assert the equality of extents that nothing proves: a match_cast of an argument.

y = MatMul(a: [n, k], b: [m, 8])  ->  a2: float32[n, m] = match a; y = MatMul(a2, b)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import MatchCast, OpCall, Var
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import Unprovable
from explorer.ops.record import OperatorRecord
from explorer.ops.rules import in_rule
from explorer.ops.site import Site
from explorer.relax.deduction.deducing import Deduced, Deducing
from explorer.relax.deduction.run_time import at_run_time


def with_agreement(
    deduction: Deducing,
    record: OperatorRecord,
    site: Site,
    binding: Binding,
    refused: Unprovable,
) -> Deduced | None:
    """Return the operator behind match_casts of its arguments.

    Return None if more than equal extents is missing.
    """
    before: list[Binding] = []
    seen: set[tuple[Dim, Dim]] = set()
    while refused.pair is not None:
        if refused.pair in seen:
            return None
        seen.add(refused.pair)
        casts, site = _casts(site, refused.pair, binding, len(before))
        if not casts:
            return None
        before += casts
        try:
            return before, *deduction.annotated(record, site)
        except UnsupportedOperator:
            return None
        except Unprovable as next_refusal:
            refused = next_refusal
    if record.run_time is None:
        return None
    with suppress(Unprovable, UnsupportedOperator):
        with in_rule(site):
            more, symbolic = at_run_time(deduction, site, record.run_time, binding)
        return [*before, *more], *deduction.annotated(record, symbolic)
    return None


def with_filling(
    deduction: Deducing,
    record: OperatorRecord,
    site: Site,
    binding: Binding,
    refused: Unprovable,
) -> Deduced:
    """Return a Reshape behind a match_cast of the flat elements to the size of its shape.

    y = Reshape(x: [n, 6], (-1, 4))  ->
    row: [6 * n] = Reshape(x); fits: [4 * floor(6 * n, 4)] = match row; y = Reshape(fits)
    """
    x, name, shape = site.arg(0), binding.vars[0].name, refused.filled
    assert shape is not None
    row = Var(f"{name}.row", replace(x.tensor, shape=(product(x.tensor.dims),)))
    fits = Var(f"{name}.fits", replace(x.tensor, shape=(product(shape),)))
    flat = OpCall("Reshape", (x,), (("dims", (product(x.tensor.dims),)),))
    before = [
        Binding((row,), flat, binding.origin),
        Binding((fits,), MatchCast(row), binding.origin),
    ]
    return before, *deduction.annotated(record, replace(site, args=(fits,), attrs={"dims": shape}))


def _casts(
    site: Site, pair: tuple[Dim, Dim], binding: Binding, count: int
) -> tuple[list[Binding], Site]:
    """Cast the arguments with one of two extents to the other one.

    Each call leaves fewer different extents.
    """
    for old, new in (pair, pair[::-1]):
        casts: list[Binding] = []
        args = list(site.args)
        for i, arg in enumerate(site.args):
            if arg is not None and _has(arg, old):
                name = f"{binding.vars[0].name}.argument{i}_{count + len(casts)}"
                args[i] = cast = _with(arg, name, old, new)
                casts.append(Binding((cast,), MatchCast(arg), binding.origin))
        if casts:
            return casts, replace(site, args=tuple(args))
    return [], site


def _has(arg: Var, dim: Dim) -> bool:
    return isinstance(arg.type, Tensor) and not isinstance(dim, int) and dim in arg.type.dims


def _with(arg: Var, name: str, old: Dim, new: Dim) -> Var:
    dims = tuple(new if d == old else d for d in arg.tensor.dims)
    return Var(name, replace(arg.tensor, shape=dims))
