"""Thread blocks of a recorded run, for the plan of the same program."""

from __future__ import annotations

from collections.abc import Callable

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.measure.recorded_run import RecordedRun
from explorer.roller.blocks.thread_block import launched
from explorer.roller.blocks.validate_block import block_problem


def blocks_of(
    run: RecordedRun, program: Program, device: Device
) -> Callable[[Sizes], Chosen] | None:
    """Return the thread blocks that ran, for the recorded sizes, or None if the recording has none.

    Other sizes get the blocks that are chosen as usual. Blocks that a kernel cannot have are left
    out: another kernel ran, or the file is damaged.
    """
    ran, recorded = {**dict(program.env.hints), **dict(run.sizes)}, dict(run.blocks)
    blocks: dict[str, tuple[Block, ...]] = {}
    for b in program.kernel_calls:
        blocks_of_call = recorded.get(b.name, ())
        of = launched(b.kernel_call.kernel, ran) if blocks_of_call else None
        if of is not None and not any(block_problem(x, of, device) for x in blocks_of_call):
            blocks[b.name] = blocks_of_call
    return (lambda sizes: blocks if dict(sizes) == ran else {}) if blocks else None
