"""If-conversion of branches with small arms: both arms are computed, and one result is selected.

y = if c: f(x) else g(x)  ->  a = f(x); b = g(x); y = where(c, a, b)

The result is straight-line code: kernels of both arms fuse with their neighbours, and no unit waits
for the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.grinder.host import analyse_host, is_static
from explorer.ir.affine import Affine, affine
from explorer.ir.calls import Branch, KernelCall, ShapeOf, Var, View
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlDecision, ControlSchedule
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Compute, Kernel, Read, TensorSpec, at, axes, reads
from explorer.ir.program import Binding, Function, Program
from explorer.transforms.simplify.redundancy import called_functions
from explorer.transforms.simplify.substitution import with_reads


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


IF_CONVERT, KEEP_BRANCH = ControlSchedule("both"), ControlSchedule("device")
MOST_KERNELS = 16  # of an arm; larger ones are not priced: a bound on search time, chosen
BARRIERS = 2  # of all units, counted: before the condition is read, and after an arm
Price: TypeAlias = Callable[[Kernel, ShapeEnv], float]


@dataclass(frozen=True, slots=True)
class BranchCosts:
    """Costs of branches: Roller's price of a kernel on all units of a device.

    A requested thread count does not change them, so that it compiles nothing anew.
    """

    price: Price
    env: ShapeEnv
    device: Device

    @property
    def barrier_us(self) -> float:
        """The time until all units have met at a barrier."""
        return self.device.barrier_us if self.device.units > 1 else self.device.task_ns / 1000


def price_if_conversion(
    binding: Binding, branch: Branch, functions: Mapping[str, Function], facts: BranchCosts
) -> tuple[Candidate[ControlSchedule], ...]:
    """Return both candidates of a branch, cheaper first.

    The cost of taking the branch is the mean of its arms, because nothing tells which is taken more
    often.
    """
    arms = functions[branch.then], functions[branch.orelse]
    reason = refusal(binding, branch.cond, arms)
    if reason:
        return (Candidate("both sides", IF_CONVERT, refused=reason),)
    work = [sum(facts.price(k, facts.env) for k in arm_kernels(arm)) for arm in arms]
    selects = (select_kernel(branch.cond, v, binding.origin) for v in binding.vars)
    select_us = sum(facts.price(kernel, facts.env) for kernel in selects)
    depth = max(len(list(arm_kernels(arm))) for arm in arms)
    both_arms = Candidate(
        "both sides",
        IF_CONVERT,
        (("kernels", sum(work)), ("select", select_us), ("barriers", depth * facts.barrier_us)),
    )
    barriers = (BARRIERS + depth - 1) * facts.barrier_us
    branch_cost = Candidate(
        "in the program", KEEP_BRANCH, (("kernels", sum(work) / 2), ("barriers", barriers))
    )
    return (
        (both_arms, branch_cost)
        if both_arms.cost_us < branch_cost.cost_us
        else (branch_cost, both_arms)
    )


def refusal(binding: Binding, cond: Var, arms: tuple[Function, Function]) -> str:
    """Return why both arms cannot be computed with the same results; "" if they can.

    Kernels are total: division does not trap, and selecting keeps NaN out. But an arm may read an
    element that exists only under its own condition.
    """
    for arm in arms:
        if any(not is_static(v) for b in arm.body for v in (*b.vars, *b.reads)):
            return f"{arm.name} has values whose shapes only a run knows"
        pairs = (*zip(arm.outputs, binding.vars, strict=True),)
        if any(a.type != b.type for a, b in pairs):
            return f"{arm.name} has another type than the branch"
        for b in arm.body:
            if not isinstance(b.expr, KernelCall | View | ShapeOf):
                return f"{b.vars[0].name} of {arm.name} is not a kernel"
        kernels = list(arm_kernels(arm))
        if len(kernels) > MOST_KERNELS:
            return f"{arm.name} is {len(kernels)} kernels, more than {MOST_KERNELS}"
        for kernel in kernels:
            if kernel.updates:
                return f"{kernel.name} of {arm.name} overwrites an argument"
            if any(_is_data_dependent(c) for c in kernel.computes):
                return f"{kernel.name} of {arm.name} has data-dependent reads"
    if not all(is_static(v) for v in (cond, *binding.vars)):
        return "its shapes depend on values of the run"
    return ""


def arm_kernels(arm: Function) -> Iterator[Kernel]:
    """Return the kernels of an arm."""
    return (b.expr.kernel for b in arm.body if isinstance(b.expr, KernelCall))


def select_kernel(cond: Var, result: Var, origin: frozenset[str]) -> Kernel:
    """Return the kernel that takes each element from one of two tensors."""
    kind, flag = result.tensor, cond.tensor
    over = axes("i", kind.dims)
    first = Read("cond", tuple(affine({}, 0) for _ in flag.dims))
    chosen = Apply("where", (first, at("then", over), at("orelse", over)))
    specs = (
        TensorSpec("cond", flag.dims, flag.element),
        TensorSpec("then", kind.dims, kind.element),
        TensorSpec("orelse", kind.dims, kind.element),
        TensorSpec("out", kind.dims, kind.element),
    )
    compute = Compute("out", over, chosen, origin=origin)
    return Kernel("select", specs, (compute,), ("cond", "then", "orelse"), ("out",))


def _is_data_dependent(compute: Compute) -> bool:
    """Return True if an index is not affine in the axes."""
    return any(not isinstance(i, Affine) for r in reads(compute.expr) for i in r.index)
