"""How often one task does each thing that costs time: cycles are these counts times the constants
of the machine, so that the constants can be fitted by least squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, prod

from explorer.cost.loops import Loops
from explorer.cost.structure import Facts
from explorer.devices.costs import NAMES
from explorer.devices.model import PAGE_BYTES, Device
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.patterns.scatter import Scatter
from explorer.tile.contraction_form import ContractionForm
from explorer.tile.rewriting.vectorise import SIDES

Extents = Mapping[str, int]  # of each axis of a compute

# by their places in NAMES
TILE, SUM, ROW, EDGE_ROW, EDGE_VECTOR, EDGE_ELEMENT, PACK, TURN, STRIP = range(9)
RUN, VECTOR, ELEMENT, STRIDED, HORIZONTAL, FUNCTION, START = range(9, 16)
SIDE = SIDES[4]  # rows and columns of a turned block of float32 elements
ROOM_SHARE = 0.5  # of a set is there for one operand; chosen, no measurement kept
ACROSS = ("across", "rows", "sums in memory", "unrolled")  # vectors of results


@dataclass(frozen=True, slots=True)
class Sides:
    """The axes of a compute: what this task has of them, what a whole tile has, and all of them."""

    size: Extents
    full: Extents
    whole: Extents


@dataclass(slots=True)
class Counts:
    """Counts in the order of `NAMES`, and cycles that no constant changes: multiplying, and waiting
    for lines that were driven out of a cache.
    """

    multiply: float = 0.0
    each: list[float] = field(default_factory=lambda: [0.0] * len(NAMES))
    waits: float = 0.0

    def cycles(self, costs: tuple[float, ...], names: tuple[int, ...]) -> float:
        """Of some of the counts."""
        return sum(self.each[n] * costs[n] for n in names)


IN_COMPUTE = (TILE, SUM, ROW, RUN, VECTOR, ELEMENT, STRIDED, HORIZONTAL, FUNCTION)
IN_PACK = (PACK, TURN, STRIP)
IN_EDGE = (EDGE_ROW, EDGE_VECTOR, EDGE_ELEMENT)


def step_cycles(rows: int, vectors: int, device: Device) -> float:
    """Cycles of one step of the depth: rows x vectors fused multiply-adds, a value loaded a row and
    a vector a column group, and no sum needed before it is there.
    """
    return max(rows * vectors / device.fma_per_cycle, (rows + vectors) / 2, device.pipeline_cycles)


def miss_cycles(lines: int, stride_bytes: int, device: Device) -> float:
    """What an access waits when so many lines, a stride apart, are iterated over again and again:
    lines of one set drive each other out of a cache before it is full.
    """
    cycles = 0.0
    for level, wait in zip(device.levels, device.costs.misses):
        ways = device.ways(level)
        sets = max(1, (level.capacity_bytes or 0) // (level.line_bytes * ways))
        whole, rest = divmod(stride_bytes, level.line_bytes)
        used = sets if rest or not whole else sets // gcd(sets, whole)
        if lines > used * ways * ROOM_SHARE:
            cycles = wait
    return cycles


def count_contraction(
    out: Counts, f: Facts, form: ContractionForm, size: Extents, tiling: Tiling, device: Device
) -> None:
    """Register tiles over packed columns: each runs whole, also at the edges."""
    found = f.found
    assert found is not None
    micro = tiling.micro.over(found.column.extent)
    rows = prod(size[a.name] for a in found.rows)
    depth = -(-prod(size[a.name] for a in found.depth) // f.group)
    columns, batch = size[found.column.name], prod(size[a.name] for a in found.batch)
    panels, parts = -(-columns // micro.columns), sum(times for _, times in form.parts)
    step = step_cycles(micro.rows, micro.vectors, device)
    for part, alike in form.parts:
        run = prod([size.get(a, 1) for a in form.rows[-part.run :]]) if part.run else 0
        blocks = rows // run * -(-run // micro.rows) if run else -(-rows // micro.rows)
        times = batch * alike
        tiles = times * blocks * panels
        out.multiply += tiles * depth / parts * step
        out.each[TILE] += tiles
        out.each[SUM] += tiles * micro.rows * micro.vectors * (3 - 2 / parts)  # those so far added
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
    out: Counts, f: Facts, through: int, rows: int, columns: int, times: int, micro: Micro
) -> None:
    """Rows of register tiles that go through L1: some of the panels that are whole, all of the last
    one.
    """
    panels, rest = divmod(columns, micro.columns)
    wide, narrow = times * through * panels, times * rows if rest else 0
    work = max(1.0, f.operations / 2)
    out.each[EDGE_ROW] += wide + narrow
    out.each[EDGE_VECTOR] += (wide * micro.vectors + narrow * (rest // micro.lanes)) * work
    out.each[EDGE_ELEMENT] += narrow * (rest % micro.lanes) * work


def _count_packing(
    out: Counts, f: Facts, batch: int, depth: int, columns: int, panels: int, micro: Micro
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
    """A copy that swaps two axes: whole blocks in registers, what remains one by one."""
    inside = (columns // SIDE) * (depth // SIDE) * SIDE * SIDE
    out.each[TURN] += times * inside
    out.each[PACK] += times * (columns * depth - inside)
    out.each[STRIP] += times * columns / SIDE


def count_loops(out: Counts, f: Facts, sides: Sides, device: Device) -> None:
    """Innermost loops in vectors; what is past the last whole one is one more, masked."""
    c, loops, size, lanes = f.compute, f.loops, sides.size, device.lanes
    assert loops is not None
    points = prod(size[a.name] for a in c.axes)
    over = prod(size[a.name] for a in c.reduce)
    length = _run(loops, sides)
    if loops.order == "blocks":
        depth = prod(size[a] for a in loops.turned)
        times = points // max(1, depth * length)
        _count_turn(out, times, length, depth)
        wait = miss_cycles(depth, loops.stride_bytes, device)
        out.waits += times * (length % SIDE) * depth * wait
        lines = (length // SIDE) * (depth // SIDE) * SIDE  # of blocks, each written whole
        pages = depth if loops.stride_bytes >= PAGE_BYTES else 0  # near rows fill page after page
        late = max(0.0, 1 - device.costs.prefetched_pages / max(1, pages))
        out.waits += times * lines * device.costs.misses[0] * late
    elif loops.to is not None:
        _count_scatter(out, loops, loops.to, sides, points, lanes)
    elif not c.reduce or loops.order == "scan":
        _count_run(out, loops, points // max(1, length), length, 1, lanes)
    elif loops.order in ACROSS:
        _count_run(out, loops, points // max(1, length), length, over, lanes)
    else:
        _count_run(out, loops, points * over // max(1, length), length, 1, lanes)
        out.each[HORIZONTAL] += points


def _count_scatter(
    out: Counts, loops: Loops, to: Scatter, sides: Sides, points: int, lanes: int
) -> None:
    """All results begin as nothing; each element's place is looked at, and its row is combined
    where the place is in the tile, as often as the tile is a part of all places.
    """
    size = sides.size
    looked = prod(size[a.name] for a in to.points)
    hits = looked * prod(size[a.name] / max(1, sides.whole[a.name]) for a, _ in to.places)
    rows = [size[a.name] for a in to.rows]
    out.each[VECTOR] += points / lanes + looked * loops.looking
    if rows:
        _count_run(out, loops, hits * prod(rows[:-1]), rows[-1], 1, lanes)
    else:
        out.each[VECTOR] += hits * loops.operations


def _run(loops: Loops, sides: Sides) -> int:
    """Points of the innermost loop: axes that are one in memory are one loop where they are not
    cut.
    """
    length = 1
    for axis in reversed(loops.axes):
        length *= sides.size[axis]
        if sides.full[axis] != sides.whole[axis]:
            break
    return length


def _count_run(out: Counts, loops: Loops, runs: float, length: int, times: int, lanes: int) -> None:
    each = out.each
    vectors, rest = divmod(length, lanes)
    masked = 1 if rest else 0
    each[RUN] += runs
    each[VECTOR] += runs * (vectors + masked) * times * loops.operations
    each[ELEMENT] += runs * masked
    each[STRIDED] += runs * length * times * loops.strided
    each[FUNCTION] += runs * (vectors + masked) * times * loops.functions


def count_halo(out: Counts, part: tuple[int, ...], lanes: int) -> None:
    """A padded copy: filled, then what exists of the part is copied row by row."""
    if not part:
        return
    total, inner = prod(part), part[-1]
    runs = total // max(1, inner)
    out.each[VECTOR] += 3 * runs * -(-inner // lanes)
    out.each[RUN] += runs
    out.each[ELEMENT] += runs if inner % lanes else 0
