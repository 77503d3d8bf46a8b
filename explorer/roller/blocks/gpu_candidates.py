"""Thread blocks of a kernel on a GPU: Roller's tiles, also cut finer (Roller, section 3.3).

Each is weighed as the block that is generated for it, by its work and traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

from explorer.cost.bind_kernel import bind_kernel
from explorer.cost.thread_blocks import AS_FAST_RATIO, ThreadBlocks, thread_blocks
from explorer.cost.touched_parts import middle, number, touched
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Program
from explorer.ir.types import ITEM_BYTES
from explorer.process.cancellation import raise_if_cancelled
from explorer.roller.blocks.fitting_block import fitting_each
from explorer.roller.blocks.matrix_pieces import MOST_THREADS, matrix_blocks, sharing
from explorer.roller.blocks.thread_block import all_axes, block_of, partitioned_axes
from explorer.roller.construct.axis_fusion import Fused, as_matmul, fuse_axes
from explorer.roller.construct.construct import Growth, results_of
from explorer.roller.construct.expression import heaviest, of_compute, work_of
from explorer.roller.construct.rtile import TiledProgram, unit_tile
from explorer.roller.construct.shrink import finer
from explorer.roller.tile_cuts import tile_of
from explorer.tile.gpu.block import why_not_blocks
from explorer.tile.gpu.demand import Demand, Work, demand_of
from explorer.tile.gpu.rewrites import unpadded, unsynced
from explorer.tile.gpu.stage import is_staged
from explorer.tile.verify import level_problem

BLOCKS_PER_UNIT = (2, 4)  # blocks of a kernel per multiprocessor; chosen
GROWN_RESULTS = 4  # of the construction: a bound on search time, chosen
FEW_RESIDENT_COUNTS = (1, 4)  # for estimates that compare kernels; chosen
RESIDENT_COUNTS = (1, 2, 3, 4)  # blocks per multiprocessor, for which waves are counted; chosen
FULL_SHARE = 0.8  # of the places of all waves; fuller grids are not searched; chosen
GROWN_RATIO = 4  # growth of a block along an axis at most; chosen
AS_CHOSEN = "as chosen"  # in the place of a tile's label
FILLED_BLOCKS = 8  # best blocks whose last wave is filled, per resident count; chosen
START_BLOCKS = 2  # best blocks whose sums are shared, per resident count; chosen
GAIN_RATIO = 0.97  # of the time before, for a neighbour to count as a gain; chosen
RESIDENT_SHARE = 0.5  # of a shared cache, for an operand that stays in it; chosen


def grids(
    kernel: Kernel, device: Device, sizes: Sizes | None = None, cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """Return the possible grids of a kernel in normal form, in Roller's order, each once.

    The device's data sheet must limit blocks. For a kernel without a tile program for thread blocks
    they are as large as Roller's tiles, and no code is generated for them. `cold`: constants come
    from the farthest memory (`has_cold_constants`).
    """
    search = _search_of(kernel, device, sizes or {}, cold)
    programs = tuple(_programs(search.fused, device, frozenset(search.shared)))
    return search.with_programs(programs) or search.without_programs(programs)


def estimate_us(kernel: Kernel, device: Device) -> float:
    """Estimate the microseconds of a kernel of fixed extents alone on the device.

    It is the time of the best block of a constructed tile, or of one on the way from it, without
    bank conflicts. Kernels are compared by it, in half the time that `grids` takes.
    """
    search = _search_of(kernel, device, {}, cold=False)
    programs = tuple(_programs(search.fused, device, frozenset(search.shared)))
    best_us = search.best_us(programs)
    return (
        min(b.whole_us(device) for b in search.without_programs(programs))
        if best_us is None
        else best_us
    )


def grids_of(
    kernel: Kernel, device: Device, blocks: Iterable[Tiling], cold: bool = False
) -> tuple[ThreadBlocks, ...]:
    """Return the grids of some blocks of a kernel of fixed extents that fit the device.

    This prices a program on other hardware than it was tiled for.
    """
    search = _search_of(kernel, device, {}, cold)
    thread_blocks = (search.of(block, AS_CHOSEN) for block in blocks)
    return tuple(b for b in thread_blocks if b is not None)


def has_cold_constants(program: Program, device: Device) -> bool:
    """Return True if constants come from the farthest memory.

    They do if all constants of the program do not stay in a nearer one.
    """
    near = next(m for m in device.levels if m.shared)
    constants = sum(c.nbytes for c in program.constants.values())
    return constants > RESIDENT_SHARE * (near.capacity_bytes or float("inf"))


def _search_of(kernel: Kernel, device: Device, sizes: Sizes, cold: bool) -> _BlockSearch:
    bound = bind_kernel(kernel, sizes)
    c = heaviest(bound, {})
    match = contraction(c)
    fused = fuse_axes(of_compute(bound, c, {})) if match is None else as_matmul(bound, c, match, {})
    return _BlockSearch(bound, device, c, fused, _far_bytes(bound, device, cold))


def _programs(fused: Fused, device: Device, cut: frozenset[str]) -> Iterator[TiledProgram]:
    """Yield each result, also cut finer step by step until all units have work.

    With more units there are more steps, and no fewer. If blocks may not partition all axes, tiles
    cut along the others still leave units without work. Then the finer ones along the permitted
    axes alone follow too. If no tile fits, it is one point a thread.
    """
    spatial = range(fused.expression.spatial)
    shared = [d for d in spatial if not cut.isdisjoint(fused.groups[d])]
    point = unit_tile(fused.expression)
    results = results_of(fused.expression, device, Growth(top_k=GROWN_RESULTS))
    for p in results or (TiledProgram((point, point, point)),):
        base = TiledProgram(p.shrunk_from or p.tiles)
        yield from (TiledProgram(p.tiles), *finer(base, device.units, spatial))
        if len(shared) < len(spatial):
            yield from finer(base, device.units, shared)


class _BlockSearch:
    """The search for the blocks of one kernel.

    `shared` are the axes of its heaviest compute along which blocks partition the work.
    """

    def __init__(
        self, kernel: Kernel, device: Device, c: Compute, fused: Fused, far_bytes: float
    ) -> None:
        self.kernel, self.device, self.c, self.fused = kernel, device, c, fused
        self.served = not why_not_blocks(kernel)
        self.shared = partitioned_axes(kernel) if self.served else all_axes(kernel)
        self.extents = {a.name: max(1, evaluate_dim(a.extent, {})) for a in c.axes}
        self.far_bytes = far_bytes
        self.near = next(m for m in device.levels if m.shared)
        ends = (*kernel.inputs, *kernel.outputs)
        self.shapes = {t: tuple(map(number, kernel.shape(t))) for t in ends}
        self.weighed_blocks: dict[Tiling, ThreadBlocks | None] = {}
        self.staged: dict[Tiling | None, bool] = {}

    def with_programs(self, programs: tuple[TiledProgram, ...]) -> tuple[ThreadBlocks, ...]:
        """Return the blocks that fit a device; none for a kernel without a tile program for them.

        Some partition all work; others repeat some of it, so that more units have work.
        """
        if not self.served:
            return ()
        self._of_tiles(programs)
        for start, block in dict.fromkeys(self._fuller()):
            self._neighbour(block, start)
        self._share_sums()
        return self._choose()

    def best_us(self, programs: tuple[TiledProgram, ...]) -> float | None:
        """Return the time of the best of the constructed blocks and their neighbours."""
        if self.served:
            self._of_tiles(programs)
        self._share_sums(FEW_RESIDENT_COUNTS, 1)
        times = (b.whole_us(self.device) for b in self.weighed_blocks.values() if b is not None)
        return min(times, default=None)

    def _of_tiles(self, programs: tuple[TiledProgram, ...]) -> None:
        """Weigh the blocks of constructed tiles, and those for matrix units."""
        env, tiles, blocks = ShapeEnv(), dict[Tiling, str](), dict[Tiling, str]()
        for walks in (self.shared, all_axes(self.kernel)):
            for p in programs:
                tiles.setdefault(block_of(self.kernel, self.fused.groups, p, walks), _label(p))
        for block, label in tiles.items():
            for wide in self._wider(block):
                for fits in fitting_each(self.kernel, wide, env, self.device, self._rooms()):
                    blocks.setdefault(fits, label)
        cut_axes = (self.shared, all_axes(self.kernel))
        for block, label in matrix_blocks(self.kernel, self.c, self.device, cut_axes):
            blocks.setdefault(block, label)
        for block, label in blocks.items():
            self._weigh(block, label)

    def of(self, block: Tiling, label: str) -> ThreadBlocks | None:
        """Return the work and traffic of a block; None if it does not fit the device."""
        program = unsynced(self.kernel, block, ShapeEnv(), self.device)
        if level_problem(program, self.device):
            return None
        return self._priced(block, label, demand_of(program, self.device))

    def _weigh(self, block: Tiling, label: str) -> ThreadBlocks | None:
        """Return the same without bank conflicts, in a fraction of the time."""
        if block not in self.weighed_blocks:
            raise_if_cancelled("weighing thread blocks")
            program = unpadded(self.kernel, block, ShapeEnv(), self.device)
            self.weighed_blocks[block] = None
            if not level_problem(program, self.device):
                self.staged[block] = is_staged(program)
                demand = demand_of(program, self.device, banks=False)
                self.weighed_blocks[block] = self._priced(block, label, demand)
        return self.weighed_blocks[block]

    def _priced(self, block: Tiling, label: str, demand: Demand) -> ThreadBlocks:
        near = self._traffic_bytes(block)
        moved = near, min(near, self.far_bytes / demand.grid)
        return thread_blocks(self.device, label, demand, moved, block)

    def _choose(self) -> tuple[ThreadBlocks, ...]:
        """Return the best blocks for each number that a multiprocessor may hold, with bank waits.

        Those that take the least of the device are included. Each is evaluated until no other can
        be better.
        """
        d, evaluated = self.device, dict[Tiling, ThreadBlocks | None]()
        weighed = [b for b in self.weighed_blocks.values() if b is not None]

        def look(some: Iterable[tuple[float, ThreadBlocks]], resident: int) -> None:
            least = float("inf")
            for us, b in sorted(some, key=lambda x: x[0]):
                if us > AS_FAST_RATIO * least:
                    return
                assert b.block is not None, "every weighed grid has a block"
                if b.block not in evaluated:
                    evaluated[b.block] = self.of(b.block, b.label)
                exact = evaluated[b.block]
                if exact is not None:
                    least = min(
                        least, exact.whole_us(d, resident) if resident else exact.area_us(d)
                    )

        for resident in sorted({b.resident(d) for b in weighed}):
            look(
                ((b.whole_us(d, resident), b) for b in weighed if b.resident(d) >= resident),
                resident,
            )
        look(((b.area_us(d), b) for b in weighed), 0)
        return tuple(b for block in self.weighed_blocks if (b := evaluated.get(block)) is not None)

    def _best(self, resident: int) -> list[ThreadBlocks]:
        """Return the blocks of which a multiprocessor holds at least so many, fastest first."""
        d = self.device
        fits = [
            b for b in self.weighed_blocks.values() if b is not None and b.resident(d) >= resident
        ]
        return sorted(fits, key=lambda b: b.whole_us(d, resident))

    def _share_sums(self, holds: Iterable[int] = RESIDENT_COUNTS, most: int = START_BLOCKS) -> None:
        """Weigh neighbours whose threads share sums, as long as they gain.

        For each number that a multiprocessor may hold, it starts from the best blocks that wait
        longer than they compute. It also starts from those that would be best if as many threads as
        possible shared each sum.
        """
        if contraction(self.c) is None:
            return
        d, starts = self.device, list[tuple[ThreadBlocks, int]]()
        for resident, matrix in product(holds, (False, True)):
            best = [b for b in self._best(resident) if _on_matrix_units(b) == matrix]
            shared = [b for b in best if self.staged[b.block]]
            for each, ratio in ((best, 1), (best, d.block_threads), (shared, MOST_THREADS)):
                first = sorted(each, key=lambda b: _with_more_threads_us(b, d, resident, ratio))
                starts += [(b, resident) for b in first[:most]]
        for start, resident in dict.fromkeys(starts):
            self._climb(start, resident)

    def _climb(self, best: ThreadBlocks | None, resident: int) -> None:
        """Move from a block to its best neighbour for as long as that gains."""
        d, reduced = self.device, {a.name: evaluate_dim(a.extent, {}) for a in self.c.reduce}
        while best is not None and best.block is not None and best.is_latency_bound(d, resident):
            others = (*sharing(best.block, reduced, d), *self._halves(best.block))
            near = [self._neighbour(b, best) for b in others]
            less = [b for b in near if b and b.resident(d) >= resident]
            us = GAIN_RATIO * best.whole_us(d, resident)
            best = min(less, key=lambda b: b.whole_us(d, resident), default=None)
            if best is not None and best.whole_us(d, resident) > us:
                return

    def _halves(self, block: Tiling) -> Iterator[Tiling]:
        """Yield the block with half of its tile along one axis, and half of its threads."""
        if (
            block.matrix or block.threads < 2 * self.device.lanes
        ):  # pieces and warps cannot be halved
            return
        axes = {a.name: evaluate_dim(a.extent, {}) for a in stores(self.kernel)[-1].axes}
        sizes = dict(block.tile)
        for axis, extent in axes.items():
            size = sizes.get(axis, extent)
            if size > 1:
                cut = {**sizes, axis: -(-size // 2)}
                tile = tuple((a, cut[a]) for a in axes if a in cut)
                yield replace(block, tile=tile, threads=-(-block.threads * cut[axis] // size))

    def _neighbour(self, block: Tiling, start: ThreadBlocks) -> ThreadBlocks | None:
        """Weigh a block that was derived from another; None if it lost its staging.

        A chunk that does not fit shared memory is read by each thread by itself, whose time is
        modelled less exactly.
        """
        new = block not in self.weighed_blocks
        weighed = self._weigh(block, start.label)
        if self.staged.get(block, False) or not self.staged.get(start.block, False):
            return weighed
        if new:
            self.weighed_blocks[block] = None
        return None

    def _fuller(self) -> Iterator[tuple[ThreadBlocks, Tiling]]:
        """Yield neighbours of the best blocks whose last wave is fuller, for each number held.

        320 blocks take two waves of 240 places, where 210 that are larger along one axis take one,
        in whole transactions too along the last. Roller's construction knows no waves, so that its
        tiles may miss one by little, and another balance of the same hardware meet it.
        """
        for resident in RESIDENT_COUNTS:
            for b in self._best(resident)[:FILLED_BLOCKS]:
                yield from ((b, other) for other in self._filling(b, resident * self.device.units))

    def _filling(self, grid: ThreadBlocks, places: int) -> Iterator[Tiling]:
        """Yield the neighbours of one block that take a wave less of so many places."""
        waves = -(-grid.grid // places)
        if grid.block is None or grid.block.matrix:  # sizes are multiples of pieces
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
                rows = (size, min(axes[a], -(-size // row) * row)) if a == last else (size,)
                for each in dict.fromkeys(rows):
                    yield self._grown(grid.block, a, each)

    def _grown(self, block: Tiling, axis: str, size: int) -> Tiling:
        """Return a block that is larger along one axis of its output.

        It has more threads or, if that is not possible, more points a thread.
        """
        before = dict(block.tile)[axis]
        tile = tuple((a, size if a == axis else n) for a, n in block.tile)
        threads = -(-block.threads * size // before)
        if threads <= self.device.block_threads:
            return replace(block, tile=tile, threads=threads)
        mine = {a for a, (out, _) in all_axes(self.kernel).items() if out == axis}
        times, most = -(-size // before), {a.name: evaluate_dim(a.extent, {}) for a in self.c.axes}
        register = tuple(
            (a, min(n * times, max(1, most[a])) if a in mine else n) for a, n in block.register
        )
        return replace(block, tile=tile, register=register)

    def _wider(self, block: Tiling) -> Iterator[Tiling]:
        """Yield the block and, for a reduction that is no contraction, one with a warp a result.

        It has as many threads as are allowed at most: if the reduced elements are contiguous in
        memory, neighbours read neighbours.
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
        """Return the bytes of shared memory that a block may take.

        They are all, and so much that a multiprocessor holds several. A kernel of which it holds
        only one would leave no more to all others, too, as they share the units.
        """
        limit = self.device.block_shared_bytes
        parts = (self.device.unit_shared_bytes // n for n in BLOCKS_PER_UNIT)
        return (limit, *(n for n in parts if n < limit))

    def _traffic_bytes(self, block: Tiling) -> float:
        """Return the bytes that one block loads and stores, in whole transactions.

        The memory is the nearest one that units share: a tile one column wide loads the columns
        beside it.
        """
        k, tile, line = self.kernel, dict(block.tile), self.near.line_bytes
        parts = touched(k, propagate(k, tile), middle(k, tile))
        each = (p.moved(self.shapes[t], ITEM_BYTES[k.dtype(t)], line) for t, p in parts.items())
        return float(sum(each))

    def without_programs(self, programs: tuple[TiledProgram, ...]) -> tuple[ThreadBlocks, ...]:
        """Return the grids of tiles alone; axes that must not be cut are not."""
        return tuple(dict.fromkeys(self._estimated(p) for p in programs))

    def _estimated(self, p: TiledProgram) -> ThreadBlocks:
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


def _with_more_threads_us(b: ThreadBlocks, device: Device, resident: int, ratio: int) -> float:
    """Return the time of a grid if its waits were spread over `ratio` times as many threads.

    The number of threads of a block is limited by the device.
    """
    threads = max(b.threads, min(device.block_threads, b.threads * ratio))
    return replace(b, alone_us=b.alone_us * b.threads / threads).whole_us(device, resident)


def _on_matrix_units(b: ThreadBlocks) -> bool:
    """Return True if a block uses matrix units, which have their own scheme for shared sums."""
    return b.block is not None and bool(b.block.matrix)


def _label(p: TiledProgram) -> str:
    return "x".join(map(str, p.tiles[0].shape))


def _bytes(kernel: Kernel, tensor: str) -> int:
    spec = kernel.spec(tensor)
    return ITEM_BYTES[spec.dtype] * prod(evaluate_dim(n, {}) for n in spec.shape)


def _far_bytes(kernel: Kernel, device: Device, cold: bool) -> float:
    """Return the bytes of operands that do not stay in a cache that all units share."""
    near = next(m for m in device.levels if m.shared)
    if near.capacity_bytes is None:
        return 0.0
    room = near.capacity_bytes * RESIDENT_SHARE
    operands = {t: _bytes(kernel, t) for t in (*kernel.inputs, *kernel.outputs)}
    return sum(n for t, n in operands.items() if n > room or (cold and t in kernel.constants))
