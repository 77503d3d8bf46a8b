"""Inlining of called functions before differentiation; recursive functions stay calls.

A gradient then goes through the inlined body and stores the values that it needs.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.autodiff.differentiating import AutodiffContext
from explorer.autodiff.recursion import is_recursive
from explorer.errors import UnsupportedOperator
from explorer.ir.annotations import signature_of, unify
from explorer.ir.calls import FunctionCall, Var
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import symbol
from explorer.passes.simplify.substitution import with_reads
from explorer.passes.simplify.symbol_values import with_symbols


def inline_calls(function: Function, context: AutodiffContext) -> Function:
    """Inline every called function that is not recursive."""
    if not any(isinstance(b.expr, FunctionCall) for b in function.body):
        return function
    values: dict[str, Var] = {}
    body: list[Binding] = []
    for b in function.body:
        expr = with_reads(b.expr, values)
        if not isinstance(expr, FunctionCall) or is_recursive(expr.function, context.functions):
            body.append(replace(b, expr=expr))
            continue
        called = _bind_symbols(context.functions[expr.function], expr, context)
        named = {p.name: a for p, a in zip(called.params, expr.args, strict=True)}
        for inner in called.body:
            vars = tuple(replace(v, name=context.name(f"{b.name}.{v.name}")) for v in inner.vars)
            body.append(Binding(vars, with_reads(inner.expr, named), inner.origin | b.origin))
            named |= {v.name: new for v, new in zip(inner.vars, vars, strict=True)}
        results = (named.get(o.name, o) for o in called.outputs)
        values |= {v.name: result for v, result in zip(b.vars, results, strict=True)}
    outputs = tuple(values.get(v.name, v) for v in function.outputs)
    return replace(function, body=tuple(body), outputs=outputs)


def _bind_symbols(function: Function, call: FunctionCall, context: AutodiffContext) -> Function:
    """Return a called function with its symbols written in those of its caller."""
    types = tuple(a.type for a in call.args)
    derived = unify(signature_of(function), types, context.env)
    symbols = {name: dim for name, dim in derived.symbols if dim != symbol(name)}
    if symbols and any(b.calls for b in function.body):
        _refuse(function.name, "is called with symbols of its own, and has loops or branches")
    return inline_calls(with_symbols(function, symbols), context)


def _refuse(name: str, why: str) -> None:
    raise UnsupportedOperator(
        f"{name} {why}: a gradient does not go through such a call",
        where=name,
        expected="a function that calls others only",
        try_="explorer.scan or explorer.while_loop, through which gradients go",
    )
