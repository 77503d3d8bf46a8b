"""Operators that need values of integer tensors: the host computes them, a match_cast names them.

y = Slice(x, starts, ends)  ->
y.values: int64[2] = library shape.Slice(y.shape0, starts, ends)
y.dims: shape[y_begin, y_extent] = match y.values
y: float32[y_extent] = Slice(x, begin=(y_begin,), extent=(y_extent,))
"""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.calls import AttrValue, LibraryCall, MatchCast, ShapeOf, Var
from explorer.ir.dtypes import HOST_DTYPES
from explorer.ir.program import Binding
from explorer.ir.shapes.algebra import is_symbolic
from explorer.ir.shapes.dims import symbols_of
from explorer.ir.types import ShapeType, Tensor
from explorer.ops.record import RunTime
from explorer.ops.site import Site
from explorer.relax.deduction.deducing import Deducing


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
