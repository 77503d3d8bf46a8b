"""The thread blocks that were weighed for a kernel call, as candidates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.roller.thread_block import bound_normal, in_launched_names, in_own_names
from explorer.runtime.planning.plan import Planner


def weighed_blocks(planner: Planner, binding: str, sizes: Sizes) -> tuple[Candidate[Block], ...]:
    """Those of a call under a binding, in the kernel's own names, the fastest alone first; among
    them one that was set by hand.
    """
    every = (o for run in planner.runs for o in run.operators if o.binding == binding)
    operator = next(every, None)
    if operator is None or planner.sheet is None:
        return ()
    bound, device = bound_normal(operator.call.kernel, sizes), planner.sheet.device
    if not bound.computes:  # it has no elements
        return ()
    found = []
    both = (*planner.sheet.weighed(operator, sizes), *planner.sheet.of(operator, sizes))
    for g in dict.fromkeys(both):
        if g.block is not None:
            block = in_own_names(g.block, bound)
            found.append(Candidate(block.words, block, g.parts_us(device)))
    once = {c.value: c for c in reversed(found)}
    return tuple(sorted(once.values(), key=lambda c: c.cost_us))


def taken_blocks(planner: Planner, binding: str, sizes: Sizes) -> tuple[Block, ...]:
    """Those of the wall, likewise: one, but where several runs choose differently."""
    calls = (o.call for run in planner.runs for o in run.operators if o.binding == binding)
    call, found = next(calls, None), planner.plan(dict(sizes)).blocks.get(binding, ())
    if call is None:
        return ()
    bound = bound_normal(call.kernel, sizes)
    return tuple(in_own_names(block, bound) for block in found)


def set_by_hand(program: Program, blocks: Mapping[str, Block], sizes: Sizes) -> Chosen:
    """Thread blocks in the names of kernels' axes as the plan of a binding takes them; those that a
    kernel has no axes for under these sizes are left out.
    """
    found = {}
    for b in program.kernel_calls:
        if b.name in blocks:
            bound = bound_normal(b.kernel_call.kernel, sizes)
            with suppress(KeyError):
                found[b.name] = (in_launched_names(blocks[b.name], bound),)
    return found
