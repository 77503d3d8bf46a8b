"""The epilogue that a contraction computes while its sums are near, and the tiles it transposes.

Sums are in registers or in the nearest cache.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.affine import Affine, var
from explorer.ir.dims import product
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, reads
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.normal import epilogue_of, reader_of, writers
from explorer.ir.scalar_functions import cycles_of
from explorer.ir.tile_program import Fetch, Map, Span, Statement
from explorer.tile.lowering.places import BufferPlaces, row_major

MOST_CYCLES = 4.0  # of a square root; on a Zen 3 functions of 8 and more were faster as an own pass


def tile_epilogue(kernel: Kernel, c: Compute) -> Compute | None:
    """Return the compute that each register tile of a contraction does, or None.

    It is element-wise, or a sum of elements over the batch of a contraction with constants: each
    register tile then adds its part to the sum, such as a block of weights times the block's scale.

    None if it has elementary functions. They are computed over whole rows of a task, when all sums
    are there. GELU's derivative took 387 us alone and 680 us in the register tiles of a product,
    for 512 x 512 on a Zen 3; two vectors a row are few to hide the latency of a function's steps.
    """
    epilogue = epilogue_of(kernel, c) or _batch_sum(kernel, c)
    return None if epilogue is None or _is_expensive(epilogue.expr) else epilogue


def _batch_sum(kernel: Kernel, c: Compute) -> Compute | None:
    """Return the next compute if it sums elements over the one batch axis of a contraction."""
    form = contraction(c)
    if form is None or len(form.batch) != 1 or form.b.tensor not in kernel.constants:
        return None
    (block,) = form.batch
    user = reader_of(kernel, c)
    if user is None or user.combiner != "sum" or len(user.reduce) != 1:
        return None
    (over,) = user.reduce
    is_whole = isinstance(block.extent, int) and block.extent == over.extent > 1
    if not is_whole or not _is_at_axes(c) or not _is_at_axes(user):
        return None
    if kernel.dtype(user.out) != "float32" or len(writers(kernel, user.out)) != 1:
        return None
    names = axes_of_reader(c, user)
    return user if names.get(over.name) == block.name and len(names) == len(c.axes) else None


def _is_at_axes(c: Compute) -> bool:
    """Return True if a compute stores each axis at a dim of its own; other dims are constant."""
    bare = [i.bare for i in c.target if i.terms]
    return sorted(map(str, bare)) == sorted(a.name for a in c.axes)


def axes_of_reader(c: Compute, user: Compute) -> dict[str, str]:
    """Return the axis of a compute that each axis of its reader is; both are bare."""
    index = next(r.index for r in reads(user.expr) if r.tensor == c.out)
    pairs = zip(index, c.target, strict=True)
    return {i.bare: t.bare for i, t in pairs if isinstance(i, Affine) and i.bare and t.bare}


def _is_expensive(e: Expr) -> bool:
    return isinstance(e, Apply) and (
        cycles_of(e.op) > MOST_CYCLES or any(map(_is_expensive, e.args))
    )


LEAST_SIDE_ELEMENTS = 16  # for a block in registers to pay; chosen, no measurement kept


def transposed_tile(
    p: BufferPlaces, name: str, rows: tuple[Span, ...], column: Span, epilogue: Map
) -> tuple[Map, list[Statement]]:
    """Return the epilogue of a register tile, and the copies after all tiles.

    `y[c, r] = f(sum)` becomes `tile[r, c] = f(sum)`, then `y[c, r] = tile[r, c]`, where `r` is
    dense in `y` and `c` is not.
    """
    sizes = transposed_sizes(rows, column, epilogue.target)
    if sizes is None:
        return epilogue, []
    target = epilogue.target
    buffer = p.buffer(f"{name}_turned", "scratch", product(sizes), target.buffer.dtype, "L2")
    at = Affine()
    for span, stride in zip((*rows, column), row_major(sizes), strict=True):
        at = at + (var(span.axis) - span.base) * stride
    tile = Fetch(buffer, at)
    return replace(epilogue, target=tile), [Map(target, (column, *rows), tile)]


def transposed_sizes(rows: tuple[Span, ...], column: Span, target: Fetch) -> tuple[int, ...] | None:
    """Return the extents of the tile that is copied, or None.

    None if results are dense as they are computed, or if too few of them are contiguous.
    """
    step, sizes = target.offset.factor(column.axis), [s.size for s in (*rows, column)]
    extents = tuple(n for n in sizes if isinstance(n, int))
    if len(extents) != len(sizes) or not isinstance(step, int) or target.dynamic or step in (0, 1):
        return None
    few = _run(target, rows) < LEAST_SIDE_ELEMENTS or extents[-1] < LEAST_SIDE_ELEMENTS
    return None if few else extents


def _run(target: Fetch, rows: tuple[Span, ...]) -> int:
    """Return how many rows are contiguous in the target."""
    run = 1
    for span in reversed(rows):
        if target.offset.factor(span.axis) != run or not isinstance(span.size, int):
            break
        run *= span.size
        if span.clip_low or span.clip_high or span.size != span.extent:
            break
    return run
