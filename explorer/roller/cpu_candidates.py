"""Tilings of a CPU kernel from constructed rTiles (Roller, section 3).

The tile of a core's last cache is the task, the tile in registers the micro-kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from itertools import product as every
from math import prod

from explorer.cost.estimate import contract_cycles, tasks
from explorer.cost.structure import structure
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Compute, Kernel, reads
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.running import slides
from explorer.roller.construct.axis_fusion import Fused, as_matmul, unfused
from explorer.roller.construct.construct import Growth, results_of
from explorer.roller.construct.cpu_rules import KEPT_TILES
from explorer.roller.construct.expression import heaviest, of_compute
from explorer.roller.construct.rtile import TiledProgram
from explorer.roller.construct.shrink import finer
from explorer.roller.contraction_in_tile import ContractionInTile, register_tiles
from explorer.roller.policy import SHOWN_CANDIDATES, tile_candidates, weighed_cuts
from explorer.roller.tile_cuts import Cut, cut_by, shared_axes, tile_of, unrepeated
from explorer.roller.tile_order import AS_GOOD_RATIO, in_order
from explorer.roller.weigh_tiles import scored
from explorer.tile.lowering.lower import tensor_contraction, with_sum_lanes

GROWN_RESULTS, EACH_RESULTS = 30, 10  # weighed; per register tile: bounds on search time, chosen
FEW_TILINGS = 8  # a product whose operand is packed once for each row of tiles wants more; chosen
PARTS = (1, 2, 4)
FEW_REGISTER_TILES = 2  # tried with blocks of an image: a bound on search time, chosen
BLOCK_ROWS, BLOCK_COLUMNS = (4, 8, 16, 32), (12, 16, 26, 32, 64, 128)  # 26 and 2 more: 2 x 14
WEIGHED_COMPUTES, LEAST_RESULTS = 200, 8  # of large kernels: bounds on search time, chosen


def cpu_candidates(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int = SHOWN_CANDIDATES
) -> Iterator[Candidate[Tiling]]:
    """Yield the tilings that construction finds for a kernel in normal form, best first.

    If it finds few, or none that is legal, those of `tile_candidates` are weighed too.
    """
    inside = ContractionInTile.of(kernel, device, sizes)
    tiled = tuple(_tilings(kernel, device, sizes))
    grown = (
        *tiled,
        *_packed_once(kernel, inside, tiled),
        *_fewest_cycles(kernel, inside, tiled),
        *_unrepeated(kernel, inside),
    )

    def weigh(some: Iterable[tuple[Cut, Micro]]) -> Iterator[Candidate[Tiling]]:
        for cut, micro in dict.fromkeys(some):
            choice = inside.choice(cut)
            if choice is not None:
                regions, pack, block = choice
                tiling = Tiling(cut, micro, pack, block)
                yield scored(kernel, tiling, device, sizes, regions)

    weighed = list(weigh(grown))
    if len(weighed) < FEW_TILINGS:
        weighed += [c for c in weighed_cuts(kernel, device, sizes) if c not in weighed]
    if weighed:
        best = min(weighed, key=lambda c: c.cost_us)
        most = tasks(kernel, best.value, sizes)
        fewer = weigh(_fewer_tasks(kernel, device, sizes))
        better = (c for c in fewer if AS_GOOD_RATIO * c.cost_us < best.cost_us)
        weighed += [c for c in better if tasks(kernel, c.value, sizes) < most]
    ordered = in_order(weighed, kernel, device, env, sizes, top_k)
    first = next(ordered, None)
    if first is None or first.refused:
        yield from tile_candidates(kernel, device, env, sizes, top_k)
    else:
        yield from chain((first,), ordered)


def _packed_once(
    kernel: Kernel, inside: ContractionInTile, tiled: Iterable[tuple[Cut, Micro]]
) -> Iterator[tuple[Cut, Micro]]:
    """Yield cuts with more rows of a product in one task, up to all rows.

    They matter if a task packs an operand that is not laid out in panels, as learnt filters: each
    part of the rows packs it again, which construction does not model.
    """
    main = inside.shape.main
    if main is None:
        return
    number, match = main
    facts = next((f for f in structure(kernel, inside.device).facts if f.number == number), None)
    if facts is None or not facts.packs or facts.dense_columns or facts.dense_depth:
        return
    walks = cut_by(kernel, number, match)
    rows = {walks[a.name][0]: a for a in match.rows if a.name in walks}
    for cut, micro in tiled:
        sizes = dict(cut)
        for name in (n for n, _ in cut if n in rows):
            most = evaluate_dim(rows[name].extent, inside.sizes)
            while sizes[name] * 2 < most:
                sizes[name] *= 2
                yield tuple(sizes.items()), micro
            del sizes[name]
            if sizes:
                yield tuple(sizes.items()), micro


def _fewest_cycles(
    kernel: Kernel, inside: ContractionInTile, tiled: Iterable[tuple[Cut, Micro]]
) -> Iterator[tuple[Cut, Micro]]:
    """Yield cuts of a matrix product for the register tile that needs the fewest cycles.

    Construction looks for reuse and may have others: one that divides the rows leaves no remainder.
    """
    main, own = inside.shape.main, with_sum_lanes(kernel, inside.device)
    if main is None or len(kernel.computes) > 2:
        return
    match, sizes = main[1], inside.sizes
    rows = [a for a in match.rows if evaluate_dim(a.extent, sizes) > 1]
    if len(rows) != 1:
        return
    depth = prod(evaluate_dim(a.extent, sizes) for a in match.depth)
    columns = max(1, evaluate_dim(match.column.extent, sizes))
    count = evaluate_dim(rows[0].extent, sizes)

    def cycles(m: Micro) -> float:
        return contract_cycles(count, columns, depth, m, own)

    best = min(register_tiles(own), key=cycles)
    if cycles(best) * AS_GOOD_RATIO > min((cycles(m) for _, m in tiled), default=0.0):
        return
    walks = cut_by(kernel, main[0], match)
    steps = {}
    for axis, extent, step in (
        (rows[0], count, best.rows),
        (match.column, columns, best.columns),
    ):
        if walks.get(axis.name, ("", 0))[1] == 1:
            steps[walks[axis.name][0]] = (extent, step)
    for cut in dict.fromkeys(cut for cut, _ in tiled):
        yield tuple((name, _even(n, *steps.get(name, (n, 1)))) for name, n in cut), best


def _even(size: int, extent: int, step: int) -> int:
    """Return equal shares of an extent, as many as tiles of a size, in multiples of a step."""
    share = -(-extent // -(-extent // size))
    return -(-share // step) * step


def _unrepeated(kernel: Kernel, inside: ContractionInTile) -> Iterator[tuple[Cut, Micro]]:
    """Yield cuts of kernels without products that repeat no reduction."""
    if inside.shape.main is None:
        for cut in unrepeated(kernel, inside.shape, inside.device):
            yield cut, Micro(1, 1, inside.device.lanes)


def _tilings(kernel: Kernel, device: Device, sizes: Sizes) -> Iterator[tuple[Cut, Micro]]:
    grown, blocks = _Grown.of(kernel, device, sizes), list(_blocks(kernel, sizes))
    for number, p in enumerate(grown.results):
        micro = grown.micro(p)
        for shares in _shares(kernel, grown.cut(p), device, sizes):
            yield shares, micro
        if number < FEW_REGISTER_TILES:
            yield from ((block, micro) for block in blocks)


def _fewer_tasks(kernel: Kernel, device: Device, sizes: Sizes) -> Iterator[tuple[Cut, Micro]]:
    """Yield the results before and while they were cut finer to give every unit work.

    On many units a few tasks may finish first if they reuse more.
    """
    grown = _Grown.of(kernel, device, sizes)
    for p in grown.results:
        if p.shrunk_from:
            spatial = range(p.tiles[0].expression.spatial)
            uncut = TiledProgram(p.shrunk_from, p.border)
            for finer_program in finer(uncut, device.units, spatial, KEPT_TILES):
                yield _ordered(kernel, grown.cut(finer_program)), grown.micro(finer_program)


@dataclass(frozen=True)
class _Grown:
    """The construction's results for a kernel, as cuts of its output and register tiles."""

    fused: Fused
    device: Device
    walks: Mapping[str, tuple[str, int]]
    extents: Mapping[str, int]
    symbolic: frozenset[str]
    sums: bool
    results: tuple[TiledProgram, ...]

    @staticmethod
    def of(kernel: Kernel, device: Device, sizes: Sizes) -> _Grown:
        """Construct the tiles of a kernel under a binding."""
        c, own = _main(kernel, sizes), with_sum_lanes(kernel, device)
        match = tensor_contraction(kernel, c)
        fused = (
            unfused(of_compute(kernel, c, sizes))
            if match is None
            else as_matmul(kernel, c, match, sizes)
        )
        wanted = max(LEAST_RESULTS, min(GROWN_RESULTS, WEIGHED_COMPUTES // len(kernel.computes)))
        growth = Growth(top_k=wanted, each=EACH_RESULTS if match else None)
        return _Grown(
            fused,
            own,
            cut_by(kernel, kernel.computes.index(c), match),
            {a.name: max(1, evaluate_dim(a.extent, sizes)) for a in c.axes},
            frozenset(a.name for a in c.axes if not isinstance(a.extent, int)),
            match is not None,
            results_of(fused.expression, own, growth),
        )

    def cut(self, p: TiledProgram) -> dict[str, int]:
        """Return the sizes of the tile along the axes of the output."""
        cut: dict[str, int] = {}
        for axis, size in tile_of(self.fused, p, self.extents).items():
            if axis in self.walks and (size < self.extents[axis] or axis in self.symbolic):
                out, step = self.walks[axis]
                cut[out] = max(1, size // step)
        return cut

    def micro(self, p: TiledProgram) -> Micro:
        """Return the register tile: the columns in vectors, all other axes as rows."""
        lanes = self.device.lanes
        if not self.sums:
            return Micro(1, 1, lanes)
        register = p.tiles[-2].spatial
        return Micro(prod(register[:-1]), -(-register[-1] // lanes), lanes)


def _blocks(kernel: Kernel, sizes: Sizes) -> Iterator[Cut]:
    """Yield tiles of an image, rows by columns, if windows reduce an internal tensor.

    Narrow ones recompute little, and much stays in cache.
    """
    internal = {c.out for c in kernel.computes}
    if not any(
        slides(c, r) for c in kernel.computes for r in reads(c.expr) if r.tensor in internal
    ):
        return
    last = stores(kernel)[-1]
    shared = shared_axes(kernel)
    image = [a for a in last.axes[:-1] if a.name in shared and evaluate_dim(a.extent, sizes) > 1]
    if len(image) < 2:
        return
    lead, (high, wide) = image[:-2], image[-2:]
    extents = [evaluate_dim(a.extent, sizes) for a in (high, wide)]
    for rows, columns in every(BLOCK_ROWS, BLOCK_COLUMNS):
        if rows < extents[0] and columns < extents[1]:
            yield (*((a.name, 1) for a in lead), (high.name, rows), (wide.name, columns))


def _shares(kernel: Kernel, cut: dict[str, int], device: Device, sizes: Sizes) -> Iterator[Cut]:
    """Yield the cut, and even shares of the outermost axis if it leaves a unit without a task.

    For kernels that use much scratch memory, single steps of that axis are added.
    """
    last = stores(kernel)[-1]
    extents = {a.name: max(1, evaluate_dim(a.extent, sizes)) for a in last.axes}
    outer = next((a for a in shared_axes(kernel) if cut.get(a, extents[a]) > 1), None)
    busy = prod(-(-extents[a] // n) for a, n in cut.items()) >= device.units
    if outer is None or busy:
        yield _ordered(kernel, cut)
    if outer is None:
        return
    size = cut.get(outer, extents[outer])
    if not busy:
        for part in PARTS:
            yield _ordered(kernel, {**cut, outer: -(-size // (device.units * part))})
    if len(kernel.computes) > 2:
        for few in PARTS:
            yield _ordered(kernel, {**cut, outer: min(few, size)})


def _main(kernel: Kernel, sizes: Sizes) -> Compute:
    """Return the heaviest contraction, else the heaviest compute."""
    sums = [c for c in kernel.computes if tensor_contraction(kernel, c) is not None]
    return heaviest(kernel, sizes, sums)


def _ordered(kernel: Kernel, cut: Mapping[str, int]) -> Cut:
    """Return sizes in the order of the output's axes."""
    last = stores(kernel)[-1]
    return tuple((a.name, cut[a.name]) for a in last.axes if a.name in cut)
