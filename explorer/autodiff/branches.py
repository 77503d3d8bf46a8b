"""Reverse of a branch: the arm that was taken returns adjoints, the other one is not run.

    y = if c: f(x) else g(x), adjoint dy   ->   dx = if c: f.back(x, dy) else g.back(x, dy)

The reverse recomputes as much of an arm as it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.autodiff.differentiating import Differentiating, is_active_type
from explorer.ir.calls import Branch, OpCall, Var
from explorer.ir.program import Binding, Function


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
