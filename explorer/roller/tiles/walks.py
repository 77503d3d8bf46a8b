"""The axes of a kernel's output that cut the axes of its computes, and tiles of fused axes."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.regions import Regions, propagate, tile_variable
from explorer.roller.construct.axis_fusion import Fused
from explorer.roller.construct.rtile import TiledProgram
from explorer.roller.tiles.cuts import cuts_all


def cut_by(
    kernel: Kernel, number: int, product: Contraction | None
) -> Mapping[str, tuple[str, int]]:
    """Map axes of a compute to the axis of the output that cuts each, and the step ratio.

    Only axes that every writer of the output has can be cut. Columns can only if nothing before the
    contraction is repeated for each of their tiles.
    """
    shared, inner = shared_axes(kernel), stores(kernel)[-1].axes[-1:]
    many = product is not None and len(kernel.computes) > 2 and len(shared) > 1
    if many and not cuts_all(kernel, inner[0].name):
        shared = [a for a in shared if a != inner[0].name]
    ranges: Regions = propagate(kernel, dict.fromkeys(shared, 1))
    output_axes = {tile_variable(a): a for a in shared}
    cut: dict[str, tuple[str, int]] = {}
    for axis, r in ranges.axes[number].items():
        match r.lo.terms:
            case ((name, int(step)),) if name in output_axes and step > 0:
                cut[axis] = (output_axes[name], step)
    return cut


def shared_axes(kernel: Kernel) -> list[str]:
    """Return the axes that all writers of the output have, outermost first."""
    parts = stores(kernel)
    return [a.name for a in parts[-1].axes if all(a in p.axes for p in parts)]


def tile_of(fused: Fused, program: TiledProgram, extents: Mapping[str, int]) -> dict[str, int]:
    """Return the task's size along every axis; of fused axes the inner ones are filled first."""
    tile: dict[str, int] = {}
    sizes = program.tile(0).spatial
    for group, size in zip(fused.groups, sizes, strict=False):
        left = size
        for axis in reversed(group):
            tile[axis] = max(1, min(left, extents[axis]))
            left = -(-left // extents[axis])
    return tile
