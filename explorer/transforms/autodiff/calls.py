"""Calls and branches in reverse mode: called functions are inlined, recursive ones stay calls.

The gradient of an inlined body stores the values that it needs. A call that stays becomes a call of
the function's reverse, which recurses where the function does. Of a branch, the arm that was taken
returns adjoints, and the other one is not run.

    y = f(x), adjoint dy   ->   dx = f.back(x, dy)
    f(x): y = f(g(x))           f.back(x, dy): z = g(x); dz = f.back(z, dy); dx = g.back(x, dz)

    y = if c: f(x) else g(x), adjoint dy   ->   dx = if c: f.back(x, dy) else g.back(x, dy)

The reverse recomputes as much of a call or an arm as it needs, including the calls inside. For n
calls of depth d, it makes up to n d calls and saves nothing between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.errors import UnsupportedOperator
from explorer.ir.annotations import signature_of, unify
from explorer.ir.calls import Branch, FunctionCall, OpCall, Var
from explorer.ir.dims import symbol
from explorer.ir.program import Binding, Function
from explorer.transforms.autodiff.autodiff_context import (
    AutodiffContext,
    Differentiating,
    is_active_type,
)
from explorer.transforms.simplify.substitution import with_reads, with_symbols


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


def reverse_call(reverse: Differentiating, binding: Binding, call: FunctionCall) -> None:
    """Add to the adjoints of a call's arguments what its results' adjoints contribute."""
    seeded = tuple(n for n, v in enumerate(binding.vars) if reverse.has_adjoint(v))
    adjoints = [reverse.adjoint_of(binding.vars[n]) for n in seeded]
    requested = tuple(
        n for n, a in enumerate(call.args) if a.name in reverse.active and is_active_type(a)
    )
    name = _reverse_function(reverse, call.function, seeded, requested)
    types = [call.args[n].tensor for n in requested]
    contributions = reverse.bind("d", types, FunctionCall(name, (*call.args, *adjoints)))
    for n, part in zip(requested, contributions, strict=True):
        reverse.add_adjoint(call.args[n], part)


def _reverse_function(
    reverse: Differentiating, called: str, seeded: tuple[int, ...], requested: tuple[int, ...]
) -> str:
    """Return the reverse of a function by the requested arguments, for some results' adjoints.

    It is written once. Its name is registered before its body, so that the body can call it.
    """
    context, key = reverse.context, (called, seeded, requested)
    if key in context.backs:
        return context.backs[key]
    function = context.functions[called]
    name = context.backs[key] = context.add(f"{called}.back", (), (), ())
    copy = context.copy(function)
    seeds = [Var(context.name(f"{called}.seed"), copy.outputs[n].type) for n in seeded]
    params = [copy.params[n] for n in requested]
    inner = reverse.inner(copy, [p.name for p in params])
    gradients = inner.run([(copy.outputs[n], s) for n, s in zip(seeded, seeds, strict=True)])
    outputs = [bind_gradient(inner, p, gradients.get(p.name)) for p in params]
    body = (*inner.forward, *inner.backward)
    context.functions[name] = Function(name, (*copy.params, *seeds), body, tuple(outputs))
    return name


def is_recursive(name: str, functions: dict[str, Function]) -> bool:
    """Return True if a call of a function leads to another call of it."""
    seen, open_ = set[str](), [name]
    while open_:
        for called in (n for b in functions[open_.pop()].body for n in b.calls):
            if called == name:
                return True
            if called not in seen:
                seen.add(called)
                open_.append(called)
    return False


def reverse_branch(reverse: Differentiating, binding: Binding, branch: Branch) -> None:
    """Add to the adjoints of a branch's arguments what its results' adjoints contribute."""
    seeded = [n for n, v in enumerate(binding.vars) if reverse.has_adjoint(v)]
    adjoints = [reverse.adjoint_of(binding.vars[n]) for n in seeded]
    requested = [n for n, a in enumerate(branch.args) if a.name in reverse.active]
    then, orelse = (
        _reverse_arm(
            reverse,
            reverse.context.copy(reverse.context.functions[name]),
            seeded,
            adjoints,
            requested,
        )
        for name in (branch.then, branch.orelse)
    )
    types = [branch.args[n].tensor for n in requested]
    call = Branch(branch.cond, then, orelse, (*branch.args, *adjoints))
    for n, part in zip(requested, reverse.bind("d", types, call), strict=True):
        reverse.add_adjoint(branch.args[n], part)


def _reverse_arm(
    reverse: Differentiating,
    arm: Function,
    seeded: Sequence[int],
    adjoints: Sequence[Var],
    requested: Sequence[int],
) -> str:
    """Add the reverse of an arm and return its name.

    Its parameters are those of the arm, then the adjoints of the results. It returns a gradient for
    each requested argument.
    """
    context = reverse.context
    seeds = tuple(Var(context.name(f"{arm.name}.seed"), a.type) for a in adjoints)
    params = [arm.params[n] for n in requested]
    inner = reverse.inner(arm, [p.name for p in params])
    pairs = [(arm.outputs[n], seed) for n, seed in zip(seeded, seeds)]
    gradients = inner.run([(v, s) for v, s in pairs if is_active_type(v)])
    outputs = [bind_gradient(inner, p, gradients.get(p.name)) for p in params]
    body = (*inner.forward, *inner.backward)
    return context.add(f"{arm.name}.back", (*arm.params, *seeds), body, outputs)


def bind_gradient(inner: Differentiating, param: Var, gradient: Var | None) -> Var:
    """Return a parameter's gradient as a value that the function binds for this alone."""
    if gradient is None:
        return inner.zeros(param.tensor)
    return inner.bind("d", [param.tensor], OpCall("Identity", (gradient,)))[0]
