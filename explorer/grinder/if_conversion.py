"""Branches whose sides are small: both are computed, and one is selected.

y = if c: f(x) else g(x)  ->  a = f(x); b = g(x); y = where(c, a, b)

What follows is straight-line code: kernels of both sides weld with what stands around them, and no
unit looks at the condition before it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.grinder.host import host_of
from explorer.grinder.if_conversion_policy import (
    BOTH,
    ONE,
    Facts,
    Price,
    select_kernel,
    weigh_if_conversion,
)
from explorer.ir.calls import Branch, KernelCall, Var
from explorer.ir.decisions.control import ControlDecision
from explorer.ir.program import Binding, Function, Program
from explorer.passes.simplify.dead_code import called_functions
from explorer.passes.simplify.substitution import with_reads


@dataclass(frozen=True, slots=True)
class IfConversion:
    """After: no branch is left of which both sides take less time than one side and the decision.
    What was weighed stands among the decisions.
    """

    device: Device
    price: Price

    def __call__(self, program: Program) -> Program:
        """Inner branches first: the sides of an outer one are then straight-line code."""
        facts = Facts(self.price, program.env, self.device)
        host, decided = host_of(program), dict[str, ControlDecision]()
        changed = True
        while changed:
            functions = {f.name: f for f in program.functions}
            host = replace(host, functions=functions)
            changed = False
            for function in program.functions:
                body: list[Binding] = []
                for b in function.body:
                    if not isinstance(b.expr, Branch) or host.does(b):
                        body.append(b)
                        continue
                    found = weigh_if_conversion(b, b.expr, functions, facts)
                    best = ONE if found[0].refused else found[0].value
                    reason = found[0].refused or "predicted to take the least"
                    decided[b.name] = ControlDecision(b.name, "branch", best, found, reason)
                    if best == BOTH:
                        body += _inlined(b, b.expr, functions)
                        changed = True
                    else:
                        body.append(b)
                program = program.with_function(replace(function, body=tuple(body)))
        decisions = replace(program.decisions, control=tuple(decided.values()))
        return replace(program, functions=tuple(called_functions(program)), decisions=decisions)


def _inlined(b: Binding, branch: Branch, functions: dict[str, Function]) -> Iterator[Binding]:
    made: list[Sequence[Var]] = []
    for side, name in ((branch.then, "then"), (branch.orelse, "else")):
        function = functions[side]
        values = {p.name: a for p, a in zip(function.params, branch.args, strict=True)}
        for inner in function.body:
            vars = tuple(replace(v, name=f"{b.name}.{name}.{v.name}") for v in inner.vars)
            yield Binding(vars, with_reads(inner.expr, values), inner.origin)
            values |= {v.name: new for v, new in zip(inner.vars, vars, strict=True)}
        made.append([values.get(v.name, v) for v in function.outputs])
    for result, then, orelse in zip(b.vars, *made, strict=True):
        call = KernelCall(select_kernel(branch.cond, result, b.origin), (branch.cond, then, orelse))
        yield Binding((result,), call, b.origin)
