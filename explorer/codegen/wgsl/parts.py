"""Kernels as several shaders: one for each tensor that a kernel computes.

A kernel of which no tile fits workgroup memory keeps its intermediate tensors in the arena instead:

    t = f(x); y = g(t), one workgroup a tile  ->  a dispatch for t, then one for y
"""

from __future__ import annotations

from itertools import groupby

from explorer.codegen.wgsl.build import Shader, print_shader
from explorer.devices.model import Device
from explorer.errors import BadOption, CheckFailed
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel, reads


def print_parts(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, block: Tiling | None = None
) -> tuple[tuple[Kernel, Shader], ...]:
    """Return a kernel with its shader, or its parts with theirs if it has no thread block.

    Raises:
        BadOption, CheckFailed: A part has no shader either; the reason is that of the kernel.
    """
    try:
        return ((kernel, print_shader(kernel, device, env, sizes, block)),)
    except (BadOption, CheckFailed):
        parts = split_kernel(kernel)
        if len(parts) == 1:
            raise
        return tuple((part, print_shader(part, device, env, sizes)) for part in parts)


def split_kernel(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return a kernel for each tensor that a kernel computes, in order.

    A kernel that updates an input, or that computes a tensor in several places, stays as it is.
    """
    groups = [tuple(g) for _, g in groupby(kernel.computes, key=lambda c: c.out)]
    outs = [group[0].out for group in groups]
    if kernel.updates or len(set(outs)) < len(outs):
        return (kernel,)
    parts = []
    for out, computes in zip(outs, groups, strict=True):
        read = dict.fromkeys(r.tensor for c in computes for r in reads(c.expr))
        if out in read:
            return (kernel,)
        parts.append(
            Kernel(
                kernel.name if len(outs) == 1 else f"{kernel.name}.{out}",
                tuple(t for t in kernel.tensors if t.name == out or t.name in read),
                computes,
                tuple(read),
                (out,),
                kernel.constants & read.keys(),
            )
        )
    return tuple(parts)
