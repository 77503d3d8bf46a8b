"""The target of processors: tasks on cores with vectors and caches, compiled by Numba and LLVM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from explorer.devices.listing import Listings
from explorer.devices.model import Device, LevelMemory
from explorer.devices.target import Steps, Target
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ir.tile_program import FARTHEST

if TYPE_CHECKING:  # a method loads what it asks: a program from the cache is tiled already
    from explorer.roller.construct.cpu_rules import CpuRules
    from explorer.roller.construct.expression import Expression
    from explorer.roller.core_tiler import CoreTiler
    from explorer.roller.transform import Options

LANE_BYTES = 4  # of one lane of a vector register
VECTOR_LEVEL, TASK_LEVEL = "L1", "L2"  # where rewrites put scratch of a register tile, of a task


class Cores(Target):
    """Cores with vector registers and caches; a task runs on one core.

    Compiling ends with a plan, and a subclass prints its code: `Cpu` is one of them.
    """

    is_emitted = False

    def memories(self, device: Device) -> tuple[LevelMemory, ...]:
        """Return registers, every cache, and DRAM; a cache moves whole lines."""
        levels = device.levels
        room = device.registers * device.lanes * LANE_BYTES
        memories = [LevelMemory("register", room, 1, 1, device.all_gb_per_s(levels[0]))]
        for near, far in pairwise(levels):
            line, capacity, speed = near.line_bytes, near.capacity_bytes, device.all_gb_per_s(far)
            memories.append(LevelMemory(near.name, capacity, line, line, speed, near.shared, True))
        return (*memories, LevelMemory(levels[-1].name, None, 1, 1, 0.0, True))

    def tile_levels(self, device: Device) -> range:
        """Return the caches, nearest first."""
        return range(1, max(2, len(device.levels)))

    def tile_memory(self, device: Device) -> LevelMemory:
        """Return the last private cache, else the last cache."""
        memories = self.memories(device)
        return next((m for m in reversed(memories[1:-1]) if not m.shared), memories[-2])

    def most_elements(self, device: Device) -> int | None:
        """Return None: what a task computes lies in caches."""
        return None

    def resident(self, device: Device, tile_bytes: int, elements: int) -> int:
        """Return 1: a core runs one task."""
        return 1

    def tile_rules(self, device: Device, expression: Expression, streamed: bool) -> CpuRules:
        """Return the rules of vector registers and private caches."""
        from explorer.roller.construct.cpu_rules import CpuRules

        return CpuRules(device, expression, streamed)

    def candidates(
        self, kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int
    ) -> Iterator[Candidate[Tiling]]:
        """Yield the tilings of a kernel, best first, then refused ones."""
        from explorer.roller.policy import tile_candidates

        return tile_candidates(kernel, device, env, sizes, top_k)

    def weigh(
        self, kernel: Kernel, tiling: Tiling, program: Program, sizes: Sizes, device: Device
    ) -> Candidate[Tiling]:
        """Return a tiling with the modelled time of all its tasks, or the rule that it breaks."""
        from explorer.roller.weigh_tiles import weigh

        return weigh(kernel, tiling, device, program.env, sizes)

    def call_tiler(self, program: Program, device: Device, options: Options) -> CoreTiler:
        """Return the tiler of a program's calls."""
        from explorer.roller.core_tiler import CoreTiler

        return CoreTiler(program, device, options)

    def broken_rule(self, call: KernelCall, name: str, env: ShapeEnv, device: Device) -> str:
        """Return the rule that one of a call's tilings breaks, with the numbers, else ""."""
        from explorer.roller.weigh_tiles import refusal

        if call.tiling is None:
            return f"{name!r} has no tiling"
        for tiling in filter(None, (call.tiling, call.efficient)):
            why = refusal(call.kernel, tiling, device, env, env.hints)
            if why:
                return f"the tiling of {name!r} is not legal: {why}"
        return ""

    def price_us(self, kernel: Kernel, device: Device, env: ShapeEnv, top_k: int) -> float:
        """Return the modelled microseconds of the best tiling; inf if none is legal."""
        from explorer.roller.cached_tilings import best_tiling

        best = best_tiling(_named(kernel), device, env, env.hints, top_k)
        return float("inf") if best is None else best.cost_us

    def steps(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Steps:
        """Return the tile program after each rewrite; it holds for all sizes.

        Buffers lie in levels of the device, whatever it calls them.
        """
        from explorer.ir.kernels.normal import normalise
        from explorer.ir.tile_traversal import with_levels
        from explorer.tile import rewrites

        steps = rewrites.steps(normalise(kernel), tiling or Tiling(), env, device)
        levels = {m.name for m in device.levels}
        near, far = device.levels[0].name, device.levels[-1].name
        names = {VECTOR_LEVEL: near, TASK_LEVEL: self.tile_memory(device).name, FARTHEST: far}
        renamed = {level: name for level, name in names.items() if level not in levels}
        return tuple((n, with_levels(p, renamed)) for n, p in steps) if renamed else steps


class Cpu(Cores):
    """The cores of an x86 or Arm processor: kernels are Numba, compiled by LLVM, and run here."""

    is_emitted = True

    def print(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> str:
        """Return the Numba source of a kernel."""
        from explorer.codegen.build import print_kernel

        return print_kernel(kernel, tiling or Tiling(), env, device)[0]

    def listings(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Listings:
        """Return LLVM IR and assembly."""
        from explorer.codegen.build import build_kernel

        return build_kernel(kernel, tiling or Tiling(), env, device).listings


@lru_cache(maxsize=1024)
def _named(kernel: Kernel) -> Kernel:
    """Return a kernel in normal form, under canonical names."""
    from explorer.ir.kernels.canonical import canonical
    from explorer.ir.kernels.normal import normalise

    return canonical(normalise(kernel))[0]


TARGET = Cpu()
