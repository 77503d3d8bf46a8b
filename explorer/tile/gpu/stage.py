"""Staging of a contraction's shared operands in shared memory, in chunks of the depth.

Roller chose the size of the chunks.

s[i, j] = sum[k] x[i, k] * w[k, j] on threads
->
s[i, j] = 0 on threads
for k' < K / 32:
    xs[i, k] = x[i, k] for all i of the block, k in 32 k' .. 32 k' + 32 on threads
    ws[k, j] = w[k, j] likewise
    sync
    s[i, j] = sum[k in 32 k' .. 32 k' + 32] xs[i, k] * ws[k, j] onto s[i, j] on threads
    sync
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Do,
    Fetch,
    For,
    Map,
    Reduce,
    Shuffle,
    Span,
    Statement,
    Sync,
    TileExpr,
    TileProgram,
    fetches,
)
from explorer.ir.tile_traversal import distributed_loops, statements, threads_of, variables_of
from explorer.tile.gpu.distribute import UNROLLED, distribute_points, is_uncut
from explorer.tile.gpu.matrix_units import DEPTH, MATRIX
from explorer.tile.gpu.operands import Operand, operands, with_operands
from explorer.tile.verify import shared_bytes


def in_shared_memory(p: TileProgram, device: Device) -> TileProgram:
    """Copy operands that several threads read to shared memory before they sum products.

    Not if the block has no room for it, or if copies would leave a partial warp where lanes
    shuffle.
    """
    body: list[Statement] = []
    block = p.block or thread_block()
    shuffled = any(isinstance(s, Shuffle) for s in statements(p.body))
    for s in p.body:
        candidate = _stage(s, block, device) if isinstance(s, For) else None
        if candidate is not None:
            more = tuple(b for b in candidate.rooms if b not in p.buffers)
            grown, staged = replace(p, buffers=(*p.buffers, *more)), candidate.statements()
            fits = shared_bytes(grown, device) <= device.block_shared_bytes
            if fits and (not shuffled or threads_of(staged) % device.lanes == 0):
                p = grown
                body += staged
                continue
        body.append(s)
    return replace(p, body=tuple(body))


def is_staged(p: TileProgram) -> bool:
    """Return True if threads sum products of operands in shared memory."""
    return any(
        f.buffer.kind == "scratch" and f.buffer.level != REGISTER
        for s in statements(p.body)
        if isinstance(s, Reduce) and s.form in (UNROLLED, MATRIX)
        for f in fetches(s.expr)
    )


@dataclass(frozen=True, slots=True)
class Room:
    """The place of an operand of a block in shared memory.

    `spans` are the part of each axis that is there, the last one dense; `source` is what is copied.
    `copied` are the axes in the order of the copy, neighbours in memory last.
    """

    operand: Operand
    source: TileExpr
    spans: tuple[Span, ...]
    buffer: Buffer
    copied: tuple[Span, ...]

    def element(self) -> Fetch:
        """Return the operand's element at the values of its axes."""
        offset = Affine()
        for n, x in enumerate(self.spans):
            step = prod(int(y.size) for y in self.spans[n + 1 :])
            offset = offset + (var(x.axis) - x.base) * step
        return Fetch(self.buffer, offset)


@dataclass(frozen=True, slots=True)
class Staged:
    """A reduction in registers whose operands come to shared memory chunk by chunk."""

    loop: For
    reduced: Reduce
    after: tuple[Statement, ...]
    chunks: tuple[Span, ...]
    over: tuple[Span, ...]
    staged_operands: tuple[Room, ...]
    threads: int

    @property
    def rooms(self) -> tuple[Buffer, ...]:
        """The new buffers."""
        return tuple(r.buffer for r in self.staged_operands)

    def statements(self) -> list[Statement]:
        """Return the replacement of the reduction and of what follows it in the same threads."""
        r, combiner = self.reduced, COMBINERS[self.reduced.combiner]
        unclipped = tuple(replace(x, clip_low=False, clip_high=False) for x in r.spans)
        read: dict[TileExpr, TileExpr] = {x.operand.expr: x.element() for x in self.staged_operands}
        spans = unclipped if len(read) == len(dict.fromkeys(fetches(r.expr))) else r.spans
        first = Map(r.target, unclipped, Const(combiner.identity(r.dtype), r.dtype), UNROLLED)
        expr = with_operands(r.expr, read)
        product = replace(r, spans=spans, over=self.over, expr=expr, onto=True)
        copies = [
            distribute_points(Map(x.element(), x.copied, x.source), self.threads)
            for x in self.staged_operands
        ]
        body: tuple[Statement, ...] = (*copies, Sync(), self._distribute((product,)), Sync())
        for chunk in reversed(self.chunks):
            body = (For(chunk, body),)
        return [self._distribute((first,)), *body, self._distribute(self.after)]

    def _distribute(self, body: tuple[Statement, ...]) -> For:
        """Return other statements in the loops over the same threads."""
        loops = distributed_loops(self.loop)[0]
        nest = replace(loops[-1], body=body)
        for loop in reversed(loops[:-1]):
            nest = replace(loop, body=(nest,))
        return nest


def _stage(s: For, block: Tiling, device: Device) -> Staged | None:
    """Return a reduction with its staged operands; None if threads share none."""
    loops, body = distributed_loops(s)
    if not body or not isinstance(body[0], Reduce) or body[0].form != UNROLLED:
        return None
    r = body[0]
    tile = {x.axis: _block_span(x, loops) for x in r.spans}
    wide = {axis for axis, x in tile.items() if x.size != 1}
    read = operands(r.expr)
    shared = [o for o in read if wide - o.axes and o.axes & {*tile, *(x.axis for x in r.over)}]
    if not shared:
        return None
    depth = _depth(r, block, device) if len(shared) == len(read) else None
    chunks, over = _chunks(r.over, dict(block.shared), depth)
    block_spans = {**tile, **{x.axis: x for x in over}}
    rooms = [
        _allocate(n, o, block_spans, over, r, depth, device)
        for n, o in enumerate(read)
        if o in shared
    ]
    threads = max(block.threads, prod(x.threads.count for x in loops if x.threads is not None))
    return Staged(s, r, body[1:], chunks, over, tuple(rooms), threads)


def _depth(r: Reduce, block: Tiling, device: Device) -> Span | None:
    """Return the axis that is summed in whole pieces of matrices, or None.

    Elements past its end are zero in shared memory.
    """
    if not block.matrix or not device.has_matrix_units:
        return None
    x = next((x for x in r.over if x.axis == block.matrix[2]), None)
    if x is None or not is_uncut(x):
        return None
    if int(x.size) % _whole_pieces(dict(block.shared).get(x.axis, int(x.size)), x) == 0:
        return x
    read = operands(r.expr)
    every = len(read) == len(dict.fromkeys(fetches(r.expr)))  # others cannot be padded
    return x if every and all(_zero_past(o, x) for o in read) else None


def _whole_pieces(size: int, x: Span) -> int:
    """Return `size` elements of an axis, up to all of it, rounded up to whole pieces."""
    return -(-min(size, int(x.size)) // DEPTH) * DEPTH


def _zero_past(o: Operand, x: Span) -> TileExpr | None:
    """Return an operand that is zero past the end of an axis; None if that cannot be expressed."""
    if any(x.axis in variables_of(index) for index, _, _ in o.load.dynamic):
        return None
    step = o.load.offset.factor(x.axis)
    clamped = (IndexValue(var(x.axis)), step, x.extent)
    load = Fetch(o.load.buffer, o.load.offset.without({x.axis}), (*o.load.dynamic, clamped))
    inside: TileExpr = Do("lt", (IndexValue(var(x.axis)), Const(x.extent, "int64")))
    match o.expr:
        case Do("where", (guard, _, Const(value))):
            inside = Do("and", (guard, inside))
            if value != 0:
                return None
    return Do("where", (inside, load, Const(0.0, o.load.buffer.dtype)))


def _chunks(
    over: Sequence[Span], sizes: dict[str, int], depth: Span | None
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the loops over chunks of the reduced axes, and those inside of a chunk.

    Along `depth` a chunk is whole, however much of it is past the end.
    """
    outer, inner = [], []
    for x in over:
        extent = int(x.size)
        size = min(sizes.get(x.axis, extent), extent)
        if x == depth:
            size = _whole_pieces(size, x)
        if size >= extent:
            inner.append(replace(x, size=size))
            continue
        count, name = -(-extent // size), f"_c_{x.axis}"
        outer.append(Span(name, Affine(), count, count))
        past = extent % size != 0 and x != depth
        inner.append(Span(x.axis, var(name) * size, size, extent, False, past))
    return tuple(outer), tuple(inner)


def _block_span(x: Span, loops: Sequence[For]) -> Span:
    """Return all threads' parts of an axis, up to the end of whole tiles."""
    count = next((int(t.span.size) for t in loops if x.base.factor(t.span.axis)), 1)
    first = x.base.without({t.span.axis for t in loops})
    return replace(x, base=first, size=int(x.size) * count)


def _allocate(
    n: int,
    o: Operand,
    block_spans: dict[str, Span],
    over: Sequence[Span],
    r: Reduce,
    depth: Span | None,
    device: Device,
) -> Room:
    """Return the place of an operand in shared memory.

    Rows are the axes that are not summed. The last one has the most points of a thread, so that it
    reads several at once; or `depth` is last, so that it reads neighbours there.
    """
    own, summed = {x.axis: int(x.size) for x in r.spans}, {x.axis for x in over}
    own_spans = [x for x in block_spans.values() if x.axis in o.axes]
    spans = sorted(own_spans, key=lambda x: (x.axis not in summed, own.get(x.axis, 0)))
    source = o.expr
    if depth is not None:
        spans.sort(key=lambda x: x.axis == depth.axis)
        if int(depth.extent) % int(block_spans[depth.axis].size):
            source = _zero_past(o, depth) or source
    size = prod(int(x.size) for x in own_spans)
    name = f"{r.target.buffer.name.replace('_sums', '')}_{o.load.buffer.name}_{n}"
    buffer = Buffer(name, "scratch", size, o.load.buffer.dtype, device.levels[0].name)
    outer, inner = ([x for x in spans if (x.axis in summed) == w] for w in (True, False))
    copied = sorted((*outer, *inner), key=lambda x: (x.axis == o.dense, x.axis in summed))
    return Room(o, source, tuple(spans), buffer, tuple(copied))
