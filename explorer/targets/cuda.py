"""The target of GPUs: tasks as thread blocks over shared memory, as Numba CUDA or as plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.codegen.cuda.assemble import with_lines
from explorer.codegen.cuda.block_kernel import BlockKernel, print_blocks
from explorer.codegen.cuda.build import print_block
from explorer.devices.listing import Listings
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import Steps, Target
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Chosen, Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.roller.block_tiler import BlockTiler
from explorer.roller.blocks.candidates import (
    alone_us,
    block_candidates,
    block_refusal,
    weigh_block,
    why_no_blocks,
)
from explorer.roller.blocks.gpu_candidates import has_cold_constants
from explorer.roller.blocks.thread_block import thread_block_steps
from explorer.roller.construct.expression import Expression
from explorer.roller.construct.gpu_rules import GpuRules
from explorer.roller.transform import Options
from explorer.runtime.planning.sheet_times import SheetTimes

REGISTER_BYTES = 4  # of one register of a thread
MOST_RESIDENT = 4  # blocks of a unit (Welder artifact)
NEEDED = ("block_threads", "block_shared_bytes", "transaction_bytes", "banks")  # of a data sheet


class ThreadBlocks(Target):
    """Units that hold blocks of threads, with shared memory that a program manages."""

    uses_thread_blocks = True
    refines_tiles = False
    is_emitted = False
    has_resident_workers = False
    packs_weights = False
    copies_symbolic_steps = False
    stacks_rows_in_place = False
    weighs_splits = True
    align_bytes = 32  # of buffers in shared memory (Welder artifact)

    def memories(self, device: Device) -> tuple[LevelMemory, ...]:
        """Return the registers of a thread, shared memory, and DRAM.

        The cache between shared memory and DRAM is left out: no tile is placed in it (Welder,
        section 3.2). DRAM reads its lines at once, and the L2 writes its transactions (artifact).
        """
        near, far = device.levels[0], device.levels[-1]
        room = device.thread_registers * REGISTER_BYTES
        write = device.transaction_bytes or far.line_bytes
        speed = device.all_gb_per_s(near), device.all_gb_per_s(far)
        return (
            LevelMemory("register", room, 1, 1, speed[0]),
            LevelMemory("shared", near.capacity_bytes, far.line_bytes, write, speed[1]),
            LevelMemory(far.name, None, 1, 1, 0.0, True),
        )

    def tile_levels(self, device: Device) -> range:
        """Return shared memory alone."""
        return range(1, 2)

    def tile_memory(self, device: Device) -> LevelMemory:
        """Return shared memory."""
        return self.memories(device)[1]

    def most_elements(self, device: Device) -> int | None:
        """Return half of a block's registers (Welder artifact).

        The threads of a warp keep what their block computes in registers, all of it at once, and as
        many again beside it. Threads that share no instruction (one lane: those of an IPU's tile)
        loop over the memory of their unit, in pieces of `thread_registers` at most. Their results
        are there, where the footprint is counted, and no register limits it.
        """
        return device.block_registers // 2 if device.lanes > 1 else None

    def resident(self, device: Device, tile_bytes: int, elements: int) -> int:
        """Return as many blocks as are allowed and fit shared memory and registers."""
        together = min(MOST_RESIDENT, device.unit_blocks or MOST_RESIDENT)
        together = min(together, device.unit_shared_bytes // max(1, tile_bytes))
        most = self.most_elements(device)
        if most is not None:
            together = min(together, most // max(1, elements))
        return max(1, together)

    def tile_rules(self, device: Device, expression: Expression, streamed: bool) -> GpuRules:
        """Return the rules of a thread's registers and a block's shared memory."""
        missing = [n for n in NEEDED if not getattr(device, n)]
        if missing:
            raise BadOption(
                f"no tiles can be constructed for {device.name}: its data sheet lacks {missing[0]}"
            )
        return GpuRules(device, streamed)

    def candidates(
        self, kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int
    ) -> Iterator[Candidate[Tiling]]:
        """Yield the thread blocks that a wall may take, fastest alone first."""
        return iter(block_candidates(kernel, device, sizes))

    def weigh(
        self, kernel: Kernel, tiling: Tiling, program: Program, sizes: Sizes, device: Device
    ) -> Candidate[Tiling]:
        """Return a block with its modelled time alone on the device, or the rule that it breaks."""
        return weigh_block(kernel, tiling, device, sizes, has_cold_constants(program, device))

    def call_tiler(self, program: Program, device: Device, options: Options) -> BlockTiler:
        """Return the tiler of a program's calls."""
        return BlockTiler(program, device, options)

    def broken_rule(self, call: KernelCall, name: str, env: ShapeEnv, device: Device) -> str:
        """Return the rule that a call's thread block breaks, else "".

        A kernel without a tile program for thread blocks needs none.
        """
        if call.tiling is None:
            none = why_no_blocks(call.kernel, device, env.hints)
            return "" if none else f"{name!r} has no thread block"
        why = block_refusal(call.kernel, call.tiling, device, env.hints)
        return f"the thread block of {name!r} is not legal: {why}" if why else ""

    def why_no_tiles(self, kernel: Kernel, device: Device, sizes: Sizes) -> str:
        """Return why a kernel has no thread blocks."""
        return why_no_blocks(kernel, device, sizes)

    def price_us(self, kernel: Kernel, device: Device, env: ShapeEnv, top_k: int) -> float:
        """Return the modelled microseconds of the blocks that finish first."""
        return alone_us(kernel, device, env.hints)

    def steps(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Steps:
        """Return the tile program of a block under one binding after each rewrite."""
        return thread_block_steps(kernel, device, env, sizes, tiling)

    def grid_times(
        self, program: Program, device: Device, chosen: Callable[[Sizes], Chosen] | None = None
    ) -> SheetTimes:
        """Return the times of grids of thread blocks."""
        return SheetTimes(program, device, chosen)


class Cuda(ThreadBlocks):
    """Thread blocks as Numba CUDA; devices without a compute capability have plans only."""

    prints_cuda = True

    def print(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> str:
        """Return the Numba CUDA source of a block in canonical names; errors as `print_block`."""
        return print_block(kernel, device, env, sizes, tiling).source

    def listings(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Listings:
        """Return PTX and, with a disassembler, SASS."""
        return with_lines(print_block(kernel, device, env, sizes, tiling), device)

    def printed(
        self, program: Program, device: Device, sizes: Sizes, chosen: Chosen
    ) -> tuple[BlockKernel, ...]:
        """Return every kernel call as a thread block; none without a compute capability."""
        return print_blocks(program, device, sizes, chosen) if device.takes_cuda else ()


TARGET = Cuda()
