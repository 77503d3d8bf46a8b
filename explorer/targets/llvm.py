"""The target of processors that are not this machine: kernels are cross-compiled by LLVM.

A data sheet states the platform: `[instruction_set]` with LLVM's triple, processor and features.
Plans, tiles and prices are those of cores with vectors; source, LLVM IR and assembly are those of
the platform. `explorer.portable` makes programs of the object files.
"""

from __future__ import annotations

from explorer.devices.listing import Listings
from explorer.devices.model import Device
from explorer.errors import BadOption, KernelCompileError
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.targets.cpu import Cpu


class Llvm(Cpu):
    """Cores of another platform; a compilation ends with a plan, and code is to look at."""

    is_emitted = False

    def listings(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Listings:
        """Return LLVM IR and assembly of the platform, line by line of the source.

        Raises:
            BadOption: LLVM does not compile the kernel for the platform.
        """
        from explorer.codegen.cpu.cross import cross_listings

        source = self.print(kernel, tiling, env, sizes, device)
        try:
            return cross_listings(source, device.isa)
        except KernelCompileError as problem:
            raise BadOption(problem.sentence, where=device.name) from problem


TARGET = Llvm()
