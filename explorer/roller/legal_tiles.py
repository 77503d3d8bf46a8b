"""Whether every kernel of a tiled program can be lowered as it is tiled, whoever tiled it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Program
from explorer.roller.tiles.weigh import refusal


@dataclass(frozen=True, slots=True)
class LegalTiles:
    """Of a program: the first rule that a tiling breaks on a device, empty where all keep them."""

    device: Device

    def __call__(self, program: Program) -> str:
        """The kernel, and the rule with its numbers."""
        for binding in program.kernel_calls:
            call = binding.kernel_call
            name, env = binding.name, program.env
            if not isinstance(call.tiling, Tiling):
                return f"{name!r} has no tiling"
            if normalise(call.kernel) != call.kernel:
                return f"the kernel of {name!r} is not in normal form any more"
            for tiling in filter(None, (call.tiling, call.efficient)):
                why = refusal(call.kernel, tiling, self.device, env, env.hints)
                if why:
                    return f"the tiling of {name!r} is not legal: {why}"
        return ""
