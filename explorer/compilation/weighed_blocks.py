"""The thread blocks that were weighed for a kernel call, as candidates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.roller.blocks.thread_block import bound_normal, in_launched_names, in_own_names
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
    found = dict[Block, Candidate[Block]]()
    for g in (*planner.sheet.weighed(operator, sizes), *planner.sheet.of(operator, sizes)):
        if g.block is not None:
            block = in_own_names(g.block, bound)
            found.setdefault(block, Candidate(block.words, block, g.parts_us(device)))
    return tuple(sorted(found.values(), key=lambda c: c.cost_us))


def taken_blocks(program: Program, chosen: Chosen, binding: str, sizes: Sizes) -> tuple[Block, ...]:
    """Those of a call that a plan chose, likewise."""
    blocks = chosen.get(binding, ())
    calls = (b.kernel_call for b in program.kernel_calls if b.name == binding)
    call = next(calls, None) if blocks else None
    if call is None:
        return ()
    bound = bound_normal(call.kernel, sizes)
    return tuple(in_own_names(block, bound) for block in blocks)


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
