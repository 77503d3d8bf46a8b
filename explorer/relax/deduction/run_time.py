"""Dims that only a run knows, named or asserted by match_casts.

The host computes the values of integer tensors that an operator needs, and a match_cast names them:

    y = Slice(x, starts, ends)  ->
    y.values: int64[2] = library shape.Slice(y.shape0, starts, ends)
    y.dims: shape[y_begin, y_extent] = match y.values
    y: float32[y_extent] = Slice(x, begin=(y_begin,), extent=(y_extent,))

Extents that must be equal, which nothing proves, are asserted by a match_cast of an argument:

    y = MatMul(a: [n, k], b: [m, 8])  ->  a2: float32[n, m] = match a; y = MatMul(a2, b)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import AttrValue, LibraryCall, MatchCast, OpCall, ShapeOf, Var
from explorer.ir.dims import Dim, is_symbolic, product, symbols_of
from explorer.ir.dtypes import HOST_DTYPES
from explorer.ir.program import Binding
from explorer.ir.types import ShapeType, Tensor
from explorer.ops.record import OperatorRecord, RunTime, Site
from explorer.ops.rules import in_rule
from explorer.ops.shape_rules import Unprovable
from explorer.relax.deduction.knowledge import Deduced, Deducing


def at_run_time(
    deduction: Deducing, site: Site, rule: RunTime, binding: Binding
) -> tuple[list[Binding], Site]:
    """Return the bindings that name the values, and the site in those names.

    Raises UnsupportedOperator for elements that Python holds: no kernel can read them.
    """
    if any(isinstance(a.type, Tensor) and a.type.dtype in HOST_DTYPES for a in site.present_args):
        site.unsupported("elements that Python holds have no kernels")
    if any(map(depends_on_symbols, site.attrs.values())):
        site.unsupported("it depends on symbols, and on values of the run besides")
    name = binding.vars[0].name
    before: list[Binding] = []
    args: list[Var | None] = []
    for position, arg in enumerate(site.args):
        if arg is not None and position not in rule.reads:
            arg = _shape_of(arg, f"{name}.shape{position}", binding, before)
        args.append(arg)
    numbers = rule.names(site)
    fresh = deduction.symbols.fresh
    symbols = {
        n.name: fresh(f"{name}_{n.name}", n.low, n.high) if n.value is None else n.value
        for n in numbers
    }
    values = Var(f"{name}.values", Tensor((len(symbols),), "int64"))
    attrs = (*site.attrs.items(), ("where", site.where), ("names", tuple(symbols)))
    call = LibraryCall("shape", site.op, tuple(args), attrs)
    before.append(Binding((values,), call, binding.origin))
    dims = Var(f"{name}.dims", ShapeType(tuple(symbols.values())))
    before.append(Binding((dims,), MatchCast(values), binding.origin))
    deduction.scope.update(*map(symbols_of, symbols.values()))
    new_site = replace(site, env=deduction.symbols.env)
    after = rule.rewrite(new_site, symbols)
    if rule.tables is None:
        return before, after
    tables: list[Var] = []
    for word, kind in rule.tables(new_site, symbols).items():
        tables.append(Var(f"{name}.{word}", kind))
        attrs = (*site.attrs.items(), ("where", site.where), ("table", word), ("of", kind.element))
        call = LibraryCall("shape", site.op, tuple(args), attrs)
        before.append(Binding((tables[-1],), call, binding.origin))
    return before, replace(after, args=(*after.args, *tables))


def depends_on_symbols(value: AttrValue) -> bool:
    """Return True if an attribute holds a symbolic dim."""
    return any(map(is_symbolic, value if isinstance(value, tuple) else (value,)))


def _shape_of(arg: Var, name: str, binding: Binding, before: list[Binding]) -> Var:
    """Bind the shape of an argument, as the host reads it."""
    shape = Var(name, Tensor((len(arg.tensor.dims),), "int64"))
    before.append(Binding((shape,), ShapeOf(arg.tensor.dims), binding.origin))
    return shape


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
