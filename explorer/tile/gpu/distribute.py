"""Distribution of a block's points over its threads.

t[i, j] = sum[k] x[i, k] * w[k, j] for i < 64, j < 64; y[i, j] = max(t[i, j], 0)
->
for i' < 16, j' < 16 on 16 x 16 threads:
    s[i, j] = sum[k] x[i, k] * w[k, j] for i in 4 i' .. 4 i' + 4, j in 4 j' .. 4 j' + 4, unrolled
    y[i, j] = max(s[i, j], 0) for the same
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dtypes import computed
from explorer.ir.tile_program import (
    REGISTER,
    At,
    Buffer,
    Do,
    Fetch,
    For,
    LoopForm,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
    Sync,
    Threads,
    TileExpr,
    TileProgram,
    fetches,
)
from explorer.ir.tile_traversal import touched, with_loads, without_unused
from explorer.tile.gpu.operands import operands

UNROLLED = LoopForm("unrolled")
PIECE_LANES = (8, 4)  # lanes along rows and columns of a piece of a warp
ONE = Span("_one", Affine(), 1, 1)  # distributed if there is one point


def over_threads(p: TileProgram, device: Device) -> TileProgram:
    """Distribute every statement over the threads of the block, with a Sync after each part.

    The sums of the contraction that Roller tiled are in registers, followed by their epilogue. Of
    other statements each thread takes one point after the other, neighbouring threads neighbouring
    points.
    """
    block = p.block or thread_block()
    threads = threads_in(block, device)
    distributed: list[Statement] = []
    sums: list[Buffer] = []
    left = list(p.body)
    while left:
        s = left.pop(0)
        tile = register_tile(s, block, device) if isinstance(s, Reduce) else None
        if isinstance(s, Reduce) and tile is not None:
            after = _epilogue_map(s, left[0], p.body) if left else None
            tile = tile.named(unused_name(tile.sums.name, (*p.buffers, *sums)))
            distributed.append(tile.loops(s, after))
            sums.append(tile.sums)
            left = left if after is None else left[1:]
        elif isinstance(s, Map | Reduce | Scan):
            distributed.append(distribute_points(s, threads))
        else:
            distributed.append(distribute_scatter(s, threads))
    body = [x for s in distributed for x in (s, Sync())][:-1]
    return without_unused(replace(p, body=tuple(body), buffers=(*p.buffers, *sums)))


def unused_name(preferred: str, buffers: Iterable[Buffer]) -> str:
    """Return a name that no buffer has: two reductions may make parts of one result."""
    taken = {b.name for b in buffers}
    candidates = (preferred, *(f"{preferred}{k}" for k in range(2, len(taken) + 3)))
    return next(name for name in candidates if name not in taken)


def threads_in(block: Tiling, device: Device) -> int:
    """Return the number of threads that share points: at least a warp, which exists anyway."""
    return min(max(block.threads, device.lanes), device.block_threads)


def distribute_points(s: Map | Reduce | Scan, threads: int) -> Statement:
    """Distribute a statement's points one by one, the last axis to neighbours first."""
    single_points = tuple(x for x in s.spans if x.size == 1)
    return _distribute(
        replace(s, spans=single_points), [x for x in s.spans if x.size != 1], threads
    )


def distribute_copy(
    s: Map, spans: Sequence[Span], threads: int, along: int, wide: int
) -> Statement:
    """Distribute a map over more spans.

    At most `along` threads go along the last one, 0: as many as there are. Each takes `wide` points
    of it at once.

    for i < 8, j < 32 on threads: xs[j, i] = x[i, j]
    ->
    for i < 8, j' < 8 on threads: xs[j, i] = x[i, j] for j in 4 j' .. 4 j' + 4, unrolled
    """
    if wide == 1:
        return _distribute(s, spans, threads, along)
    *others, last = spans
    group = Span(f"{last.axis}_w", Affine(), int(last.size) // wide, int(last.size) // wide)
    own = Span(last.axis, last.base + var(group.axis) * wide, wide, last.extent)
    body = replace(s, spans=(*s.spans, own), form=UNROLLED)
    return _distribute(body, [*others, group], threads, along)


def distribute_scatter(s: Statement, threads: int) -> Statement:
    """Distribute the results of a scatter; each thread visits all updates.

    So each result is combined in one order.

    for r: at i if it is index[r]: y[i, j] = y[i, j] + u[r, j] for j
    ->
    for j on threads: for r: at i if it is index[r]: y[i, j] = y[i, j] + u[r, j]
    """
    around: list[For | At] = []
    inner = s
    while isinstance(inner, For | At):
        around.append(inner)
        (inner,) = inner.body
    if not isinstance(inner, Map):
        return s
    own = inner.target.offset.variables
    own_loops = [x.span for x in around if isinstance(x, For) and x.span.axis in own]
    body: Statement = replace(inner, spans=tuple(x for x in inner.spans if x.size == 1))
    for x in reversed(around):
        body = body if isinstance(x, For) and x.span in own_loops else replace(x, body=(body,))
    return _distribute(body, [*own_loops, *(x for x in inner.spans if x.size != 1)], threads)


def _distribute(body: Statement, spans: Sequence[Span], threads: int, along: int = 0) -> Statement:
    """Return distributed loops over some spans."""
    counts = shares([int(x.size) for x in spans], threads, along)
    for span, count in zip(reversed(spans), reversed(counts), strict=True):
        body = For(span, (body,), Threads(count))
    return body if spans else For(ONE, (body,), Threads(1))


def shares(sizes: Sequence[int], threads: int, along: int = 0) -> tuple[int, ...]:
    """Return the threads of each loop, by the loops' trip counts.

    As many as there are, or `along`, go to the last one first. The others get no more than they
    need for as many rounds.
    """
    counts: list[int] = []
    left = max(1, threads)
    for size in reversed(sizes):
        count = min(left, size)
        if counts and count:
            rounds = -(-size // count)
            count = -(-size // rounds)
        elif along:
            count = min(count, along)
        left //= count
        counts.append(count)
    return tuple(reversed(counts))


def _epilogue_map(s: Reduce, m: Statement, body: Iterable[Statement]) -> Map | None:
    """Return the map after a reduction if it alone reads the result, point by point."""
    sums = s.target.buffer
    if not isinstance(m, Map) or m.spans != s.spans or sums.kind != "scratch":
        return None
    read = [f for f in fetches(m.expr) if f.buffer == sums]
    others = (x for x in body if x is not s and x is not m)
    if not read or any(f != s.target for f in read) or any(sums in touched(x) for x in others):
        return None
    return m


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The tile of a block in tiles of threads.

    Each axis has the elements of a thread and the number of threads.
    """

    spans: tuple[Span, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    sums: Buffer

    def named(self, name: str) -> RegisterTile:
        """Return the same tile with its sums under another name."""
        return replace(self, sums=replace(self.sums, name=name))

    def mine(self, clipped: bool = True) -> tuple[Span, ...]:
        """Return a thread's part of each axis; without `clipped` up to the end of whole tiles."""
        return tuple(
            replace(
                x,
                base=self._first(x, n, size),
                size=size,
                clip_low=clipped and x.clip_low,
                clip_high=clipped and (x.clip_high or size * n > int(x.size)),
                least=0,
            )
            for x, size, n in zip(self.spans, self.sizes, self.counts, strict=True)
        )

    def _first(self, x: Span, count: int, size: int) -> Affine:
        return x.base + var(_thread(x)) * size if count > 1 else x.base

    def sum(self) -> Fetch:
        """Return the element of a point in the registers of its thread."""
        offset = Affine()
        for n, x in enumerate(self.mine()):
            offset = offset + (var(x.axis) - x.base) * prod(self.sizes[n + 1 :])
        return Fetch(self.sums, offset)

    def distribute(self, body: tuple[Statement, ...]) -> For:
        """Return the loop in which every thread runs a body for its own tile."""
        loops = [(x, n) for x, n in zip(self.spans, self.counts, strict=True) if n > 1]
        for x, n in reversed(loops):
            body = (For(Span(_thread(x), Affine(), n, n), body, Threads(n)),)
        loop = body[0]
        return loop if loops and isinstance(loop, For) else For(ONE, body, Threads(1))

    def loops(self, s: Reduce, after: Map | None) -> For:
        """Return a reduction in registers, and its epilogue."""
        spans, mine = self.mine(), self.sum()
        wide = self.sums.dtype
        reduced = replace(s, target=mine, spans=spans, dtype=wide, form=UNROLLED)
        last = after or Map(s.target, s.spans, s.target)
        rounded: TileExpr = mine if wide == s.dtype else Do(f"cast_{s.dtype}", (mine,))
        epilogue = with_loads(last.expr, lambda f: rounded if f == s.target else f)
        return self.distribute((reduced, Map(last.target, spans, epilogue, UNROLLED)))


def part_of(axis: str) -> str:
    """Return the axis that counts the parts of a reduction along another."""
    return f"_p_{axis}"


def _thread(x: Span) -> str:
    return f"_t_{x.axis}"


def register_tile(s: Reduce, block: Tiling, device: Device) -> RegisterTile | None:
    """Return how threads share a reduction's results, or None.

    None if its operands are not shared by several threads, or if a block has too few threads.
    """
    sizes = {part_of(axis): 1 for axis, _ in block.parts} | dict(block.register)
    if not all(x.axis in sizes and isinstance(x.size, int) for x in s.spans):
        return None
    own = tuple(_even_size(x, sizes[x.axis]) for x in s.spans)
    piece_lanes = dict(zip(block.matrix, PIECE_LANES))  # for rows and columns that are not tiled
    counts = tuple(
        _round_up(-(-int(x.size) // n), piece_lanes.get(x.axis, 1) if is_uncut(x) else 1)
        for x, n in zip(s.spans, own, strict=True)
    )
    wide = {x.axis for x in s.spans if x.size != 1}
    shared = any(wide - o.axes for o in operands(s.expr))
    if not shared or prod(counts) > device.block_threads:
        return None
    name = f"{s.target.buffer.name}_sums"
    sums = Buffer(name, "scratch", prod(own), computed(s.dtype), REGISTER)
    return RegisterTile(s.spans, own, counts, sums)


def is_uncut(x: Span) -> bool:
    """Return True if a block has all of an axis."""
    return x.base == Affine() and x.size == x.extent


def _round_up(count: int, each: int) -> int:
    """Return the next multiple."""
    return -(-count // each) * each


def _even_size(x: Span, most: int) -> int:
    """Return the most elements of an axis, up to a number, of which the block's are a multiple.

    Any number is allowed if the axis is not tiled, as what lies past its end is past the tensor's.
    """
    size = int(x.size)
    if is_uncut(x):
        return min(most, size)
    return max(n for n in range(1, min(most, size) + 1) if size % n == 0)
