"""The thread blocks that a kernel could be launched with on a GPU: Roller's tiles, as they are and
cut finer (Roller, section 3.3), each as the block that is printed of it, with what it does and
moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

from explorer.cost.bound import bind_kernel
from explorer.cost.thread_blocks import ThreadBlocks, thread_blocks
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Compute, Kernel, reads
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.regions import Region, box, propagate
from explorer.ir.shapes.dims import Shape, ShapeEnv, Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.roller.construct.axis_fusion import Fused, fuse_axes
from explorer.roller.construct.construct import Growth, of_expression
from explorer.roller.construct.expression import heaviest, of_compute, work_of
from explorer.roller.construct.implicit_gemm import as_matmul
from explorer.roller.construct.rtile import TiledProgram, unit_tile
from explorer.roller.construct.shrink import finer
from explorer.roller.constructed import tile_of
from explorer.roller.thread_block import all_axes, block_of, shared_out
from explorer.roller.tiles.fitting_block import fitting_each
from explorer.tile.gpu.block import unserved
from explorer.tile.gpu.demand import Demand, demand_of
from explorer.tile.gpu.rewrites import unsynced
from explorer.tile.verify import level_problem

BESIDE = (2, 4)  # blocks of a kernel that a multiprocessor is to hold; chosen
GROWN_RESULTS = 4  # of the construction that are looked at: a bound on search time, chosen
HELD = (1, 2, 3, 4)  # blocks of a multiprocessor, for which waves are counted; chosen
FULL_SHARE = 0.8  # of the places of all waves, with which no fuller grid is looked for; chosen
GROWN_RATIO = 4  # that a block may be larger along an axis; chosen
AS_CHOSEN = "as chosen"  # in the place of a tile's label
RESIDENT_SHARE = 0.5  # of a shared cache may be one operand that stays in it; chosen


def grids(
    kernel: Kernel, device: Device, sizes: Sizes | None = None, cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """The grids of a kernel in normal form on a device whose data sheet limits blocks, in Roller's
    order, each once. Of a kernel that has no program for thread blocks they are as large as
    Roller's tiles, and nothing is printed of them.

    `cold`: constants come from the farthest memory, because those of the program together do not
    stay in a nearer one.
    """
    about = _about(kernel, device, sizes or {}, cold)
    programs = tuple(_programs(about.fused, device, frozenset(about.shared)))
    return about.printed(programs) or about.unprinted(programs)


def grids_of(
    kernel: Kernel, device: Device, blocks: Iterable[Block], cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """The grids of these blocks of a kernel of fixed extents, where the device has room for them:
    what a program that is already tiled does on other hardware.
    """
    about = _about(kernel, device, {}, cold)
    found = (about.of(block, AS_CHOSEN) for block in blocks)
    return tuple(b for b in found if b is not None)


def _about(kernel: Kernel, device: Device, sizes: Sizes, cold: bool) -> _Blocks:
    bound = bind_kernel(kernel, sizes)
    c = heaviest(bound, {})
    found = contraction(c)
    fused = fuse_axes(of_compute(bound, c, {})) if found is None else as_matmul(bound, c, found, {})
    return _Blocks(bound, device, c, fused, _far_bytes(bound, device, cold))


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
    """What a block of any tile of one kernel does. `shared`: the axes of its heaviest compute along
    which blocks share out the work.
    """

    def __init__(
        self, kernel: Kernel, device: Device, c: Compute, fused: Fused, far_bytes: float
    ) -> None:
        self.kernel, self.device, self.c, self.fused = kernel, device, c, fused
        self.served = not unserved(kernel)
        self.shared = shared_out(kernel) if self.served else all_axes(kernel)
        self.extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in c.axes}
        self.far_bytes = far_bytes

    def printed(self, programs: tuple[TiledProgram, ...]) -> tuple[ThreadBlocks, ...]:
        """The blocks that a device has room for; none of a kernel without a program for them. Some
        share out all work, others do something twice, so that more units have some.
        """
        if not self.served:
            return ()
        env, tiles, blocks = ShapeEnv(), dict[Block, str](), dict[Block, str]()
        for walks in (self.shared, all_axes(self.kernel)):
            for p in programs:
                tiles.setdefault(block_of(self.kernel, self.fused.groups, p, walks), _label(p))
        for block, label in tiles.items():
            for wide in self._wider(block):
                for fits in fitting_each(self.kernel, wide, env, self.device, self._rooms()):
                    blocks.setdefault(fits, label)
        found = [b for block, label in blocks.items() if (b := self.of(block, label)) is not None]
        for block, label in dict.fromkeys(self._fuller(found)):
            more = None if block in blocks else self.of(block, label)
            found += [] if more is None else [more]
        return tuple(found)

    def of(self, block: Block, label: str) -> ThreadBlocks | None:
        """What a block does and moves; None where the device has no room for it."""
        program = unsynced(self.kernel, block, ShapeEnv(), self.device)
        if level_problem(program, self.device):
            return None
        demand = demand_of(program, self.device)
        near = self._moved(block)
        moved = near, min(near, self.far_bytes / demand.grid)
        return thread_blocks(self.device, label, demand, moved, block)

    def _fuller(self, grids: Sequence[ThreadBlocks]) -> Iterator[tuple[Block, str]]:
        """Neighbours of the best block whose last wave is fuller, for each number of blocks that a
        multiprocessor may hold: 320 blocks take two waves of 240 places, where 210 that are larger
        along one axis take one. Roller's construction knows no waves, so that its tiles may miss
        one by little, and another balance of the same hardware meet it.
        """
        axes = {a.name: evaluate_dim(a.extent, {}) for a in stores(self.kernel)[-1].axes}
        for held in HELD:
            fits = [b for b in grids if b.resident(self.device) >= held]
            best = min(fits, key=lambda b: b.whole_us(self.device, held), default=None)
            if best is None or best.block is None:
                continue
            places = held * self.device.units
            waves = -(-best.grid // places)
            if waves == 1 or best.grid >= FULL_SHARE * waves * places:
                continue
            for a, n in best.block.tile:
                others = best.grid // -(-axes[a] // n)
                most = (waves - 1) * places // max(1, others)
                size = -(-axes[a] // max(1, most))
                if most and n < size <= GROWN_RATIO * n:
                    yield self._grown(best.block, a, size), best.label

    def _grown(self, block: Block, axis: str, size: int) -> Block:
        """A block that is larger along one axis of its output: by more threads or, where there may
        not be so many, by more points of each.
        """
        before = dict(block.tile)[axis]
        tile = tuple((a, size if a == axis else n) for a, n in block.tile)
        threads = -(-block.threads * size // before)
        if threads <= self.device.block_threads:
            return replace(block, tile=tile, threads=threads)
        mine = {a for a, (out, _) in all_axes(self.kernel).items() if out == axis}
        times = -(-size // before)
        register = tuple((a, n * times if a in mine else n) for a, n in block.register)
        return replace(block, tile=tile, register=register)

    def _wider(self, block: Block) -> Iterator[Block]:
        """The block and, of a reduction that is no contraction, one with a warp for each result, or
        with as many threads as there may be: where what is reduced lies in memory beside each
        other, neighbours read neighbours.
        """
        yield block
        if not self.c.reduce or contraction(self.c) is not None:
            return
        cut, axes = dict(block.tile), stores(self.kernel)[-1].axes
        results = prod(
            min(cut.get(a.name, n), n) for a in axes if (n := evaluate_dim(a.extent, {}))
        )
        most = min(self.device.block_threads, results * self.device.lanes)
        if most > block.threads:
            yield replace(block, threads=most)

    def _rooms(self) -> tuple[int, ...]:
        """Bytes of shared memory that a block may take: all, and so many that a multiprocessor
        holds some of them. A kernel of which it holds only one would leave it to one block of all
        others, too, for they share the units.
        """
        whole = self.device.block_shared_bytes
        parts = (self.device.unit_shared_bytes // n for n in BESIDE)
        return (whole, *(n for n in parts if n < whole))

    def _moved(self, block: Block) -> float:
        """Bytes that one block loads of the kernel's operands, and stores: of each what its part of
        the results needs, and no more elements than are read.
        """
        k, regions = self.kernel, propagate(self.kernel, dict(block.tile))
        read = dict.fromkeys(k.inputs, 0)
        for c, ranges in zip(k.computes, regions.axes, strict=True):
            points = prod(int(r.size) for r in ranges.values())
            for r in dict.fromkeys(reads(c.expr)):
                if r.tensor in read:
                    shape = k.shape(r.tensor)
                    read[r.tensor] += min(points, _elements(box(r.index, ranges, shape), shape))
        total = 0
        for t in (*k.inputs, *k.outputs):
            part = _elements(regions.tensors.get(t, ()), k.shape(t))
            total += ITEM_BYTES[k.dtype(t)] * min(part, read.get(t, part))
        return float(total)

    def unprinted(self, programs: tuple[TiledProgram, ...]) -> tuple[ThreadBlocks, ...]:
        """The grids of tiles alone, the axes that must stay whole left whole."""
        return tuple(dict.fromkeys(self._unprinted(p) for p in programs))

    def _unprinted(self, p: TiledProgram) -> ThreadBlocks:
        tile, register, d = p.tiles[0], p.tiles[1], self.device
        sizes = tile_of(self.fused, p, self.extents)
        grid = prod(-(-n // sizes[a]) for a, n in self.extents.items() if a in self.shared)
        reduced = zip(tile.expression.extents[tile.expression.spatial :], tile.reduced, strict=True)
        operations = sum(work_of(each, {}) for each in self.kernel.computes)
        lanes = -(-p.threads // d.lanes) * d.lanes
        demand = Demand(
            grid, p.threads, tile.footprint_bytes, register.elements,
            -(-operations * lanes // (grid * p.threads)), p.threads,
            max(1, round(register.points * max(1.0, p.grid / grid))),
            prod(-(-n // s) for n, s in reduced),
        )  # fmt: skip
        ends = dict.fromkeys((*self.kernel.inputs, *self.kernel.outputs))
        near = sum(_bytes(self.kernel, t) for t in ends) / grid
        return thread_blocks(d, _label(p), demand, (near, min(near, self.far_bytes / grid)))


def _elements(region: Region, shape: Shape) -> int:
    """Of a tensor, all where no region is known."""
    known = [min(int(x.size), int(n)) for x, n in zip(region, shape)]
    return prod(known) if known else prod(map(int, shape))


def _label(p: TiledProgram) -> str:
    return "x".join(map(str, p.tiles[0].shape))


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
