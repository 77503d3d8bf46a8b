"""How often one task does each thing that costs time: cycles are these counts times the constants
of the machine, so that the constants can be fitted by least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from explorer.cost.structure import Facts, Halo, Loops
from explorer.devices.costs import NAMES
from explorer.devices.model import Device
from explorer.ir.decisions import Tiling

Extents = dict[str, int]  # of each axis of a compute, in one task

PLACE = {name: n for n, name in enumerate(NAMES)}
TILE, SUM, ROW, EDGE_ROW, EDGE_VECTOR, EDGE_ELEMENT, PACK, TURN, STRIP = range(9)
RUN, VECTOR, ELEMENT, STRIDED, HORIZONTAL, FUNCTION, START = range(9, 16)
LATENCY_FMA = 4  # cycles until a fused multiply-add's result can be used
BLOCK = 16  # rows and columns of a turned block


@dataclass(slots=True)
class Counts:
    """Counts in the order of `NAMES`, and cycles that no constant changes: multiplying."""

    multiply: float = 0.0
    each: list[float] = field(default_factory=lambda: [0.0] * len(NAMES))

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
    return max(rows * vectors / device.fma_per_cycle, (rows + vectors) / 2, LATENCY_FMA)


def count_contraction(
    out: Counts, f: Facts, size: Extents, whole: Extents, tiling: Tiling, device: Device
) -> None:
    """Register tiles over packed columns: each runs whole, also at the edges, and those at the
    edges go through L1.
    """
    found, micro = f.found, tiling.micro
    assert found is not None
    rows = prod(size[a.name] for a in found.rows)
    depth = -(-prod(size[a.name] for a in found.depth) // f.group)
    columns, batch = size[found.column.name], prod(size[a.name] for a in found.batch)
    blocks, panels = -(-rows // micro.rows), -(-columns // micro.columns)
    parts = -(-depth // tiling.depth_block) if tiling.depth_block else 1
    each = out.each
    tiles = batch * blocks * panels
    out.multiply += tiles * depth * step_cycles(micro.rows, micro.vectors, device)
    each[TILE] += tiles * parts
    each[SUM] += tiles * micro.rows * micro.vectors * (3 * parts - 2)
    each[ROW] += batch * blocks * micro.rows * parts
    inside = all(size[a.name] == whole[a.name] for a in found.rows[1:])
    _count_edges(out, f, rows, columns, batch * parts, tiling, inside)
    if f.epilogue is not None:
        each[FUNCTION] += batch * rows * -(-columns // micro.lanes) * f.epilogue.functions
    if f.packs and not _in_place(f, size, whole, tiling):
        _count_packing(out, f, batch, depth * f.group, columns, panels, tiling)


def _count_edges(
    out: Counts, f: Facts, rows: int, columns: int, times: int, tiling: Tiling, inside: bool
) -> None:
    """Rows of register tiles that go through L1: of panels that are whole, and of the last one."""
    micro = tiling.micro
    panels, rest = divmod(columns, micro.columns)
    whole = rows // micro.rows * micro.rows if f.registers and inside else 0
    wide, narrow = times * (rows - whole) * panels, times * rows if rest else 0
    work = 1.0 if f.epilogue is None else max(1.0, f.epilogue.operations / 2)
    out.each[EDGE_ROW] += wide + narrow
    out.each[EDGE_VECTOR] += (wide * micro.vectors + narrow * (rest // micro.lanes)) * work
    out.each[EDGE_ELEMENT] += narrow * (rest % micro.lanes) * work


def _in_place(f: Facts, size: Extents, whole: Extents, tiling: Tiling) -> bool:
    """Whether rows of the right operand are panels as they lie."""
    assert f.found is not None
    name = f.found.column.name
    wide = tiling.micro.columns
    even = size[name] % wide == 0 and whole[name] % size[name] == 0
    return f.dense_columns and even and not tiling.pack and f.group == 1


def _count_packing(
    out: Counts, f: Facts, batch: int, depth: int, columns: int, panels: int, tiling: Tiling
) -> None:
    wide = panels * tiling.micro.columns
    if f.dense_columns or tiling.micro.columns % BLOCK:
        out.each[PACK] += batch * depth * wide
        out.each[STRIP] += batch * depth
    else:
        _count_turn(out, batch, depth, columns)
        out.each[PACK] += batch * depth * (wide - columns)


def _count_turn(out: Counts, times: int, depth: int, columns: int) -> None:
    """A copy that swaps two axes: whole blocks in registers, what remains one by one."""
    inside = (columns // BLOCK) * (depth // BLOCK) * BLOCK * BLOCK
    out.each[TURN] += times * inside
    out.each[PACK] += times * (columns * depth - inside)
    out.each[STRIP] += times * columns / BLOCK


def count_loops(out: Counts, f: Facts, size: Extents, whole: Extents, lanes: int) -> None:
    """Innermost loops in vectors, and what is past the last whole one one by one."""
    c, loops = f.compute, f.loops
    points = prod(size[a.name] for a in c.axes)
    over = prod(size[a.name] for a in c.reduce)
    inner = size[c.axes[-1].name] if c.axes else 1
    match loops.order:
        case "turn":
            depth = size[loops.turned]
            _count_turn(out, points // max(1, depth * inner), inner, depth)
        case "map":
            length = _run(f, size, whole)
            _count_run(out, loops, points // max(1, length), length, 1, lanes)
        case "few":
            _count_run(out, loops, points // max(1, inner), inner, over, lanes)
        case "rows":
            _count_run(out, loops, points // max(1, inner) * over, inner, 1, lanes)
        case _:
            last = size[c.reduce[-1].name] if c.reduce else 1
            _count_run(out, loops, points * over // max(1, last), last, 1, lanes)
            out.each[HORIZONTAL] += points


def _run(f: Facts, size: Extents, whole: Extents) -> int:
    """Points of the innermost loop: axes that are one in memory are one loop where they are not
    cut.
    """
    axes = f.compute.axes
    if not axes:
        return 1
    length = size[axes[-1].name]
    for n in range(len(axes) - 1, len(axes) - 1 - f.loops.joined, -1):
        if size[axes[n].name] != whole[axes[n].name]:
            break
        length *= size[axes[n - 1].name]
    return length


def _count_run(out: Counts, loops: Loops, runs: int, length: int, times: int, lanes: int) -> None:
    each = out.each
    vectors, rest = divmod(length, lanes)
    each[RUN] += runs
    each[VECTOR] += runs * vectors * times * loops.operations
    each[ELEMENT] += runs * rest * times * loops.operations
    each[STRIDED] += runs * length * times * loops.strided
    each[FUNCTION] += runs * (vectors + rest) * times * loops.functions


def count_halo(out: Counts, halo: Halo, part: tuple[int, ...], lanes: int) -> None:
    """A padded copy: filled, then what exists of the part is copied row by row."""
    if not part:
        return
    total, inner = prod(part), part[-1]
    out.each[VECTOR] += 3 * total / lanes
    out.each[RUN] += total // max(1, inner)
    out.each[ELEMENT] += 2 * total // max(1, inner) * (inner % lanes)
