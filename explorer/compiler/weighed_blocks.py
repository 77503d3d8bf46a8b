"""Thread blocks of kernel calls: weighed as candidates, taken by the wall, set, or recorded."""

from __future__ import annotations

from collections.abc import Callable

from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Chosen, Tiling
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.measure.recorded_run import RecordedRun
from explorer.roller.blocks.candidates import block_problem, grid_candidates
from explorer.roller.blocks.thread_block import (
    axes_of,
    bound_normal,
    in_launched_names,
    in_own_names,
    launched,
)
from explorer.runtime.planning.plan import Planner


def weighed_blocks(planner: Planner, binding: str, sizes: Sizes) -> tuple[Candidate[Tiling], ...]:
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


def taken_blocks(
    program: Program, chosen: Chosen, binding: str, sizes: Sizes
) -> tuple[Tiling, ...]:
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
    decided = dict[str, tuple[Tiling, ...]]()
    decisions = {d.binding: d for d in program.decisions.tilings}
    for b in program.kernel_calls:
        block, decision = b.kernel_call.tiling, decisions.get(b.name)
        mine = decision is not None and decision.chosen == block  # what Roller left stands there
        if (
            block is None
            or not block.is_thread_block
            or (decision is not None and mine and decision.weighed)
        ):
            continue
        allowed = decision.allowed if decision is not None and mine else (block,)
        bound = bound_normal(b.kernel_call.kernel, sizes)
        if all(each.axes <= axes_of(bound) for each in allowed):
            decided[b.name] = tuple(in_launched_names(each, bound) for each in allowed)
    return decided


def blocks_of(
    run: RecordedRun, program: Program, device: Device
) -> Callable[[Sizes], Chosen] | None:
    """Return the thread blocks that ran, for the recorded sizes, or None if the recording has none.

    Other sizes get the blocks that are chosen as usual. Blocks that a kernel cannot have are left
    out: another kernel ran, or the file is damaged.
    """
    ran, recorded = {**dict(program.env.hints), **dict(run.sizes)}, dict(run.blocks)
    blocks: dict[str, tuple[Tiling, ...]] = {}
    for b in program.kernel_calls:
        blocks_of_call = recorded.get(b.name, ())
        of = launched(b.kernel_call.kernel, ran) if blocks_of_call else None
        if of is not None and not any(block_problem(x, of, device) for x in blocks_of_call):
            blocks[b.name] = blocks_of_call
    return (lambda sizes: blocks if dict(sizes) == ran else {}) if blocks else None
