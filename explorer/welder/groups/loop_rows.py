"""Rows that a loop reads in place: `x_t = x[t]` is a pointer that moves, and no copy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from explorer.ir.calls import KernelCall, Loop
from explorer.ir.kernel import Kernel, reads
from explorer.ir.patterns.row_copy import row_copy
from explorer.ir.program import Binding, Function, Program


@dataclass(frozen=True, slots=True)
class _Trip:
    """The values of a loop's body that depend on the iteration only, or are loop-invariant."""

    counts: frozenset[str]
    outside: frozenset[str]


def loop_rows(function: Function, program: Program) -> frozenset[str]:
    """Return the values of a function that are rows of loop-invariant values.

    The function is a loop's body, and the row's index depends on the iteration only.
    """
    loops = [
        b.expr
        for _, b in program.bindings()
        if isinstance(b.expr, Loop) and b.expr.body == function.name
    ]
    if not loops:
        return frozenset()
    first = 2 + max(len(loop.state) for loop in loops)
    outside = {p.name for p in function.params[first:]} | program.constants.keys()
    trip = _Trip(_counts(function, program), frozenset(outside))
    calls = (b for b in function.body if isinstance(b.expr, KernelCall))
    return frozenset(b.name for b in calls if _is_row(b, b.kernel_call, trip))


def _counts(function: Function, program: Program) -> frozenset[str]:
    """Return scalars that are computed from the iteration and constants only."""
    iteration_scalars = {function.params[0].name} | program.constants.keys()
    for binding in function.body:
        call = binding.expr
        if not isinstance(call, KernelCall) or not _is_scalar(call.kernel):
            continue
        if all(a.name in iteration_scalars for a in call.args):
            iteration_scalars.update(v.name for v in binding.vars)
    return frozenset(iteration_scalars)


def _is_scalar(kernel: Kernel) -> bool:
    return all(not c.axes and not c.reduce for c in kernel.computes)


def _is_row(binding: Binding, call: KernelCall, trip: _Trip) -> bool:
    copy = row_copy(call.kernel)
    if copy is None:
        return False
    arg_names = dict(zip(call.kernel.inputs, (a.name for a in call.args), strict=True))
    (compute,) = call.kernel.computes
    within: Collection[str] = {arg_names[r.tensor] for r in reads(compute.expr)} - {
        arg_names[copy.tensor]
    }
    return (
        arg_names[copy.tensor] in trip.outside and bool(within) and trip.counts.issuperset(within)
    )
