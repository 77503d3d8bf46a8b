"""The thread blocks of a recorded run for the plan of the same program."""

from __future__ import annotations

from collections.abc import Callable

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.measure.recorded_run import RecordedRun
from explorer.roller.blocks.possible_block import impossible
from explorer.roller.blocks.thread_block import launched


def blocks_of(
    run: RecordedRun, program: Program, device: Device
) -> Callable[[Sizes], Chosen] | None:
    """Under the sizes that were recorded the blocks that ran, under others those that are chosen
    as ever; None where the recording has none. Those that a kernel cannot have are left out: it is
    another one than ran, or the file is damaged.
    """
    ran, kept = {**dict(program.env.hints), **dict(run.sizes)}, dict(run.blocks)
    blocks: dict[str, tuple[Block, ...]] = {}
    for b in program.kernel_calls:
        found = kept.get(b.name, ())
        of = launched(b.kernel_call.kernel, ran) if found else None
        if of is not None and not any(impossible(x, of, device) for x in found):
            blocks[b.name] = found
    return (lambda sizes: blocks if dict(sizes) == ran else {}) if blocks else None
