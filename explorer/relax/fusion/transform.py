"""FuseTIR: the kernels of a group become one, which stands where the last of them stood.

a: float32[n] = kernel exp(x); y: float32[n] = kernel add(a, b)
->  y: float32[n] = kernel fused_exp_add(x, b)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.ir.annotations import defined_by, symbols_in
from explorer.ir.calls import KernelCall, Var, View
from explorer.ir.dims import symbol
from explorer.ir.merge import Part, merge
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.symbols import symbols_of_kernel
from explorer.ir.types import ShapeType
from explorer.passes.registry import compiler_pass
from explorer.relax.fusion.model import FusionPlan, Group, GroupFunction
from explorer.relax.fusion.policy import Limits, plan
from explorer.relax.fusion.views import view_kernel

MOST_WORDS = 6  # of a fused kernel's name


@compiler_pass("fuse-ops", paper="Relax, ASPLOS 2025, section 4.2: dynamic shape-aware fusion")
@dataclass(frozen=True, slots=True)
class FuseOps:
    """After: each group of operators is one kernel; its intermediates are stored nowhere."""

    limits: Limits = Limits()

    def __call__(self, program: Program) -> Program:
        """The program with fused kernels, and the plans of its functions among the decisions."""
        plans: list[FusionPlan] = []
        for function in program.functions:
            found = plan(program, function, self.limits)
            fused, functions = _fused(program, function, found)
            plans.append(replace(found, functions=functions))
            program = program.with_function(fused)
        decisions = replace(program.decisions, fusion=tuple(plans))
        return replace(program, stage=max(program.stage, Stage.LEGALIZED), decisions=decisions)


def _fused(
    program: Program, function: Function, found: FusionPlan
) -> tuple[Function, tuple[GroupFunction, ...]]:
    """A function with each group as one binding, and the groups as functions of their own."""
    bindings = {b.vars[0].name: b for b in function.body if b.vars}
    groups = {g.name: g for g in found.groups if _is_fused(g, bindings)}
    inside = {m for g in groups.values() for m in g.members} - groups.keys()
    body: list[Binding] = []
    functions: list[GroupFunction] = []
    for binding in function.body:
        name = binding.vars[0].name if binding.vars else ""
        if name in inside:
            continue
        if name in groups:
            binding = one_kernel(program, [bindings[m] for m in groups[name].members])
            functions.append(group_function(groups[name], binding))
        body.append(binding)
    return replace(function, body=tuple(body)), tuple(functions)


def _is_fused(group: Group, bindings: dict[str, Binding]) -> bool:
    """Whether there is something to merge; views alone stay views, which cost nothing."""
    several = len(group.members) > 1
    return several and any(isinstance(bindings[m].expr, KernelCall) for m in group.members)


def one_kernel(program: Program, members: list[Binding]) -> Binding:
    """The last member's value by a kernel that does what all of them do."""
    parts = [_part(b, program) for b in members]
    words = list(dict.fromkeys(p.kernel.name for p in parts))
    more = [f"and_{len(words) - MOST_WORDS}_more"] if len(words) > MOST_WORDS else []
    name = "_".join(["fused", *words[:MOST_WORDS], *more])
    kernel, given = merge(name, parts)
    args = {v.name: v for b in members for v in b.reads}
    origin = frozenset[str]().union(*(b.origin for b in members))
    call = KernelCall(kernel, tuple(args[a] for a in given))
    return Binding(members[-1].vars, call, origin)


def _part(binding: Binding, program: Program) -> Part:
    match binding.expr:
        case KernelCall(kernel, args, _):
            return Part(kernel, binding.var.name, tuple(a.name for a in args))
        case View(arg, _):
            copy = view_kernel(binding, program)
            assert copy is not None, "the policy takes in views that are kernels"
            return Part(copy, binding.var.name, (arg.name,))
    raise AssertionError(f"{binding.var.name} is no kernel")


def group_function(group: Group, fused: Binding) -> GroupFunction:
    """The group as a function. A kernel call may use any symbol of its caller; a function knows
    only those that its parameters define, and takes the others as a shape.
    """
    assert isinstance(fused.expr, KernelCall)
    args, result = fused.expr.args, fused.var
    needed = symbols_of_kernel(fused.expr.kernel) | symbols_in(result.type)
    defined = frozenset[str]()
    for arg in args:
        needed |= symbols_in(arg.type)
        defined |= frozenset(defined_by(arg.type))
    missing = sorted(needed - defined)
    extra: tuple[Var, ...] = ()
    if missing:
        extra = (Var(f"{group.name}.shape", ShapeType(tuple(symbol(n) for n in missing))),)
    return GroupFunction(f"fused_{group.name}", (*args, *extra), result, group.members)
