"""A call reversed: a call of the function's reverse, which calls itself where the function does.

y = f(x), adjoint dy   ->   dx = f.back(x, dy)
f(x): y = f(g(x))           f.back(x, dy): z = g(x); dz = f.back(z, dy); dx = g.back(x, dz)

What a call computes is computed again in its reverse, as far as that needs it, the calls in it as
well: the reverse of n calls that are d deep makes up to n d calls, and keeps nothing between them.
"""

from __future__ import annotations

from explorer.autodiff.branches import own
from explorer.autodiff.differentiating import Differentiating, is_active_type
from explorer.ir.calls import FunctionCall, Var
from explorer.ir.program import Binding, Function


def reverse_call(reverse: Differentiating, binding: Binding, call: FunctionCall) -> None:
    """Hand back to the arguments of a call what its results were given."""
    given = tuple(n for n, v in enumerate(binding.vars) if reverse.given(v))
    adjoints = [reverse.whole(binding.vars[n]) for n in given]
    wanted = tuple(
        n for n, a in enumerate(call.args) if a.name in reverse.active and is_active_type(a)
    )
    name = _back(reverse, call.function, given, wanted)
    types = [call.args[n].tensor for n in wanted]
    made = reverse.bind("d", types, FunctionCall(name, (*call.args, *adjoints)))
    for n, part in zip(wanted, made, strict=True):
        reverse.give(call.args[n], part)


def _back(
    reverse: Differentiating, called: str, given: tuple[int, ...], wanted: tuple[int, ...]
) -> str:
    """The reverse of a function by the arguments that are wanted, given the adjoints of some of its
    results; it is written once, and its name stands before its body does.
    """
    around, key = reverse.around, (called, given, wanted)
    if key in around.backs:
        return around.backs[key]
    function = around.functions[called]
    name = around.backs[key] = around.add(f"{called}.back", (), (), ())
    side = around.copy(function)
    seeds = [Var(around.name(f"{called}.seed"), side.outputs[n].type) for n in given]
    params = [side.params[n] for n in wanted]
    inner = reverse.inner(side, [p.name for p in params])
    found = inner.run([(side.outputs[n], s) for n, s in zip(given, seeds, strict=True)])
    made = [own(inner, p, found.get(p.name)) for p in params]
    body = (*inner.forward, *inner.backward)
    around.functions[name] = Function(name, (*side.params, *seeds), body, tuple(made))
    return name


def recurses(name: str, functions: dict[str, Function]) -> bool:
    """Whether a call of a function leads to another call of it."""
    seen, open_ = set[str](), [name]
    while open_:
        for called in (n for b in functions[open_.pop()].body for n in b.calls):
            if called == name:
                return True
            if called not in seen:
                seen.add(called)
                open_.append(called)
    return False
