"""Functions that are called stand in the places of their calls: a gradient goes through them and
keeps what it needs. Those that call themselves stay.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.autodiff.differentiating import Surroundings
from explorer.autodiff.recursion import recurses
from explorer.errors import UnsupportedOperator
from explorer.ir.annotations import signature_of, unify
from explorer.ir.calls import FunctionCall, Var
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import symbol
from explorer.passes.simplify.substitution import with_reads
from explorer.passes.simplify.symbol_values import with_symbols


def without_calls(function: Function, around: Surroundings) -> Function:
    """The function with the bodies of those that it calls and that do not call themselves."""
    if not any(isinstance(b.expr, FunctionCall) for b in function.body):
        return function
    values: dict[str, Var] = {}
    body: list[Binding] = []
    for b in function.body:
        expr = with_reads(b.expr, values)
        if not isinstance(expr, FunctionCall) or recurses(expr.function, around.functions):
            body.append(replace(b, expr=expr))
            continue
        called = _called(around.functions[expr.function], expr, around)
        named = {p.name: a for p, a in zip(called.params, expr.args, strict=True)}
        for inner in called.body:
            vars = tuple(replace(v, name=around.name(f"{b.name}.{v.name}")) for v in inner.vars)
            body.append(Binding(vars, with_reads(inner.expr, named), inner.origin | b.origin))
            named |= {v.name: new for v, new in zip(inner.vars, vars, strict=True)}
        results = (named.get(o.name, o) for o in called.outputs)
        values |= {v.name: found for v, found in zip(b.vars, results, strict=True)}
    outputs = tuple(values.get(v.name, v) for v in function.outputs)
    return replace(function, body=tuple(body), outputs=outputs)


def _called(function: Function, call: FunctionCall, around: Surroundings) -> Function:
    """A called function in the words of its caller."""
    types = tuple(a.type for a in call.args)
    derived = unify(signature_of(function), types, around.env)
    words = {name: dim for name, dim in derived.symbols if dim != symbol(name)}
    if words and any(b.calls for b in function.body):
        _refuse(function.name, "is called with symbols of its own, and has loops or branches")
    return without_calls(with_symbols(function, words), around)


def _refuse(name: str, why: str) -> None:
    raise UnsupportedOperator(
        f"{name} {why}: a gradient does not go through such a call",
        where=name,
        expected="a function that calls others only",
        try_="explorer.scan or explorer.while_loop, through which gradients go",
    )
