"""The form that a contraction gets in a tile program, known before there is one.

Whoever prices thousands of tilings asks here; lowering and the rewrite of register tiles, which
make the program of the one that is chosen, decide with the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, Kernel, reads
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.forms import group_of
from explorer.ir.patterns.regions import propagate
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.tile_programs.elements import Buffer, Fetch
from explorer.ir.tile_programs.statements import Map, Span
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
from explorer.tile.lowering.places import Places
from explorer.tile.lowering.tile_epilogue import tile_epilogue
from explorer.tile.lowering.transposed_tile import turned_sizes, turned_tile
from explorer.tile.rewriting.register_tiles import LyingRows, lying

REMEMBERED_KERNELS, REMEMBERED_TILES = 64, 256  # bounds on memory, chosen


@dataclass(frozen=True, slots=True)
class PartForm:
    """How register tiles go over the rows while a part of the depth is summed: so many of the last
    row axes are a `run`, 0: rows stand in a table. `exact`: whole tiles are all of a run.
    `registers`: full tiles do the epilogue on registers.
    """

    run: int
    exact: bool
    registers: bool


@dataclass(frozen=True, slots=True)
class ContractionForm:
    """How register tiles go over a contraction: axes by name.

    `around`: row axes of one point; `rows`: the others. `parts` of the depth that are alike, with
    how many there are: all of it, or the first, those between and the last one. `panels` of the
    right operand: "ahead", "in place", or packed in the "tile". `turned`: results are copied, their
    axes swapped, when all are done.
    """

    around: tuple[str, ...]
    rows: tuple[str, ...]
    parts: tuple[tuple[PartForm, int], ...]
    panels: str
    turned: bool


def contraction_form(kernel: Kernel, number: int, tiling: Tiling) -> ContractionForm | None:
    """The form of the contraction that the compute of that number is, in a kernel in normal form;
    None where it becomes loops.
    """
    laid = _laid(kernel, (number, tiling.tile))
    if laid is None:
        return None
    found, column, left, walk = laid.found, laid.column, laid.left, laid.left.walk
    depth, part = left.depth, None
    if tiling.depth_block:
        part = packed_part(laid.p.kernel, tiling, found, depth, column, laid.right)
    if part is not None:
        depth = tuple(part if x.name == part.name else x for x in depth)
        walk = walk_of(left.fetch, depth, left.group)
    if walk is None:
        return None
    block = tiling.depth_block
    count = depth_parts(block, *walk[:2]) if part is None else part_count(part, found)
    height, parts = tiling.micro.over(found.column.extent).rows, _rows(laid, count > 1)
    times = (1, count - 2, 1) if count > 1 else (1,)
    return ContractionForm(
        tuple(x.axis for x in parts[0].around),
        tuple(x.axis for x in parts[0].rows),
        tuple((_part(rows, height), alike) for rows, alike in zip(parts, times) if alike),
        panels_of(laid.p.kernel, tiling, found, depth, column, laid.right)[0],
        laid.turned,
    )


def _part(rows: LyingRows, height: int) -> PartForm:
    run = rows.run(height)
    along = 0 if run is None else len(rows.rows) - len(run.outer)
    return PartForm(along, run is not None and run.exact, bool(rows.operands))


@dataclass(frozen=True, slots=True, eq=False)
class _Laid:
    """A contraction within a tile, whatever register tile it has."""

    p: Places
    number: int
    found: Contraction
    rows: tuple[Span, ...]
    column: Span
    left: _Left
    right: Fetch
    finish: Map
    turned: bool


@by_identity_at(REMEMBERED_TILES)
def _laid(kernel: Kernel, key: tuple[int, tuple[tuple[str, int], ...]]) -> _Laid | None:
    number, tile = key
    tiling = Tiling(tile)
    grid, regions = grid_of(kernel, tiling), propagate(kernel, dict(tile))
    blocks = block_by_block(kernel, regions)
    if blocks is None:
        known = _outside(kernel, number)
    else:
        kernel, regions = blocks.kernel, blocks.regions
        known = _in_blocks(kernel, number)
    if known is None:
        return None
    c, found = kernel.computes[number], known.found
    p = Places(kernel, ShapeEnv(), grid, tiling, regions, reduced=reduced_alone(kernel))
    spans = p.spans(number, c)
    rows, column = rows_of(spans, found), spans[found.column.name]
    left = known.left or _left(p, number, found)
    if column.clip_low or left is None:
        return None
    finish = known.finish or _finish(p, number, column)
    turned = turned_sizes(rows, column, finish.target) is not None
    if turned:
        finish, _ = turned_tile(p, c.out, rows, column, finish)
    right = known.right or p.element(found.b, {})
    return _Laid(p, number, found, rows, column, left, right, finish, turned)


@by_identity_at(REMEMBERED_TILES)
def _rows(laid: _Laid, several: bool) -> tuple[LyingRows, ...]:
    """How the rows lie while all of the depth is summed, or the first of several parts, one
    between, and the last.
    """
    kernel, n = laid.p.kernel, laid.number
    sums = _sums(kernel, n)
    parts: tuple[Map, ...] = (laid.finish,)
    if several:
        parts = summed_in_parts(laid.p, kernel.computes[n], laid.finish, sums)
    return tuple(lying(laid.rows, laid.column, laid.left.fetch, sums.buffer, e) for e in parts)


@dataclass(frozen=True, slots=True)
class _Left:
    """The left operand, the summed axes in the order of its segments, those, and how many
    neighbours are multiplied in a group.
    """

    fetch: Fetch
    depth: tuple[Axis, ...]
    walk: Walk | None
    group: int


@dataclass(frozen=True, slots=True)
class _Outside:
    """What of a contraction lies as its tensor does, whatever the tile; None where scratch does."""

    found: Contraction
    left: _Left | None
    right: Fetch | None
    finish: Map | None


@by_identity_at(REMEMBERED_KERNELS)
def _outside(kernel: Kernel, number: int) -> _Outside | None:
    c = kernel.computes[number]
    found = tensor_contraction(kernel, c)
    if found is None:
        return None
    border = {*kernel.inputs, *kernel.outputs}
    p = Places(kernel, ShapeEnv(), (), Tiling(), propagate(kernel, {}))
    epilogue = tile_epilogue(kernel, c)
    last = epilogue or c
    around = {last.out, *(r.tensor for r in reads(last.expr) if epilogue)} - {c.out}
    alone = found.a.fill is None and found.a.tensor in border
    return _Outside(
        found,
        _left(p, number, found) if alone and group_of(kernel.dtype(found.a.tensor)) == 1 else None,
        p.element(found.b, {}) if found.b.tensor in border else None,
        _finish(p, number, p.spans(number, c)[found.column.name])
        if around | {last.out} <= border
        else None,
    )


@by_identity_at(REMEMBERED_KERNELS)
def _in_blocks(kernel: Kernel, number: int) -> _Outside | None:
    """The contraction alone: what lies around it has a place of its own in every block."""
    found = tensor_contraction(kernel, kernel.computes[number])
    return None if found is None else _Outside(found, None, None, None)


def _left(p: Places, number: int, found: Contraction) -> _Left | None:
    halo = {found.a: p.halo(number, found.a)[1]} if p.is_copied(found.a) else {}
    left = left_operand(p, number, p.kernel.computes[number], found, halo)
    if left is None:
        return None
    fetch, depth, _, group = left
    return _Left(fetch, depth, walk_of(fetch, depth, group), group)


@by_identity_at(REMEMBERED_KERNELS)
def _sums(kernel: Kernel, number: int) -> Fetch:
    """In the place of the sums of a register tile, whatever its size."""
    c = kernel.computes[number]
    return Fetch(Buffer(f"{c.out}_acc", "scratch", 1, kernel.dtype(c.out), "L1"), Affine())


def _finish(p: Places, number: int, column: Span) -> Map:
    c = p.kernel.computes[number]
    return epilogue_map(p, c, tile_epilogue(p.kernel, c), _sums(p.kernel, number), column)
