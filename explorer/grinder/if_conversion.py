"""If-conversion of branches with small arms: both arms are computed, and one result is selected.

y = if c: f(x) else g(x)  ->  a = f(x); b = g(x); y = where(c, a, b)

The result is straight-line code: kernels of both arms fuse with their neighbours, and no unit waits
for the condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.grinder.host import analyse_host
from explorer.grinder.if_conversion_policy import (
    IF_CONVERT,
    KEEP_BRANCH,
    BranchCosts,
    Price,
    price_if_conversion,
    select_kernel,
)
from explorer.ir.calls import Branch, KernelCall, Var
from explorer.ir.decisions.control import ControlDecision
from explorer.ir.program import Binding, Function, Program
from explorer.passes.simplify.dead_code import called_functions
from explorer.passes.simplify.substitution import with_reads


@dataclass(frozen=True, slots=True)
class IfConversion:
    """If-conversion of each branch for which both arms take less time than a decision and one arm.

    The candidates are recorded among the decisions.
    """

    device: Device
    price: Price

    def __call__(self, program: Program) -> Program:
        """Convert inner branches first, so that the arms of outer ones are straight-line code."""
        facts = BranchCosts(self.price, program.env, self.device)
        host, decided = analyse_host(program), dict[str, ControlDecision]()
        changed = True
        while changed:
            functions = {f.name: f for f in program.functions}
            host = replace(host, functions=functions)
            changed = False
            for function in program.functions:
                body: list[Binding] = []
                for b in function.body:
                    if not isinstance(b.expr, Branch) or host.is_host_only(b):
                        body.append(b)
                        continue
                    candidates = price_if_conversion(b, b.expr, functions, facts)
                    best = KEEP_BRANCH if candidates[0].refused else candidates[0].value
                    reason = candidates[0].refused or "predicted to take the least"
                    decided[b.name] = ControlDecision(b.name, "branch", best, candidates, reason)
                    if best == IF_CONVERT:
                        body += _convert(b, b.expr, functions)
                        changed = True
                    else:
                        body.append(b)
                program = program.with_function(replace(function, body=tuple(body)))
        decisions = replace(program.decisions, control=tuple(decided.values()))
        return replace(program, functions=tuple(called_functions(program)), decisions=decisions)


def _convert(b: Binding, branch: Branch, functions: dict[str, Function]) -> Iterator[Binding]:
    """Yield the bindings of both arms, then the kernels that select the results."""
    arm_results: list[Sequence[Var]] = []
    for arm, name in ((branch.then, "then"), (branch.orelse, "else")):
        function = functions[arm]
        values = {p.name: a for p, a in zip(function.params, branch.args, strict=True)}
        for inner in function.body:
            vars = tuple(replace(v, name=f"{b.name}.{name}.{v.name}") for v in inner.vars)
            yield Binding(vars, with_reads(inner.expr, values), inner.origin)
            values |= {v.name: new for v, new in zip(inner.vars, vars, strict=True)}
        arm_results.append([values.get(v.name, v) for v in function.outputs])
    for result, then, orelse in zip(b.vars, *arm_results, strict=True):
        call = KernelCall(select_kernel(branch.cond, result, b.origin), (branch.cond, then, orelse))
        yield Binding((result,), call, b.origin)
