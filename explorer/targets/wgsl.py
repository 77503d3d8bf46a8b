"""The target of WebGPU: the thread blocks of GPUs as compute shaders in WGSL.

A workgroup is a thread block: candidates, rewrites and prices are those of `ThreadBlocks`, under
the limits of the data sheet. Tiles of elements of 1 and 2 bytes are smaller, as an element has 4 in
workgroup memory. Compiling ends with source and plan; `explorer.portable.webgpu` makes a program of
them that a browser runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.codegen.wgsl.build import print_shader, tiled_for
from explorer.codegen.wgsl.integers import unbounded_integers
from explorer.codegen.wgsl.parts import print_parts
from explorer.cost.thread_blocks import ThreadBlocks as ThreadBlockTimes
from explorer.devices.model import Device
from explorer.devices.target import PrintedKernel, Steps
from explorer.errors import BadOption, CheckFailed
from explorer.grinder import OperatorTask
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Chosen, Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding, Program
from explorer.roller.block_tiler import BlockTiler
from explorer.roller.transform import Options
from explorer.runtime.planning.sheet_times import SheetTimes
from explorer.targets.cuda import ThreadBlocks


class WebGpu(ThreadBlocks):
    """Thread blocks as WGSL; each call is a dispatch, and no workgroup waits for another one."""

    launches_each_call = True

    def candidates(
        self, kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int
    ) -> Iterator[Candidate[Tiling]]:
        """Yield the workgroups that a wall may take, fastest alone first."""
        return super().candidates(kernel, tiled_for(kernel, device), env, sizes, top_k)

    def weigh(
        self, kernel: Kernel, tiling: Tiling, program: Program, sizes: Sizes, device: Device
    ) -> Candidate[Tiling]:
        """Return a workgroup with its modelled time alone, or the rule that it breaks."""
        return super().weigh(kernel, tiling, program, sizes, tiled_for(kernel, device))

    def call_tiler(self, program: Program, device: Device, options: Options) -> BlockTiler:
        """Return the tiler of a program's calls."""
        return WorkgroupTiler(program, device, options)

    def broken_rule(self, call: KernelCall, name: str, env: ShapeEnv, device: Device) -> str:
        """Return the rule that a call's workgroup breaks, else ""."""
        return super().broken_rule(call, name, env, tiled_for(call.kernel, device))

    def why_no_tiles(self, kernel: Kernel, device: Device, sizes: Sizes) -> str:
        """Return why a kernel has no workgroups."""
        return super().why_no_tiles(kernel, tiled_for(kernel, device), sizes)

    def price_us(self, kernel: Kernel, device: Device, env: ShapeEnv, top_k: int) -> float:
        """Return the modelled microseconds of the workgroups that finish first."""
        return super().price_us(kernel, tiled_for(kernel, device), env, top_k)

    def steps(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Steps:
        """Return the tile program of a workgroup under one binding after each rewrite."""
        return super().steps(kernel, tiling, env, sizes, tiled_for(kernel, device))

    def grid_times(
        self, program: Program, device: Device, chosen: Callable[[Sizes], Chosen] | None = None
    ) -> SheetTimes:
        """Return the times of grids of workgroups."""
        return WorkgroupTimes(program, device, chosen)

    def print(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> str:
        """Return the WGSL source of a workgroup in canonical names."""
        return print_shader(kernel, device, env, sizes, tiling).source

    def printed(
        self, program: Program, device: Device, sizes: Sizes, chosen: Chosen
    ) -> tuple[PrintedKernel, ...]:
        """Return every kernel call as a shader, or why it is none."""
        unbounded = unbounded_integers(program, sizes)
        return tuple(
            _printed(b, block, program, device, sizes, unbounded.get(b.name, ""))
            for b in program.kernel_calls
            for block in chosen.get(b.name, (None,))
        )


def _printed(
    b: Binding, block: Tiling | None, program: Program, device: Device, sizes: Sizes, why: str
) -> PrintedKernel:
    """Return a call as shaders, or why it is none: `why`, or the printer's reason."""
    source, kernel = "", b.kernel_call.kernel
    try:
        if not why:
            parts = print_parts(kernel, device, program.env, sizes, block)
            source = "\n".join(shader.source for _, shader in parts)
    except (BadOption, CheckFailed) as problem:
        why = problem.sentence
    return PrintedKernel(b.name, b.origin, device, source, None, why)


class WorkgroupTiler(BlockTiler):
    """Tiler of calls under the workgroup memory that elements take."""

    def __call__(self, call: KernelCall, name: str) -> KernelCall:
        """Return a call in normal form with its workgroup, if it has a tile program for one."""
        everything = self.device
        self.device = tiled_for(call.kernel, everything)
        try:
            return super().__call__(call, name)
        finally:
            self.device = everything


class WorkgroupTimes(SheetTimes):
    """Times of grids of workgroups."""

    def _of(
        self, operator: OperatorTask, sizes: Sizes, blocks: tuple[Tiling, ...]
    ) -> tuple[ThreadBlockTimes, ...]:
        everything = self.device
        self.device = tiled_for(operator.call.kernel, everything)
        try:
            return super()._of(operator, sizes, blocks)
        finally:
            self.device = everything


TARGET = WebGpu()
