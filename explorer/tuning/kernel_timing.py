"""Timing of one kernel under one tiling."""

from __future__ import annotations

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.measure.compare import Measurement
from explorer.measure.this_machine.one_kernel import Operands, PreparedKernel, prepare
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.roller.tiles.weigh import refusal

__all__ = ["Operands", "PreparedKernel", "prepare", "time_tiling"]


def time_tiling(
    kernel: Kernel,
    tiling: Tiling,
    device: Device,
    sizes: Sizes | None = None,
    threads: int = 1,
    seconds: float = 0.05,
    env: ShapeEnv = ShapeEnv(),
    operands: Operands | None = None,
) -> Measurement:
    """Return the time of a kernel in normal form under a tiling, on warm caches, in microseconds.

    Raises:
        BadOption: the tiling is illegal on the device; the message names the broken rule.
    """
    bound_sizes = sizes or {}
    why = refusal(kernel, tiling, device, env, bound_sizes)
    if why:
        raise BadOption(f"this tiling of {kernel.name} is not legal: {why}", where=kernel.name)
    used = operands or Operands(kernel, bound_sizes)
    return prepare(kernel, tiling, used, this_cpu(), threads, env).measure(seconds)
