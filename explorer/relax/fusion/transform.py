"""FuseTIR: the kernels of a group become one, in place of the last of them.

a: float32[n] = kernel exp(x); y: float32[n] = kernel add(a, b)
->  y: float32[n] = kernel fused_exp_add(x, b)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.ir.annotations import defined_by, symbols_in
from explorer.ir.calls import FunctionCall, KernelCall, ShapeOf, Var, View
from explorer.ir.kernels.merge import MergePart, merge
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import symbol
from explorer.ir.stage import Stage
from explorer.ir.symbols import symbols_of_kernel
from explorer.ir.types import ShapeType
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import record_match
from explorer.relax.fusion.model import BindingGroup, FusionPlan, GroupFunction
from explorer.relax.fusion.policy import Limits, plan
from explorer.relax.fusion.views import view_kernel

MOST_WORDS = 6  # of a fused kernel's name; chosen


@compiler_pass("fuse-ops", paper="Relax, ASPLOS 2025, section 4.2: dynamic shape-aware fusion")
@dataclass(frozen=True, slots=True)
class FuseOps:
    """Operator groups as fused kernels.

    After: each group of operators is one kernel; its intermediates are not stored.

    `merge` False stops before FuseTIR: each group is then a private function that is called, with
    `shape(n)` as its last argument if its other parameters do not define n.
    """

    limits: Limits = Limits()
    merge: bool = True

    def __call__(self, program: Program) -> Program:
        """Return the program with its groups fused, and the plans among its decisions."""
        plans: list[FusionPlan] = []
        outlined: list[Function] = []
        for function in program.functions:
            fusion_plan = plan(program, function, self.limits)
            fused, functions = _fused(program, function, fusion_plan)
            if not self.merge:
                fused, group_functions = outline(program, function, functions)
                outlined += group_functions
            plans.append(replace(fusion_plan, functions=functions))
            program = program.with_function(fused)
        return replace(
            program,
            functions=(*program.functions, *outlined),
            stage=max(program.stage, Stage.LEGALIZED),
            decisions=replace(program.decisions, fusion=tuple(plans)),
        )


def _fused(
    program: Program, function: Function, fusion_plan: FusionPlan
) -> tuple[Function, tuple[GroupFunction, ...]]:
    """Return a function with each group as one binding, and the groups as functions."""
    bindings = {b.vars[0].name: b for b in function.body if b.vars}
    groups = {g.name: g for g in fusion_plan.groups if _is_fused(g, bindings)}
    inside = {m for g in groups.values() for m in g.members} - groups.keys()
    body: list[Binding] = []
    functions: list[GroupFunction] = []
    for binding in function.body:
        name = binding.vars[0].name if binding.vars else ""
        if name in inside:
            continue
        if name in groups:
            members = [bindings[m] for m in groups[name].members]
            binding = merge_members(program, members)
            record_match(plan, tuple(members), (binding,), "fuse a group")
            prefix = "" if function.name == program.main.name else f"{function.name}."
            functions.append(group_function(f"fused_{prefix}{name}", groups[name], binding))
        body.append(binding)
    return replace(function, body=tuple(body)), tuple(functions)


def outline(
    program: Program, function: Function, groups: tuple[GroupFunction, ...]
) -> tuple[Function, list[Function]]:
    """Return the function with a call for each group, and the groups as private functions.

    All functions see the constants, so they are not passed.
    """
    members = {m: g for g in groups for m in g.members}
    inside: dict[str, list[Binding]] = {g.name: [] for g in groups}
    body: list[Binding] = []
    for binding in function.body:
        group = members.get(binding.vars[0].name) if binding.vars else None
        if group is None:
            body.append(binding)
            continue
        inside[group.name].append(binding)
        if binding.vars[0].name == group.result.name:
            origin = frozenset[str]().union(*(b.origin for b in inside[group.name]))
            passed = tuple(p for p in group.params if p.name not in program.constants)
            shape = group.shape_parameter
            if shape is not None:
                assert shape.dims is not None
                body.append(Binding((passed[-1],), ShapeOf(shape.dims), origin))
            body.append(Binding(binding.vars, FunctionCall(group.name, passed), origin))
    private = [
        Function(
            g.name,
            tuple(p for p in g.params if p.name not in program.constants),
            tuple(inside[g.name]),
            (g.result,),
        )
        for g in groups
    ]
    return replace(function, body=tuple(body)), private


def _is_fused(group: BindingGroup, bindings: dict[str, Binding]) -> bool:
    """Return True if a group has kernels to merge; views alone stay views, which cost nothing."""
    several = len(group.members) > 1
    return several and any(isinstance(bindings[m].expr, KernelCall) for m in group.members)


def merge_members(program: Program, members: list[Binding]) -> Binding:
    """Return the last member's value by a kernel that computes all members."""
    parts = [_part(b, program) for b in members]
    words = list(dict.fromkeys(p.kernel.name for p in parts))
    more = [f"and_{len(words) - MOST_WORDS}_more"] if len(words) > MOST_WORDS else []
    name = "_".join(["fused", *words[:MOST_WORDS], *more])
    kernel, inputs = merge(name, parts)
    args = {v.name: v for b in members for v in b.reads}
    origin = frozenset[str]().union(*(b.origin for b in members))
    call = KernelCall(kernel, tuple(args[a] for a in inputs))
    return Binding(members[-1].vars, call, origin)


def _part(binding: Binding, program: Program) -> MergePart:
    match binding.expr:
        case KernelCall(kernel, args, _):
            return MergePart(kernel, binding.var.name, tuple(a.name for a in args))
        case View(arg, _):
            copy = view_kernel(binding, program)
            assert copy is not None, "the policy takes in views that are kernels"
            return MergePart(copy, binding.var.name, (arg.name,))
    raise AssertionError(f"{binding.var.name} is no kernel")


def group_function(name: str, group: BindingGroup, fused: Binding) -> GroupFunction:
    """Return the group as a function.

    A kernel call may use any symbol of its caller. A function sees only those that its parameters
    define, and gets the others in a shape.
    """
    args, result = fused.kernel_call.args, fused.var
    needed = symbols_of_kernel(fused.kernel_call.kernel) | symbols_in(result.type)
    defined = frozenset[str]()
    for arg in args:
        needed |= symbols_in(arg.type)
        defined |= frozenset(defined_by(arg.type))
    missing = sorted(needed - defined)
    extra: tuple[Var, ...] = ()
    if missing:
        extra = (Var(f"{group.name}.shape", ShapeType(tuple(symbol(n) for n in missing))),)
    return GroupFunction(name, (*args, *extra), result, group.members)
