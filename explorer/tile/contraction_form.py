"""The form that a contraction gets in a tile program, predicted without building the program.

Cost models that price thousands of tilings use it. Lowering and the rewrite of register tiles make
the program of the chosen tiling, and decide with the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Axis, Kernel, reads
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.forms import group_of
from explorer.ir.kernels.regions import propagate
from explorer.ir.tile_program import Buffer, Fetch, Map, Span
from explorer.tile.lowering.block_by_block import block_by_block
from explorer.tile.lowering.contract import (
    Walk,
    depth_parts,
    epilogue_map,
    left_operand,
    packed_part,
    panels_of,
    part_count,
    rows_of,
    summed_in_parts,
    walk_of,
)
from explorer.tile.lowering.lower import grid_of, reduced_alone, tensor_contraction
from explorer.tile.lowering.places import BufferPlaces
from explorer.tile.lowering.tile_epilogue import tile_epilogue, transposed_sizes, transposed_tile
from explorer.tile.rewriting.register_tiles import RowLayout, row_layout

REMEMBERED_KERNELS, REMEMBERED_TILES = 64, 256  # bounds on memory, chosen


@dataclass(frozen=True, slots=True)
class PartForm:
    """The order in which register tiles visit the rows while a part of the depth is summed.

    The last `run` row axes form a run; 0: rows are in a table. `exact`: all tiles of a run are
    full. `registers`: full tiles compute the epilogue on registers.
    """

    run: int
    exact: bool
    registers: bool


@dataclass(frozen=True, slots=True)
class ContractionForm:
    """The order in which register tiles visit a contraction: axes by name.

    `around` are row axes of one point, `rows` the others. `parts` are the distinct parts of the
    depth with their counts: all of it, or the first, those between and the last one. `panels` of
    the right operand are "ahead", "in place", or packed in the "tile". `turned`: the finished
    results are copied with their axes swapped.
    """

    around: tuple[str, ...]
    rows: tuple[str, ...]
    parts: tuple[tuple[PartForm, int], ...]
    panels: str
    turned: bool


def contraction_form(kernel: Kernel, number: int, tiling: Tiling) -> ContractionForm | None:
    """Return the form of a compute that is a contraction; None if it becomes loops.

    The kernel is in normal form; `number` is that of the compute.
    """
    laid = _layout_of(kernel, (number, tiling.tile))
    if laid is None:
        return None
    contraction, column, left, walk = laid.contraction, laid.column, laid.left, laid.left.walk
    depth, part = left.depth, None
    if tiling.depth_block:
        part = packed_part(laid.p.kernel, tiling, contraction, depth, column, laid.right)
    if part is not None:
        depth = tuple(part if x.name == part.name else x for x in depth)
        walk = walk_of(left.fetch, depth, left.group)
    if walk is None:
        return None
    block = tiling.depth_block
    count = depth_parts(block, *walk[:2]) if part is None else part_count(part, contraction)
    height, parts = tiling.micro.over(contraction.column.extent).rows, _rows(laid, count > 1)
    times = (1, count - 2, 1) if count > 1 else (1,)
    return ContractionForm(
        tuple(x.axis for x in parts[0].around),
        tuple(x.axis for x in parts[0].rows),
        tuple((_part_form(rows, height), alike) for rows, alike in zip(parts, times) if alike),
        panels_of(laid.p.kernel, tiling, contraction, depth, column, laid.right)[0],
        laid.turned,
    )


def _part_form(rows: RowLayout, height: int) -> PartForm:
    run = rows.run(height)
    along = 0 if run is None else len(rows.rows) - len(run.outer)
    return PartForm(along, run is not None and run.exact, bool(rows.operands))


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """A contraction within a tile, independent of its register tile."""

    p: BufferPlaces
    number: int
    contraction: Contraction
    rows: tuple[Span, ...]
    column: Span
    left: _Left
    right: Fetch
    finish: Map
    turned: bool


@by_identity_at(REMEMBERED_TILES)
def _layout_of(kernel: Kernel, key: tuple[int, tuple[tuple[str, int], ...]]) -> _Layout | None:
    """Return the layout of a contraction under a tile, `key` = (compute, tile); None if loops."""
    number, tile = key
    tiling = Tiling(tile)
    grid, regions = grid_of(kernel, tiling), propagate(kernel, dict(tile))
    blocks = block_by_block(kernel, regions)
    if blocks is None:
        invariant = _tile_invariant(kernel, number)
    else:
        kernel, regions = blocks.kernel, blocks.regions
        invariant = _in_blocks(kernel, number)
    if invariant is None:
        return None
    c, contraction = kernel.computes[number], invariant.contraction
    p = BufferPlaces(kernel, ShapeEnv(), grid, tiling, regions, reduced=reduced_alone(kernel))
    spans = p.spans(number, c)
    rows, column = rows_of(spans, contraction), spans[contraction.column.name]
    left = invariant.left or _left(p, number, contraction)
    if column.clip_low or left is None:
        return None
    finish = invariant.finish or _epilogue(p, number, column)
    turned = transposed_sizes(rows, column, finish.target) is not None
    if turned:
        finish, _ = transposed_tile(p, c.out, rows, column, finish)
    right = invariant.right or p.element(contraction.b, {})
    return _Layout(p, number, contraction, rows, column, left, right, finish, turned)


@by_identity_at(REMEMBERED_TILES)
def _rows(laid: _Layout, several: bool) -> tuple[RowLayout, ...]:
    """Return how the rows lie for each part of the depth.

    The parts are all of it, or the first of several, one between, and the last.
    """
    kernel, n = laid.p.kernel, laid.number
    sums = _placeholder_sums(kernel, n)
    parts: tuple[Map, ...] = (laid.finish,)
    if several:
        parts = summed_in_parts(laid.p, kernel.computes[n], laid.finish, sums)
    return tuple(row_layout(laid.rows, laid.column, laid.left.fetch, sums.buffer, e) for e in parts)


@dataclass(frozen=True, slots=True)
class _Left:
    """The left operand, the summed axes in the order of its segments, and the group size.

    `group` is how many neighbours are multiplied together.
    """

    fetch: Fetch
    depth: tuple[Axis, ...]
    walk: Walk | None
    group: int


@dataclass(frozen=True, slots=True)
class _TileInvariant:
    """The parts of a contraction that do not depend on the tile; None where they lie in scratch."""

    contraction: Contraction
    left: _Left | None
    right: Fetch | None
    finish: Map | None


@by_identity_at(REMEMBERED_KERNELS)
def _tile_invariant(kernel: Kernel, number: int) -> _TileInvariant | None:
    """Return the parts of a contraction that are equal for all tiles, or None."""
    c = kernel.computes[number]
    contraction = tensor_contraction(kernel, c)
    if contraction is None:
        return None
    border = {*kernel.inputs, *kernel.outputs}
    p = BufferPlaces(kernel, ShapeEnv(), (), Tiling(), propagate(kernel, {}))
    epilogue = tile_epilogue(kernel, c)
    last = epilogue or c
    around = {last.out, *(r.tensor for r in reads(last.expr) if epilogue)} - {c.out}
    is_plain = contraction.a.fill is None and contraction.a.tensor in border
    return _TileInvariant(
        contraction,
        _left(p, number, contraction)
        if is_plain and group_of(*(kernel.dtype(r.tensor) for r in contraction.operands)) == 1
        else None,
        p.element(contraction.b, {}) if contraction.b.tensor in border else None,
        _epilogue(p, number, p.spans(number, c)[contraction.column.name])
        if around | {last.out} <= border
        else None,
    )


@by_identity_at(REMEMBERED_KERNELS)
def _in_blocks(kernel: Kernel, number: int) -> _TileInvariant | None:
    """Return the contraction alone: other parts have a place of their own in every block."""
    contraction = tensor_contraction(kernel, kernel.computes[number])
    return None if contraction is None else _TileInvariant(contraction, None, None, None)


def _left(p: BufferPlaces, number: int, contraction: Contraction) -> _Left | None:
    halo = {contraction.a: p.halo(number, contraction.a)[1]} if p.is_copied(contraction.a) else {}
    left = left_operand(p, number, p.kernel.computes[number], contraction, halo)
    if left is None:
        return None
    fetch, depth, _, group = left
    return _Left(fetch, depth, walk_of(fetch, depth, group), group)


@by_identity_at(REMEMBERED_KERNELS)
def _placeholder_sums(kernel: Kernel, number: int) -> Fetch:
    """Return a stand-in for the sums of a register tile of any size."""
    c = kernel.computes[number]
    return Fetch(Buffer(f"{c.out}_acc", "scratch", 1, kernel.dtype(c.out), "L1"), Affine())


def _epilogue(p: BufferPlaces, number: int, column: Span) -> Map:
    c = p.kernel.computes[number]
    return epilogue_map(
        p, c, tile_epilogue(p.kernel, c), _placeholder_sums(p.kernel, number), column
    )
