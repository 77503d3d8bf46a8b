"""Branches whose taken arm is known: its body replaces the branch.

    y = if c: f(x) else g(x), where c is true  ->  the body of f, whose result is y

If only one arm has a meaning, a match_cast checks the condition first:

    y = if n == 1: Squeeze(x) else x; z = LSTM(Unsqueeze(y)), which takes three dims
    ->  y.taken: shape[n] = match 1; y = Squeeze(x); z = LSTM(Unsqueeze(y))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from explorer.ir.calls import Branch, FunctionCall, Gradient, Loop, MatchCast, OpCall, Var
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.shapes.algebra import is_symbol
from explorer.ir.shapes.dims import simplify
from explorer.ir.types import ShapeType, Tensor
from explorer.passes.simplify.substitution import with_reads
from explorer.relax.deduction.deducing import Deducing
from explorer.relax.deduction.knowledge import Knowledge, all_integers

NEVER = "its branch is never taken"
NO_MEANING = "its branch has no meaning, so it is never taken"


def taken_arm(
    deduction: Deducing, binding: Binding, expr: Branch, knowledge: Knowledge
) -> list[Binding] | None:
    """Return the bindings of the taken arm, not yet annotated, or None if only a run knows."""
    flag = knowledge.values(knowledge.var(expr.cond))
    if flag is None or flag.size != 1 or not all_integers(flag):
        return None
    taken, other = expr.then, expr.orelse
    if not bool(flag.reshape(())[()]):
        taken, other = other, taken
    dropped = sorted({o for o in _origins(deduction, other, set())})
    deduction.dropped += [(name, NEVER) for name in dropped]
    return list(inline_arm(deduction.source_functions[taken], binding, expr))


class OnlyArm(Exception):
    """The signal that only one arm of a branch has a meaning: `then`, or the other one."""

    def __init__(self, then: bool) -> None:
        """Remember which arm it is."""
        super().__init__(then)
        self.then = then


def require_arm(
    deduction: Deducing, binding: Binding, only: OnlyArm, knowledge: Knowledge
) -> list[Binding]:
    """Return the bindings of the only meaningful arm, behind a check that it is taken."""
    expr = binding.expr
    assert isinstance(expr, Branch)
    taken, other = (expr.then, expr.orelse) if only.then else (expr.orelse, expr.then)
    dropped = sorted({o for o in _origins(deduction, other, set())})
    deduction.dropped += [(name, NO_MEANING) for name in dropped]
    check = list(_check(deduction, binding, expr.cond, only.then, knowledge))
    return [*check, *inline_arm(deduction.source_functions[taken], binding, expr)]


def _check(
    deduction: Deducing, binding: Binding, cond: Var, expected: bool, knowledge: Knowledge
) -> Iterator[Binding]:
    """Yield the match_cast that checks a condition; a comparison of extents casts these."""
    name = f"{binding.vars[0].name}.taken"
    pair = knowledge.compared(cond) if expected else None
    if pair is None:
        number, row = Var(f"{name}.number", Tensor()), Var(f"{name}.row", Tensor())
        yield Binding((number,), OpCall("Cast", (cond,), (("to", "int64"),)), binding.origin)
        yield Binding((row,), OpCall("Reshape", (number,), (("dims", (1,)),)), binding.origin)
        yield Binding((Var(name, ShapeType((int(expected),))),), MatchCast(row), binding.origin)
        return
    dim, extent = pair
    if is_symbol(dim) or not isinstance(extent, int):  # a bare symbol would be defined by it
        dim, extent = simplify(dim - extent), 0
    constant = Constant(np.array([extent], np.int64))
    deduction.constants[f"{name}.extent"] = constant
    row = Var(f"{name}.extent", constant.type)
    yield Binding((Var(name, ShapeType((dim,))),), MatchCast(row), binding.origin)


def inline_arm(function: Function, binding: Binding, expr: Branch) -> Iterator[Binding]:
    """Yield an arm's body with arguments for parameters and the branch's results for outputs."""
    values = {p.name: a for p, a in zip(function.params, expr.args, strict=True)}
    bound = {v.name for b in function.body for v in b.vars}
    results: dict[str, Var] = {}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if out.name in bound:
            results.setdefault(out.name, result)
    for b in function.body:
        new_vars = tuple(results.get(v.name) or _renamed(v, binding) for v in b.vars)
        origin = b.origin | (binding.origin if any(v in binding.vars for v in new_vars) else set())
        yield Binding(new_vars, with_reads(b.expr, values), origin)
        values |= {v.name: new for v, new in zip(b.vars, new_vars, strict=True)}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if results.get(out.name) != result:
            read = values.get(out.name, out)
            yield Binding((result,), OpCall("Identity", (read,)), binding.origin)


def _renamed(var: Var, binding: Binding) -> Var:
    return replace(var, name=f"{binding.vars[0].name}.{var.name}")


def _origins(deduction: Deducing, name: str, seen: set[str]) -> Iterator[str]:
    """Yield the source operators of a function, and of those that it calls."""
    if name in seen:
        return
    seen.add(name)
    for b in deduction.source_functions[name].body:
        yield from b.origin
        match b.expr:
            case Branch(_, then, orelse, _):
                yield from _origins(deduction, then, seen)
                yield from _origins(deduction, orelse, seen)
            case Loop(body, _, _, _, _, _, _):
                yield from _origins(deduction, body, seen)
            case FunctionCall(callee, _) | Gradient(callee):
                yield from _origins(deduction, callee, seen)
