"""Thread blocks that were weighed for a kernel call, as candidates."""

from __future__ import annotations

from contextlib import suppress

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.roller.blocks.candidates import grid_candidates
from explorer.roller.blocks.thread_block import bound_normal, in_launched_names, in_own_names
from explorer.runtime.planning.plan import Planner


def weighed_blocks(planner: Planner, binding: str, sizes: Sizes) -> tuple[Candidate[Block], ...]:
    """Return the candidates of a call under a binding, the fastest alone first.

    Axes have the kernel's own names. A block that was set by hand is among them.
    """
    every = (o for run in planner.runs for o in run.operators if o.binding == binding)
    operator = next(every, None)
    if operator is None or planner.sheet is None:
        return ()
    bound, device = bound_normal(operator.call.kernel, sizes), planner.sheet.device
    if not bound.computes:  # it has no elements
        return ()
    weighed = (*planner.sheet.all_grids(operator, sizes), *planner.sheet.of(operator, sizes))
    return grid_candidates(weighed, bound, device)


def taken_blocks(program: Program, chosen: Chosen, binding: str, sizes: Sizes) -> tuple[Block, ...]:
    """Return the blocks of a call that a plan chose, with axes in the kernel's own names."""
    blocks = chosen.get(binding, ())
    calls = (b.kernel_call for b in program.kernel_calls if b.name == binding)
    call = next(calls, None) if blocks else None
    if call is None:
        return ()
    bound = bound_normal(call.kernel, sizes)
    return tuple(in_own_names(block, bound) for block in blocks)


def decided_blocks(program: Program, sizes: Sizes) -> Chosen:
    """Return the blocks of calls for which a wall may not choose.

    These were set by hand, by a user's policy, or by a pass. Blocks with axes that a kernel does
    not have under these sizes are left out.
    """
    decided = dict[str, tuple[Block, ...]]()
    decisions = {d.binding: d for d in program.decisions.blocks}
    for b in program.kernel_calls:
        block, decision = b.kernel_call.block, decisions.get(b.name)
        mine = decision is not None and decision.chosen == block  # what Roller left stands there
        if block is None or (decision is not None and mine and decision.weighed):
            continue
        allowed = decision.allowed if decision is not None and mine else (block,)
        bound = bound_normal(b.kernel_call.kernel, sizes)
        with suppress(KeyError):
            decided[b.name] = tuple(in_launched_names(each, bound) for each in allowed)
    return decided
