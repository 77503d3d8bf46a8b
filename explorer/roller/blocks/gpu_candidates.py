"""The thread blocks that a kernel could be launched with on a GPU: Roller's tiles, as they are and
cut finer (Roller, section 3.3), each as the block that is printed of it, with what it does and
moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

from explorer.cost.bound import bind_kernel
from explorer.cost.thread_blocks import AS_FAST_RATIO, ThreadBlocks, thread_blocks
from explorer.cost.touched import middle, number, touched
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import contraction
from explorer.ir.patterns.regions import propagate
from explorer.ir.program import Program
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.ops.reference.cancellation import end_if_unwanted
from explorer.roller.blocks.fitting_block import fitting_each
from explorer.roller.blocks.matrix_pieces import matrix_blocks
from explorer.roller.blocks.shared_sums import MOST_THREADS, sharing
from explorer.roller.blocks.thread_block import all_axes, block_of, shared_out
from explorer.roller.construct.axis_fusion import Fused, fuse_axes
from explorer.roller.construct.construct import Growth, results_of
from explorer.roller.construct.expression import heaviest, of_compute, work_of
from explorer.roller.construct.implicit_gemm import as_matmul
from explorer.roller.construct.rtile import TiledProgram, unit_tile
from explorer.roller.construct.shrink import finer
from explorer.roller.tiles.walks import tile_of
from explorer.tile.gpu.block import unserved
from explorer.tile.gpu.demand import Demand, Work, demand_of
from explorer.tile.gpu.rewrites import unpadded, unsynced
from explorer.tile.gpu.stage import is_staged
from explorer.tile.verify import level_problem

BESIDE = (2, 4)  # blocks of a kernel that a multiprocessor is to hold; chosen
GROWN_RESULTS = 4  # of the construction that are looked at: a bound on search time, chosen
FEW_HELD = (1, 4)  # where kernels are only compared; chosen
HELD = (1, 2, 3, 4)  # blocks of a multiprocessor, for which waves are counted; chosen
FULL_SHARE = 0.8  # of the places of all waves, with which no fuller grid is looked for; chosen
GROWN_RATIO = 4  # that a block may be larger along an axis; chosen
AS_CHOSEN = "as chosen"  # in the place of a tile's label
FILLED_BLOCKS = 8  # best blocks whose last wave may be filled, of each number; chosen
START_BLOCKS = 2  # best blocks from which threads share sums, of each number and time; chosen
GAIN_RATIO = 0.97  # of the time before, that a neighbour takes at most; chosen
RESIDENT_SHARE = 0.5  # of a shared cache may be one operand that stays in it; chosen


def grids(
    kernel: Kernel, device: Device, sizes: Sizes | None = None, cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """The grids of a kernel in normal form on a device whose data sheet limits blocks that could be
    chosen, in Roller's order, each once. Of a kernel that has no program for thread blocks they are
    as large as Roller's tiles, and nothing is printed of them.

    `cold`: constants come from the farthest memory (`comes_cold`).
    """
    about = _about(kernel, device, sizes or {}, cold)
    programs = tuple(_programs(about.fused, device, frozenset(about.shared)))
    return about.printed(programs) or about.unprinted(programs)


def about_us(kernel: Kernel, device: Device) -> float:
    """Microseconds of a kernel of fixed extents alone on the device: with the best block of a tile
    of the construction, or one on the way from it, as if no lanes waited for banks. What kernels
    are compared by, in half the time that `grids` takes.
    """
    about = _about(kernel, device, {}, cold=False)
    programs = tuple(_programs(about.fused, device, frozenset(about.shared)))
    best_us = about.best_us(programs)
    return (
        min(b.whole_us(device) for b in about.unprinted(programs)) if best_us is None else best_us
    )


def grids_of(
    kernel: Kernel, device: Device, blocks: Iterable[Block], cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """The grids of these blocks of a kernel of fixed extents, where the device has room for them:
    what a program that is already tiled does on other hardware.
    """
    about = _about(kernel, device, {}, cold)
    found = (about.of(block, AS_CHOSEN) for block in blocks)
    return tuple(b for b in found if b is not None)


def comes_cold(program: Program, device: Device) -> bool:
    """Whether constants come from the farthest memory, because those of the program together do not
    stay in a nearer one.
    """
    near = next(m for m in device.levels if m.shared)
    constants = sum(c.array.nbytes for c in program.constants.values())
    return constants > RESIDENT_SHARE * (near.capacity_bytes or float("inf"))


def _about(kernel: Kernel, device: Device, sizes: Sizes, cold: bool) -> _Blocks:
    bound = bind_kernel(kernel, sizes)
    c = heaviest(bound, {})
    found = contraction(c)
    fused = fuse_axes(of_compute(bound, c, {})) if found is None else as_matmul(bound, c, found, {})
    return _Blocks(bound, device, c, fused, _far_bytes(bound, device, cold))


def _programs(fused: Fused, device: Device, cut: frozenset[str]) -> Iterator[TiledProgram]:
    """Each result, as it was before and cut finer step by step until all units have work: with more
    units there are more steps, and none less. Where blocks may not share out all axes, tiles cut
    along the others leave units without work all the same: then each finer one along those alone
    that they may. One point a thread where no tile has room at all.
    """
    spatial = range(fused.expression.spatial)
    shared = [d for d in spatial if not cut.isdisjoint(fused.groups[d])]
    point = unit_tile(fused.expression)
    results = results_of(fused.expression, device, Growth(top_k=GROWN_RESULTS))
    for p in results or (TiledProgram((point, point, point)),):
        made = TiledProgram(p.shrunk_from or p.tiles)
        yield from (TiledProgram(p.tiles), *finer(made, device.units, spatial))
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
        self.near = next(m for m in device.levels if m.shared)
        ends = (*kernel.inputs, *kernel.outputs)
        self.shapes = {t: tuple(map(number, kernel.shape(t))) for t in ends}
        self.known: dict[Block, ThreadBlocks | None] = {}  # as weighed
        self.staged: dict[Block | None, bool] = {}

    def printed(self, programs: tuple[TiledProgram, ...]) -> tuple[ThreadBlocks, ...]:
        """The blocks that a device has room for; none of a kernel without a program for them. Some
        share out all work, others do something twice, so that more units have some.
        """
        if not self.served:
            return ()
        self._of_tiles(programs)
        for start, block in dict.fromkeys(self._fuller()):
            self._neighbour(block, start)
        self._share()
        return self._chosen()

    def best_us(self, programs: tuple[TiledProgram, ...]) -> float | None:
        """The time of the best of those that are made of tiles, and of its neighbours."""
        if self.served:
            self._of_tiles(programs)
        self._share(FEW_HELD, 1)
        found = (b.whole_us(self.device) for b in self.known.values() if b is not None)
        return min(found, default=None)

    def _of_tiles(self, programs: tuple[TiledProgram, ...]) -> None:
        """Weigh the blocks that are made of tiles, and those for matrix units."""
        env, tiles, blocks = ShapeEnv(), dict[Block, str](), dict[Block, str]()
        for walks in (self.shared, all_axes(self.kernel)):
            for p in programs:
                tiles.setdefault(block_of(self.kernel, self.fused.groups, p, walks), _label(p))
        for block, label in tiles.items():
            for wide in self._wider(block):
                for fits in fitting_each(self.kernel, wide, env, self.device, self._rooms()):
                    blocks.setdefault(fits, label)
        ways = (self.shared, all_axes(self.kernel))
        for block, label in matrix_blocks(self.kernel, self.c, self.device, ways):
            blocks.setdefault(block, label)
        for block, label in blocks.items():
            self._weighed(block, label)

    def of(self, block: Block, label: str) -> ThreadBlocks | None:
        """What a block does and moves; None where the device has no room for it."""
        program = unsynced(self.kernel, block, ShapeEnv(), self.device)
        if level_problem(program, self.device):
            return None
        return self._priced(block, label, demand_of(program, self.device))

    def _weighed(self, block: Block, label: str) -> ThreadBlocks | None:
        """The same as if no lanes waited for banks, in a part of the time."""
        if block not in self.known:
            end_if_unwanted("weighing thread blocks")
            program = unpadded(self.kernel, block, ShapeEnv(), self.device)
            self.known[block] = None
            if not level_problem(program, self.device):
                self.staged[block] = is_staged(program)
                demand = demand_of(program, self.device, banks=False)
                self.known[block] = self._priced(block, label, demand)
        return self.known[block]

    def _priced(self, block: Block, label: str, demand: Demand) -> ThreadBlocks:
        near = self._moved(block)
        moved = near, min(near, self.far_bytes / demand.grid)
        return thread_blocks(self.device, label, demand, moved, block)

    def _chosen(self) -> tuple[ThreadBlocks, ...]:
        """The blocks that are best for some number that a multiprocessor holds, or take the least
        of it, once banks are known: each is looked at until no other can be better.
        """
        d, made = self.device, dict[Block, ThreadBlocks | None]()
        weighed = [b for b in self.known.values() if b is not None]

        def look(some: Iterable[tuple[float, ThreadBlocks]], held: int) -> None:
            least = float("inf")
            for us, b in sorted(some, key=lambda x: x[0]):
                if us > AS_FAST_RATIO * least:
                    return
                assert b.block is not None, "what is weighed is printed"
                if b.block not in made:
                    made[b.block] = self.of(b.block, b.label)
                whole = made[b.block]
                if whole is not None:
                    least = min(least, whole.whole_us(d, held) if held else whole.area_us(d))

        for held in sorted({b.resident(d) for b in weighed}):
            look(((b.whole_us(d, held), b) for b in weighed if b.resident(d) >= held), held)
        look(((b.area_us(d), b) for b in weighed), 0)
        return tuple(b for block in self.known if (b := made.get(block)) is not None)

    def _best(self, held: int) -> list[ThreadBlocks]:
        """Those of which a multiprocessor holds so many, the fastest first."""
        d = self.device
        fits = [b for b in self.known.values() if b is not None and b.resident(d) >= held]
        return sorted(fits, key=lambda b: b.whole_us(d, held))

    def _share(self, holds: Iterable[int] = HELD, most: int = START_BLOCKS) -> None:
        """Weigh neighbours whose threads share sums: from the best blocks that wait longer than
        they compute, for each number that a multiprocessor may hold, and from those that would be
        if as many threads shared each sum as may, on for as long as they gain.
        """
        if contraction(self.c) is None:
            return
        d, starts = self.device, list[tuple[ThreadBlocks, int]]()
        for held, matrix in product(holds, (False, True)):
            found = [b for b in self._best(held) if _on_matrix_units(b) == matrix]
            shared = [b for b in found if self.staged[b.block]]
            for each, ratio in ((found, 1), (found, d.block_threads), (shared, MOST_THREADS)):
                first = sorted(each, key=lambda b: _with_more_threads_us(b, d, held, ratio))
                starts += [(b, held) for b in first[:most]]
        for start, held in dict.fromkeys(starts):
            self._climb(start, held)

    def _climb(self, best: ThreadBlocks | None, held: int) -> None:
        """From a block to its best neighbour, and on, as long as they gain."""
        d, reduced = self.device, {a.name: evaluate_dim(a.extent, {}) for a in self.c.reduce}
        while best is not None and best.block is not None and best.waits(d, held):
            others = (*sharing(best.block, reduced, d), *self._halves(best.block))
            near = [self._neighbour(b, best) for b in others]
            less = [b for b in near if b and b.resident(d) >= held]
            us = GAIN_RATIO * best.whole_us(d, held)
            best = min(less, key=lambda b: b.whole_us(d, held), default=None)
            if best is not None and best.whole_us(d, held) > us:
                return

    def _halves(self, block: Block) -> Iterator[Block]:
        """The block with half of its tile along one axis, and half of its threads."""
        if block.matrix or block.threads < 2 * self.device.lanes:  # whole pieces; whole warps
            return
        axes = {a.name: evaluate_dim(a.extent, {}) for a in stores(self.kernel)[-1].axes}
        sizes = dict(block.tile)
        for axis, extent in axes.items():
            size = sizes.get(axis, extent)
            if size > 1:
                cut = {**sizes, axis: -(-size // 2)}
                tile = tuple((a, cut[a]) for a in axes if a in cut)
                yield replace(block, tile=tile, threads=-(-block.threads * cut[axis] // size))

    def _neighbour(self, block: Block, start: ThreadBlocks) -> ThreadBlocks | None:
        """A block that was made of another, weighed. One that brings no operands to shared memory
        where that did is none: a chunk for which there is no room is read by each thread by
        itself, of which times know less.
        """
        new = block not in self.known
        found = self._weighed(block, start.label)
        if self.staged.get(block, False) or not self.staged.get(start.block, False):
            return found
        if new:
            self.known[block] = None
        return None

    def _fuller(self) -> Iterator[tuple[ThreadBlocks, Block]]:
        """Neighbours of the best blocks whose last wave is fuller, for each number of blocks that a
        multiprocessor may hold: 320 blocks take two waves of 240 places, where 210 that are larger
        along one axis take one, in whole transactions too along the last. Roller's construction
        knows no waves, so that its tiles may miss one by little, and another balance of the same
        hardware meet it.
        """
        for held in HELD:
            for b in self._best(held)[:FILLED_BLOCKS]:
                yield from ((b, other) for other in self._filling(b, held * self.device.units))

    def _filling(self, grid: ThreadBlocks, places: int) -> Iterator[Block]:
        """The neighbours of one block that take a wave less of so many places."""
        waves = -(-grid.grid // places)
        if grid.block is None or grid.block.matrix:  # whose sizes are whole pieces
            return
        if waves == 1 or grid.grid >= FULL_SHARE * waves * places:
            return
        written = stores(self.kernel)[-1]
        axes = {a.name: evaluate_dim(a.extent, {}) for a in written.axes}
        last = [*axes][-1]
        row = max(1, self.near.line_bytes // ITEM_BYTES[self.kernel.dtype(written.out)])
        for a, n in grid.block.tile:
            others = grid.grid // -(-axes[a] // n)
            most = (waves - 1) * places // max(1, others)
            size = -(-axes[a] // max(1, most))
            if most and n < size <= GROWN_RATIO * n:
                rows = (size, -(-size // row) * row) if a == last else (size,)
                for each in dict.fromkeys(rows):
                    yield self._grown(grid.block, a, each)

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
        """Bytes that one block loads of the kernel's operands, and stores, in whole transactions of
        the nearest memory that units share: a tile one column wide loads the columns beside it.
        """
        k, tile, line = self.kernel, dict(block.tile), self.near.line_bytes
        parts = touched(k, propagate(k, tile), middle(k, tile))
        each = (p.moved(self.shapes[t], ITEM_BYTES[k.dtype(t)], line) for t, p in parts.items())
        return float(sum(each))

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
        results = max(1, round(register.points * max(1.0, p.grid / grid)))
        work = Work(-(-operations * lanes // (grid * p.threads)), p.threads, results)
        demand = Demand(
            grid, p.threads, tile.footprint_bytes, register.elements, (work,),
            prod(-(-n // s) for n, s in reduced),
        )  # fmt: skip
        ends = dict.fromkeys((*self.kernel.inputs, *self.kernel.outputs))
        near = sum(_bytes(self.kernel, t) for t in ends) / grid
        return thread_blocks(d, _label(p), demand, (near, min(near, self.far_bytes / grid)))


def _with_more_threads_us(b: ThreadBlocks, device: Device, held: int, ratio: int) -> float:
    """The time of a grid if what a block waits for came to so many times as many threads, or to as
    many as it may have.
    """
    threads = max(b.threads, min(device.block_threads, b.threads * ratio))
    return replace(b, alone_us=b.alone_us * b.threads / threads).whole_us(device, held)


def _on_matrix_units(b: ThreadBlocks) -> bool:
    """Whether its block is made for them: such blocks and others share sums each in their way."""
    return b.block is not None and bool(b.block.matrix)


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
