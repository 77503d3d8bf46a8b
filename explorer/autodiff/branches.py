"""A branch reversed: the side that was taken hands back, the other one is not looked at.

y = if c: f(x) else g(x), adjoint dy   ->   dx = if c: f.back(x, dy) else g.back(x, dy)

A side is computed again in its reverse, as far as that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.autodiff.differentiating import Differentiating, is_active_type
from explorer.ir.calls import Branch, OpCall, Var
from explorer.ir.program import Binding, Function


def reverse_branch(reverse: Differentiating, binding: Binding, branch: Branch) -> None:
    """Hand back to the arguments of a branch what its results were given."""
    given = [n for n, v in enumerate(binding.vars) if reverse.given(v)]
    adjoints = [reverse.whole(binding.vars[n]) for n in given]
    wanted = [n for n, a in enumerate(branch.args) if a.name in reverse.active]
    then, orelse = (
        _side(reverse, reverse.around.copy(reverse.around.functions[name]), given, adjoints, wanted)
        for name in (branch.then, branch.orelse)
    )
    types = [branch.args[n].tensor for n in wanted]
    call = Branch(branch.cond, then, orelse, (*branch.args, *adjoints))
    for n, part in zip(wanted, reverse.bind("d", types, call), strict=True):
        reverse.give(branch.args[n], part)


def _side(
    reverse: Differentiating,
    side: Function,
    given: Sequence[int],
    adjoints: Sequence[Var],
    wanted: Sequence[int],
) -> str:
    """The reverse of a side: its parameters, then the adjoints of results; gradients by all that
    are wanted.
    """
    around = reverse.around
    seeds = tuple(Var(around.name(f"{side.name}.seed"), a.type) for a in adjoints)
    params = [side.params[n] for n in wanted]
    inner = reverse.inner(side, [p.name for p in params])
    pairs = [(side.outputs[n], seed) for n, seed in zip(given, seeds)]
    found = inner.run([(v, s) for v, s in pairs if is_active_type(v)])
    made = [own(inner, p, found.get(p.name)) for p in params]
    body = (*inner.forward, *inner.backward)
    return around.add(f"{side.name}.back", (*side.params, *seeds), body, made)


def own(inner: Differentiating, param: Var, gradient: Var | None) -> Var:
    """A parameter's gradient as a value that the function binds for this alone."""
    if gradient is None:
        return inner.zeros(param.tensor)
    return inner.bind("d", [param.tensor], OpCall("Identity", (gradient,)))[0]
