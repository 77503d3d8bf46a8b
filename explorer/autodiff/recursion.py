"""Reverse of a call: a call of the function's reverse, which recurses where the function does.

    y = f(x), adjoint dy   ->   dx = f.back(x, dy)
    f(x): y = f(g(x))           f.back(x, dy): z = g(x); dz = f.back(z, dy); dx = g.back(x, dz)

The reverse recomputes as much of a call as it needs, including the calls inside. For n calls of
depth d, it makes up to n d calls and saves nothing between them.
"""

from __future__ import annotations

from explorer.autodiff.branches import bind_gradient
from explorer.autodiff.differentiating import Differentiating, is_active_type
from explorer.ir.calls import FunctionCall, Var
from explorer.ir.program import Binding, Function


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
