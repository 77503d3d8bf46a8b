"""Rows of a contraction that lie a constant distance apart: register tiles walk them without a
table.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.codegen.cpu.expressions import dim_text
from explorer.ir.kernel import Affine
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.tile_program import Fetch, Panels, Span

WASTE = 1.1  # of a run of rows, by its last tile


@dataclass(frozen=True, slots=True)
class Run:
    """`count` rows after each other along the last axis: for every point of the `outer` loops, or,
    where all rows are one run, with the others at their first value.

    Each tensor moves by a constant from row to row: the factor of the last axis.
    """

    outer: tuple[Span, ...]
    count: str
    exact: bool  # the count is a multiple of the tile's rows


def constant_steps(s: Panels, operands: list[Fetch]) -> Run | None:
    """The rows as runs, None where they need a table, or where tiles at the edge would be wasted.

    The last tile of a run is moved back until it is full: some rows are computed twice, which an
    epilogue that reads what may be written does not allow.
    """
    rows = s.micro.rows
    fetched = (s.contract.a, *operands)
    if any(not isinstance(f.offset.factor(s.rows[-1].axis), int) for f in fetched):
        return None
    inner = s.rows[-1]
    found = None
    if all(_is_one_run(f.offset, s.rows) for f in fetched):
        rest = product(tuple(x.size for x in s.rows[1:]))
        count = "_count0" + (f" * {dim_text(rest)}" if len(s.rows) > 1 else "")
        found = _run((), count, _size(s.rows), rest, rows)
    if found is None and len(s.rows) > 1 and isinstance(inner.size, int):
        size = inner.size
        wasted = -(-size // rows) * rows > size * WASTE
        if _is_fixed(inner) and not wasted:
            found = _run(s.rows[:-1], str(size), size, size, rows)
        elif inner.least >= rows and not wasted:
            found = Run(s.rows[:-1], f"_count{len(s.rows) - 1}", False)
    if found is None or (not found.exact and any(_may_change(f, s) for f in operands[1:])):
        return None
    return found


def _run(
    outer: tuple[Span, ...], count: str, size: Dim | None, least: Dim, rows: int
) -> Run | None:
    known = size if isinstance(size, int) else least
    if not isinstance(known, int) or known < rows:
        return None
    return Run(outer, count, known % rows == 0)


def _size(rows: tuple[Span, ...]) -> Dim | None:
    """How many rows there are in every task; None where the first axis may be cut short."""
    if rows[0].clip_low or rows[0].clip_high:
        return None
    return product(tuple(x.size for x in rows))


def _is_fixed(s: Span) -> bool:
    return isinstance(s.size, int) and not s.clip_low and not s.clip_high


def _is_one_run(offset: Affine, rows: tuple[Span, ...]) -> bool:
    step = offset.factor(rows[-1].axis)
    for outer, span in zip(rows[-2::-1], rows[:0:-1], strict=True):
        if not _is_fixed(span):
            return False
        step *= span.size
        if offset.factor(outer.axis) != step:
            return False
    return True


def _may_change(f: Fetch, s: Panels) -> bool:
    """Whether a tile that is computed twice might read what it wrote the first time."""
    return f.buffer == s.epilogue.target.buffer or f.buffer.kind not in ("constant", "scratch")
