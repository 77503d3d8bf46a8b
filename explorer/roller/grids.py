"""The thread blocks that a kernel could be launched with on a GPU: Roller's tiles, as they are and
cut finer (Roller, section 3.3), with what one block of each does and moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from explorer.cost.bound import bind_kernel
from explorer.cost.thread_blocks import ThreadBlocks, thread_blocks
from explorer.devices.model import Device
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.axis_fusion import Fused, fuse_axes
from explorer.roller.construct.construct import Growth, of_expression
from explorer.roller.construct.expression import heaviest, of_compute, work_of
from explorer.roller.construct.implicit_gemm import as_matmul
from explorer.roller.construct.rtile import RTile, TiledProgram, unit_tile
from explorer.roller.construct.shrink import finer
from explorer.roller.constructed import cut_by, tile_of

GROWN_RESULTS = 4  # of the construction that are looked at: a bound on search time, chosen
RESIDENT_SHARE = 0.5  # of a shared cache may be one operand that stays in it; chosen


def grids(
    kernel: Kernel, device: Device, sizes: Sizes | None = None, cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """The grids of a kernel on a device whose data sheet limits blocks, in Roller's order.

    `cold`: constants come from the farthest memory, because those of the program together do not
    stay in a nearer one.
    """
    bound = bind_kernel(kernel, sizes or {})
    c = heaviest(bound, {})
    found = contraction(c)
    fused = fuse_axes(of_compute(bound, c, {})) if found is None else as_matmul(bound, c, found, {})
    cut = frozenset(cut_by(bound, bound.computes.index(c), found))
    about = _Blocks(bound, device, c, fused, cut, _far_bytes(bound, device, cold))
    return tuple(dict.fromkeys(about.of(p) for p in _programs(fused, device, cut)))


def _programs(fused: Fused, device: Device, cut: frozenset[str]) -> Iterator[TiledProgram]:
    """Each result, cut finer until all units have work, and as it was before. Where blocks may not
    share out all axes, tiles cut along the others leave units without work all the same: then each
    finer one along those alone that they may. One point a thread where no tile has room at all.
    """
    spatial = range(fused.expression.spatial)
    shared = [d for d in spatial if not cut.isdisjoint(fused.groups[d])]
    point = unit_tile(fused.expression)
    results = of_expression(fused, device, Growth(top_k=GROWN_RESULTS, steps=False)).results
    for p in results or (TiledProgram((point, point, point)),):
        made = TiledProgram(p.shrunk_from or p.tiles)
        yield from (TiledProgram(p.tiles), made)
        if len(shared) < len(spatial):
            yield from finer(made, device.units, shared)


class _Blocks:
    """What a block of any tile of one kernel does. `cut`: the axes of its heaviest compute that
    blocks may share out.
    """

    def __init__(
        self,
        kernel: Kernel,
        device: Device,
        c: Compute,
        fused: Fused,
        cut: frozenset[str],
        far_bytes: float,
    ) -> None:
        self.kernel, self.device, self.fused, self.cut = kernel, device, fused, cut
        self.extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in c.axes}
        self.operations = sum(work_of(each, {}) for each in kernel.computes)
        self.far_bytes = far_bytes
        inside = {a.tensor for a in fused.expression.inputs} | {fused.expression.output.tensor}
        ends = {*kernel.inputs, *kernel.outputs}
        self.beside_bytes = sum(_bytes(kernel, t) for t in ends - inside)
        self.outside = ends & inside

    def of(self, p: TiledProgram) -> ThreadBlocks:
        """The grid of a tile, the axes that must stay whole left whole."""
        tile, register = p.tiles[0], p.tiles[1]
        sizes = tile_of(self.fused, p, self.extents)
        grid = prod(-(-n // sizes[a]) for a, n in self.extents.items() if a in self.cut)
        times = max(1.0, p.grid / grid)  # a block does what so many tiles would
        near = self._moved(tile) * times + self.beside_bytes / grid
        reduced = zip(tile.expression.extents[tile.expression.spatial :], tile.reduced, strict=True)
        return thread_blocks(
            self.device, "x".join(map(str, tile.shape)), grid, p.threads, register.elements,
            max(1, round(register.points * times)), tile.footprint_bytes,
            self.operations / grid * _waste(tile), (near, min(near, self.far_bytes / grid)),
            prod(-(-n // s) for n, s in reduced),
        )  # fmt: skip

    def _moved(self, tile: RTile) -> float:
        """Bytes of the kernel's own operands that a tile loads over the whole reduction, and stores
        once; what is made inside moves nothing.
        """
        e = tile.expression
        loads = sum(
            a.item_bytes * prod(a.tile(tile.whole_shape))
            for a in e.inputs
            if a.tensor in self.outside
        )
        stores = e.output.item_bytes * prod(tile.output_tile)
        return loads + (stores if e.output.tensor in self.outside else 0)


def _waste(tile: RTile) -> float:
    """What whole tiles compute, over what there is to compute."""
    spatial = zip(tile.expression.extents, tile.spatial, strict=False)
    return prod(-(-n // s) * s / n for n, s in spatial)


def _bytes(kernel: Kernel, tensor: str) -> int:
    spec = kernel.spec(tensor)
    return ITEM_BYTES[spec.dtype] * prod(evaluate_dim(n, {}) for n in spec.shape)


def _far_bytes(kernel: Kernel, device: Device, cold: bool) -> float:
    """Bytes of operands that do not stay in a cache that all units share."""
    near = next(m for m in device.levels if m.shared)
    if near.capacity_bytes is None:
        return 0.0
    room = near.capacity_bytes * RESIDENT_SHARE
    operands = {t: _bytes(kernel, t) for t in (*kernel.inputs, *kernel.outputs)}
    return sum(n for t, n in operands.items() if n > room or (cold and t in kernel.constants))
