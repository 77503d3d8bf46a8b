"""A check that every kernel of a tiled program can be lowered, whatever policy tiled it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.calls import KernelCall
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.roller.blocks.candidates import block_refusal, why_no_blocks
from explorer.roller.tiles.weigh import refusal


@dataclass(frozen=True, slots=True)
class LegalTiles:
    """A check of a program's tilings, or on a GPU its thread blocks, for one device."""

    device: Device

    def __call__(self, program: Program) -> str:
        """Return the first rule that a kernel breaks, with its name and the numbers, else ""."""
        problem = self._block_problem if self.device.kind == "gpu" else self._tiling_problem
        for binding in program.kernel_calls:
            call, name = binding.kernel_call, binding.name
            if normalise(call.kernel) != call.kernel:
                return f"the kernel of {name!r} is no longer in normal form"
            why = problem(call, name, program.env)
            if why:
                return why
        return ""

    def _tiling_problem(self, call: KernelCall, name: str, env: ShapeEnv) -> str:
        if call.tiling is None:
            return f"{name!r} has no tiling"
        for tiling in filter(None, (call.tiling, call.efficient)):
            why = refusal(call.kernel, tiling, self.device, env, env.hints)
            if why:
                return f"the tiling of {name!r} is not legal: {why}"
        return ""

    def _block_problem(self, call: KernelCall, name: str, env: ShapeEnv) -> str:
        """Return the rule that a call's thread block breaks.

        A kernel without a tile program for thread blocks needs none.
        """
        if call.block is None:
            none = why_no_blocks(call.kernel, self.device, env.hints)
            return "" if none else f"{name!r} has no thread block"
        why = block_refusal(call.kernel, call.block, self.device, env.hints)
        return f"the thread block of {name!r} is not legal: {why}" if why else ""
