"""Blocking of rows that are reduced: several rows at a time share a vector of results.

No row then waits for the sum of the one before it.

for row: m = max[j] x[row, j]; e[j] = exp(x[row, j] - m)
->
for block: for row in block: m[row] = max[j] x[row, j]
           for row in block: e[row, j] = exp(x[row, j] - m[row])

Measured in cycles a row, one by one and in blocks: softmax of 49 columns 63 and 46, of 128 99 and
78, of 512 317 and 316; layer norm of 128 52 and 44, of 384 105 and 119.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.dims import ceil_div, product
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_program import (
    Buffer,
    Fetch,
    For,
    Map,
    OnePass,
    Reduce,
    Span,
    Statement,
    TileProgram,
    fetches,
)
from explorer.ir.tile_traversal import Part, parts_of, touched, with_loads

LEAST_ROWS = 4  # for a block to pay; chosen, no measurement kept
# Measured with vectors of 8, blocks of 16 rows over blocks of 8, two runs: layer norm of 16
# columns 1.05 and 1.10, of 24 1.15 and 1.09, of 32 1.02 and 1.04, of 128, of which a block takes
# more than half of L1, 0.85; softmax of 16 1.04 and 1.01, of 32 1.00 and 1.03; NAFNet 1.02.
ROWS_IN_FLIGHT = 16  # to hide a reduction's latency, if half of the nearest cache holds them


def blocks_of_rows(p: TileProgram, device: Device) -> TileProgram:
    """Reduce rows several at a time instead of one after the other."""
    if p.updates:
        return p
    body, buffers = in_row_blocks(p.body, p.buffers, device)
    return replace(p, body=body, buffers=buffers)


def in_row_blocks(
    body: Iterable[Statement], buffers: Iterable[Buffer], device: Device
) -> tuple[tuple[Statement, ...], tuple[Buffer, ...]]:
    """Replace loops over reduced rows by loops over blocks of rows.

    Scratch of one row then holds a block.
    """
    statements = tuple(body)
    uses = Counter(b.name for s in statements for b in touched(s))
    rows = _Rows(uses, device)
    blocked = tuple(x for s in statements for x in rows.statement(s))
    return blocked, tuple(rows.larger.get(b.name, b) for b in buffers)


def _fetches_of(p: Part) -> tuple[Fetch, ...]:
    return (p.target, *fetches(p.expr))


class _Rows:
    """The loops of a program while they become loops over blocks.

    `larger` has the scratch that grew, by name.
    """

    def __init__(self, uses: Mapping[str, int], device: Device) -> None:
        """Create the rewrite; `uses` counts the accesses of each buffer."""
        self.uses, self.device, self.larger = uses, device, dict[str, Buffer]()

    def statement(self, s: Statement) -> list[Statement]:
        """Return the statements that replace one."""
        if not isinstance(s, For):
            return [s]
        parts = [p for x in s.body for p in parts_of(x)]
        rows = _block_rows(s, parts, self.device) if all(parts_of(x) for x in s.body) else 0
        if not rows or not self.apart(parts, s.span.axis):
            return [replace(s, body=tuple(x for inner in s.body for x in self.statement(inner)))]
        for b in self.of_one_row(parts, s.span.axis):
            self.larger[b.name] = replace(b, size=product((b.size, rows)))
        return self.blocks(s, rows)

    def of_one_row(self, parts: Sequence[Part], axis: str) -> list[Buffer]:
        """Return the scratch that the loop alone uses, for one row at a time."""
        every = [f for p in parts for f in _fetches_of(p)]
        inside = Counter(f.buffer.name for f in every)
        moves = {f.buffer.name for f in every if f.offset.factor(axis) != 0}
        targets = dict.fromkeys(p.target.buffer for p in parts)
        return [
            b
            for b in targets
            if b.kind == "scratch" and b.name not in moves and inside[b.name] == self.uses[b.name]
        ]

    def apart(self, parts: Sequence[Part], axis: str) -> bool:
        """Return True if no row reads what another one writes.

        Results lie at the row's own place, or are scratch of one row.
        """
        row_scratch = {b.name for b in self.of_one_row(parts, axis)}
        for name in {p.target.buffer.name for p in parts} - row_scratch:
            steps = {
                (f.offset.factor(axis), f.offset.const)
                for p in parts
                for f in _fetches_of(p)
                if f.buffer.name == name
            }
            if len(steps) != 1 or next(iter(steps))[0] == 0:
                return False
        return True

    def blocks(self, loop: For, rows: int) -> list[Statement]:
        """Return a loop over all whole blocks, and another over the remaining rows."""
        span, size = loop.span, loop.span.size
        over = f"{span.axis}_b"
        if not isinstance(size, int):
            count = ceil_div(size, rows)
            base = var(over) * rows
            inner = replace(span, base=base, size=rows, extent=size, clip_high=True)
            return [For(Span(over, Affine(), count, count), self.moved(loop, inner))]
        full_blocks, rows_left = divmod(size, rows)
        first = replace(span, base=span.base + var(over) * rows, size=rows, least=0)
        out: list[Statement] = [
            For(Span(over, Affine(), full_blocks, full_blocks), self.moved(loop, first))
        ]
        if rows_left:
            last = replace(span, base=span.base + full_blocks * rows, size=rows_left, least=0)
            out.append(For(Span(over, Affine(), 1, 1), self.moved(loop, last)))
        return out

    def moved(self, loop: For, span: Span) -> tuple[Statement, ...]:
        """Return the statements of a loop, each for all rows of a block."""

        def fetch(f: Fetch) -> Fetch:
            new = self.larger.get(f.buffer.name)
            if new is None:
                return f
            return Fetch(new, f.offset + (var(span.axis) - span.base) * f.buffer.size, f.dynamic)

        def part(p: Part) -> Part:
            return replace(
                p, target=fetch(p.target), spans=(span, *p.spans), expr=with_loads(p.expr, fetch)
            )

        return tuple(
            OnePass(tuple(map(part, s.parts))) if isinstance(s, OnePass) else part(s)
            for s in loop.body
            if isinstance(s, Map | Reduce | OnePass)
        )


def _block_rows(loop: For, parts: Sequence[Part], device: Device) -> int:
    """Return the number of rows of a block; 0 if rows stay apart.

    Their results are whole vectors, and all that they touch fits the nearest cache. For longer rows
    the wait is a small part.
    """
    reductions = [p for p in parts if isinstance(p, Reduce)]
    if loop.span.clip_low or not reductions or any(p.spans or not p.over for p in reductions):
        return 0
    if any(f.dynamic for p in parts for f in _fetches_of(p)):
        return 0
    size, row, cache_bytes = loop.span.size, _row_bytes(parts), device.levels[0].capacity_bytes or 0
    if row is None or row * device.lanes > cache_bytes:
        return 0
    rows = max(device.lanes, ROWS_IN_FLIGHT if row * ROWS_IN_FLIGHT <= cache_bytes // 2 else 0)
    if not isinstance(size, int):  # blocks end at the size, so nothing else may clip the rows
        return rows if loop.span.base == Affine() and not loop.span.clip_high else 0
    return min(rows, size) if size >= LEAST_ROWS else 0


def _row_bytes(parts: Iterable[Part]) -> int | None:
    """Return the bytes that one row touches in all buffers; None if unknown."""
    buffer_bytes: dict[str, int] = {}
    for p in parts:
        spans = (*p.spans, *(p.over if isinstance(p, Reduce) else ()))
        for f in _fetches_of(p):
            count = product(tuple(s.size for s in spans if f.offset.factor(s.axis) != 0))
            if not isinstance(count, int):
                return None
            size = count * ITEM_BYTES[f.buffer.dtype]
            buffer_bytes[f.buffer.name] = max(buffer_bytes.get(f.buffer.name, 0), size)
    return sum(buffer_bytes.values())
