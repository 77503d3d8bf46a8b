"""Event counts of one task for each cost constant of the machine.

Cycles are these counts times the constants, so that the constants can be fitted by least squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, prod

from explorer.cost.loops import Loops
from explorer.cost.structure import CostedCompute
from explorer.devices.costs import NAMES
from explorer.devices.model import PAGE_BYTES, Device
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernels.scatter import Scatter
from explorer.tile.contraction_form import ContractionForm
from explorer.tile.rewriting.vectorise import SIDES

Extents = Mapping[str, int]  # of each axis of a compute

# Positions in NAMES.
TILE, SUM, ROW, EDGE_ROW, EDGE_VECTOR, EDGE_ELEMENT, PACK, TURN, STRIP = range(9)
RUN, VECTOR, ELEMENT, STRIDED, HORIZONTAL, FUNCTION, START = range(9, 16)
SIDE = SIDES[4]  # rows and columns of a transposed block of float32 elements
ROOM_SHARE = 0.5  # of a set is available for one operand; chosen, unmeasured
ACROSS = ("across", "window", "rows", "sums in memory", "unrolled")  # vectors of results


@dataclass(frozen=True, slots=True)
class TaskExtents:
    """The axes of a compute: their extents in this task, in a full tile, and in total."""

    size: Extents
    full: Extents
    total: Extents


@dataclass(slots=True)
class Counts:
    """Counts in the order of `NAMES`, and cycles that no constant scales.

    These are multiplications, and waits for lines evicted from a cache.
    """

    multiply: float = 0.0
    each: list[float] = field(default_factory=lambda: [0.0] * len(NAMES))
    waits: float = 0.0

    def cycles(self, costs: tuple[float, ...], names: tuple[int, ...]) -> float:
        """Return the cycles of some of the counts."""
        return sum(self.each[n] * costs[n] for n in names)


IN_COMPUTE = (TILE, SUM, ROW, RUN, VECTOR, ELEMENT, STRIDED, HORIZONTAL, FUNCTION)
IN_PACK = (PACK, TURN, STRIP)
IN_EDGE = (EDGE_ROW, EDGE_VECTOR, EDGE_ELEMENT)


def step_cycles(rows: int, vectors: int, device: Device) -> float:
    """Return the cycles of one step of the depth of a register tile.

    It has rows x vectors fused multiply-adds, a value loaded for each row and a vector for each
    column group, and waits for no sum.
    """
    return max(rows * vectors / device.fma_per_cycle, (rows + vectors) / 2, device.pipeline_cycles)


def miss_cycles(lines: int, stride_bytes: int, device: Device) -> float:
    """Return the wait of an access if `lines` lines at a stride are iterated over repeatedly.

    Lines of one set evict each other before the cache is full.
    """
    cycles = 0.0
    for level, wait in zip(device.levels, device.costs.misses):
        associativity = device.ways(level)
        sets = max(1, (level.capacity_bytes or 0) // (level.line_bytes * associativity))
        lines_apart, remainder = divmod(stride_bytes, level.line_bytes)
        used = sets if remainder or not lines_apart else sets // gcd(sets, lines_apart)
        if lines > used * associativity * ROOM_SHARE:
            cycles = wait
    return cycles


def count_contraction(
    out: Counts,
    f: CostedCompute,
    form: ContractionForm,
    size: Extents,
    tiling: Tiling,
    device: Device,
) -> None:
    """Count register tiles over packed columns; each runs in full, also at the edges."""
    contraction = f.contraction
    assert contraction is not None
    micro = tiling.micro.over(contraction.column.extent)
    rows = prod(size[a.name] for a in contraction.rows)
    depth = -(-prod(size[a.name] for a in contraction.depth) // f.group)
    columns, batch = size[contraction.column.name], prod(size[a.name] for a in contraction.batch)
    panels, parts = -(-columns // micro.columns), sum(times for _, times in form.parts)
    step = step_cycles(micro.rows, micro.vectors, device) + micro.vectors * f.decode
    for part, alike in form.parts:
        run = prod([size.get(a, 1) for a in form.rows[-part.run :]]) if part.run else 0
        blocks = rows // run * -(-run // micro.rows) if run else -(-rows // micro.rows)
        times = batch * alike
        tiles = times * blocks * panels
        out.multiply += tiles * depth / parts * step
        out.each[TILE] += tiles
        out.each[SUM] += (
            tiles * micro.rows * micro.vectors * (3 - 2 / parts)
        )  # partial sums are added
        if run:
            _count_edges(out, f, 0, blocks * micro.rows, columns, times, micro)
        else:
            out.each[ROW] += times * blocks * micro.rows
            through = rows % micro.rows if part.registers else rows
            _count_edges(out, f, through, rows, columns, times, micro)
    out.each[FUNCTION] += batch * rows * -(-columns // micro.lanes) * f.functions
    if form.turned:
        _count_turn(out, batch, rows, columns)
    if form.panels == "tile":
        _count_packing(out, f, batch, depth * f.group, columns, panels, micro)


def _count_edges(
    out: Counts, f: CostedCompute, through: int, rows: int, columns: int, times: int, micro: Micro
) -> None:
    """Count rows of register tiles that go through L1.

    These are some of the full panels' rows, and all rows of the last panel.
    """
    panels, remainder = divmod(columns, micro.columns)
    wide, narrow = times * through * panels, times * rows if remainder else 0
    work = max(1.0, f.operations / 2)
    out.each[EDGE_ROW] += wide + narrow
    out.each[EDGE_VECTOR] += (wide * micro.vectors + narrow * (remainder // micro.lanes)) * work
    out.each[EDGE_ELEMENT] += narrow * (remainder % micro.lanes) * work


def _count_packing(
    out: Counts, f: CostedCompute, batch: int, depth: int, columns: int, panels: int, micro: Micro
) -> None:
    wide = panels * micro.columns
    turned = f.runs or (f.dense_depth and not f.dense_columns)
    if not turned or micro.columns % SIDE:
        out.each[PACK] += batch * depth * wide
        out.each[STRIP] += batch * depth
    else:
        _count_turn(out, batch, depth, columns)
        out.each[PACK] += batch * depth * (wide - columns)


def _count_turn(out: Counts, times: int, depth: int, columns: int) -> None:
    """Count a transposing copy: full blocks in registers, the remainder element by element."""
    inside = (columns // SIDE) * (depth // SIDE) * SIDE * SIDE
    out.each[TURN] += times * inside
    out.each[PACK] += times * (columns * depth - inside)
    out.each[STRIP] += times * columns / SIDE


def count_loops(out: Counts, f: CostedCompute, extents: TaskExtents, device: Device) -> None:
    """Count innermost loops in vectors; the remainder of a row is one masked vector."""
    c, loops, size, lanes = f.compute, f.loops, extents.size, device.lanes
    assert loops is not None
    points = prod(size[a.name] for a in c.axes)
    over = prod(size[a.name] for a in c.reduce)
    length = _run_length(loops, extents)
    if loops.order == "blocks":
        depth = prod(size[a] for a in loops.turned)
        times = points // max(1, depth * length)
        _count_turn(out, times, length, depth)
        wait = miss_cycles(depth, loops.stride_bytes, device)
        out.waits += times * (length % SIDE) * depth * wait
        lines = (length // SIDE) * (depth // SIDE) * SIDE  # lines of full blocks
        pages = (
            depth if loops.stride_bytes >= PAGE_BYTES else 0
        )  # adjacent rows fill consecutive pages
        late = max(0.0, 1 - device.costs.prefetched_pages / max(1, pages))
        out.waits += times * lines * device.costs.misses[0] * late
    elif loops.to is not None:
        _count_scatter(out, loops, loops.to, extents, points, lanes)
    elif not c.reduce or loops.order == "scan":
        _count_run(out, loops, points // max(1, length), length, 1, lanes)
    elif loops.order in ACROSS:
        _count_run(out, loops, points // max(1, length), length, over, lanes)
    else:
        _count_run(out, loops, points * over // max(1, length), length, 1, lanes)
        out.each[HORIZONTAL] += points


def _count_scatter(
    out: Counts, loops: Loops, to: Scatter, extents: TaskExtents, points: int, lanes: int
) -> None:
    """Count a scatter: initialisation, a lookup for each element, and the rows that are combined.

    A row is combined where its position is in the tile, in proportion to the tile's share of all
    positions.
    """
    size = extents.size
    looked = prod(size[a.name] for a in to.points)
    hits = looked * prod(size[a.name] / max(1, extents.total[a.name]) for a, _ in to.places)
    rows = [size[a.name] for a in to.rows]
    out.each[VECTOR] += points / lanes + looked * loops.lookup_operations
    if rows:
        _count_run(out, loops, hits * prod(rows[:-1]), rows[-1], 1, lanes)
    else:
        out.each[VECTOR] += hits * loops.operations


def _run_length(loops: Loops, extents: TaskExtents) -> int:
    """Return the points of the innermost loop; uncut axes that are contiguous form one loop."""
    length = 1
    for axis in reversed(loops.axes):
        length *= extents.size[axis]
        if extents.full[axis] != extents.total[axis]:
            break
    return length


def _count_run(out: Counts, loops: Loops, runs: float, length: int, times: int, lanes: int) -> None:
    each = out.each
    vectors, remainder = divmod(length, lanes)
    masked = 1 if remainder else 0
    each[RUN] += runs
    each[VECTOR] += runs * (vectors + masked) * times * loops.operations
    each[ELEMENT] += runs * masked
    each[STRIDED] += runs * length * times * loops.strided
    each[FUNCTION] += runs * (vectors + masked) * times * loops.functions


def count_halo(out: Counts, part: tuple[int, ...], lanes: int) -> None:
    """Count a padded copy: filled, then copied row by row where the part exists."""
    if not part:
        return
    total, inner = prod(part), part[-1]
    runs = total // max(1, inner)
    out.each[VECTOR] += 3 * runs * -(-inner // lanes)
    out.each[RUN] += runs
    out.each[ELEMENT] += runs if inner % lanes else 0
