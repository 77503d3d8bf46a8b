"""Whether both sides of a branch are computed and one is selected: what that would cost, or why it
would not be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.grinder.host import is_static
from explorer.ir.affine import Affine, affine
from explorer.ir.calls import Branch, KernelCall, ShapeOf, Var, View
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlWay
from explorer.ir.kernel import Apply, Compute, Kernel, Read, TensorSpec, at, axes, reads
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import ShapeEnv

BOTH, ONE = ControlWay("both"), ControlWay("device")
MOST_KERNELS = 16  # of a side: what is larger is not worth pricing; a bound on search time, chosen
MEETINGS = 2  # of all units, counted: before they look at the condition, and after a side
Price: TypeAlias = Callable[[Kernel, ShapeEnv], float]


@dataclass(frozen=True, slots=True)
class Facts:
    """What branches are weighed by: Roller's price of a kernel, on all units of a device. Threads
    that are asked for change nothing, so that they compile nothing.
    """

    price: Price
    env: ShapeEnv
    device: Device

    @property
    def barrier_us(self) -> float:
        """Until all units have met."""
        return self.device.barrier_us if self.device.units > 1 else self.device.task_ns / 1000


def weigh_if_conversion(
    binding: Binding, branch: Branch, functions: Mapping[str, Function], facts: Facts
) -> tuple[Candidate[ControlWay], ...]:
    """Both ways of a branch, the one to take first. Its cost by one side is the mean of its sides:
    nothing says which is taken more often.
    """
    sides = functions[branch.then], functions[branch.orelse]
    why = refusal(binding, branch.cond, sides)
    if why:
        return (Candidate("both sides", BOTH, refused=why),)
    work = [sum(facts.price(k, facts.env) for k in arm_kernels(side)) for side in sides]
    selected = (select_kernel(branch.cond, v, binding.origin) for v in binding.vars)
    chosen = sum(facts.price(kernel, facts.env) for kernel in selected)
    depth = max(len(list(arm_kernels(side))) for side in sides)
    both = Candidate(
        "both sides",
        BOTH,
        (("kernels", sum(work)), ("select", chosen), ("barriers", depth * facts.barrier_us)),
    )
    meetings = (MEETINGS + depth - 1) * facts.barrier_us
    one = Candidate("in the program", ONE, (("kernels", sum(work) / 2), ("barriers", meetings)))
    return (both, one) if both.cost_us < one.cost_us else (one, both)


def refusal(binding: Binding, cond: Var, sides: tuple[Function, Function]) -> str:
    """Why both sides cannot be computed, or not with the same results; "" where they can.

    Kernels are total: they divide by nothing without a trap, and selecting keeps NaN out. But a
    side may read where only its own condition says that there is something.
    """
    for side in sides:
        if any(not is_static(v) for b in side.body for v in (*b.vars, *b.reads)):
            return f"{side.name} has values of a shape that only a run tells"
        pairs = (*zip(side.outputs, binding.vars, strict=True),)
        if any(a.type != b.type for a, b in pairs):
            return f"{side.name} gives another type than the branch"
        for b in side.body:
            if not isinstance(b.expr, KernelCall | View | ShapeOf):
                return f"{b.vars[0].name} of {side.name} is no kernel"
        found = list(arm_kernels(side))
        if len(found) > MOST_KERNELS:
            return f"{side.name} is {len(found)} kernels, more than {MOST_KERNELS}"
        for kernel in found:
            if kernel.updates:
                return f"{kernel.name} of {side.name} writes over what it is given"
            if any(_by_data(c) for c in kernel.computes):
                return f"{kernel.name} of {side.name} reads where its data say"
    if not all(is_static(v) for v in (cond, *binding.vars)):
        return "its shapes are of values of the run"
    return ""


def arm_kernels(side: Function) -> Iterator[Kernel]:
    """The kernels of a side."""
    return (b.expr.kernel for b in side.body if isinstance(b.expr, KernelCall))


def select_kernel(cond: Var, result: Var, origin: frozenset[str]) -> Kernel:
    """The kernel that takes each element from one of two tensors."""
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


def _by_data(compute: Compute) -> bool:
    """Whether an index is no affine expression of the axes."""
    return any(not isinstance(i, Affine) for r in reads(compute.expr) for i in r.index)
