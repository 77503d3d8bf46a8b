"""The thread blocks that were weighed for a kernel call, as candidates."""

from __future__ import annotations

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block
from explorer.ir.shapes.dims import Sizes
from explorer.roller.thread_block import bound_normal, in_own_names
from explorer.runtime.planning.plan import Planner


def weighed_blocks(planner: Planner, binding: str, sizes: Sizes) -> tuple[Candidate[Block], ...]:
    """Those of a call under a binding, in the kernel's own names, the fastest alone first."""
    every = (o for run in planner.runs for o in run.operators if o.binding == binding)
    operator = next(every, None)
    if operator is None or planner.sheet is None:
        return ()
    bound, device = bound_normal(operator.call.kernel, sizes), planner.sheet.device
    found = []
    for g in planner.sheet.of(operator, sizes):
        if g.block is not None:
            block = in_own_names(g.block, bound)
            found.append(Candidate(block.words, block, g.parts_us(device)))
    return tuple(sorted(found, key=lambda c: c.cost_us))


def taken_blocks(planner: Planner, binding: str, sizes: Sizes) -> tuple[Block, ...]:
    """Those of the wall, likewise: one, but where several runs choose differently."""
    calls = (o.call for run in planner.runs for o in run.operators if o.binding == binding)
    call, found = next(calls, None), planner.plan(dict(sizes)).blocks.get(binding, ())
    if call is None:
        return ()
    bound = bound_normal(call.kernel, sizes)
    return tuple(in_own_names(block, bound) for block in found)
