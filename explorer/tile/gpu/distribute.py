"""The points of a block's tile over its threads.

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
from explorer.ir.decisions.tiling import Block
from explorer.ir.dtypes import computed
from explorer.ir.tile_programs.elements import REGISTER, Buffer, Do, Fetch, TileExpr, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import (
    At,
    For,
    LoopForm,
    Map,
    Reduce,
    Scan,
    Span,
    Statement,
    Sync,
    Threads,
)
from explorer.ir.tile_programs.traversal import touched, with_loads, without_unused
from explorer.tile.gpu.operands import operands

UNROLLED = LoopForm("unrolled")
PIECE_LANES = (8, 4)  # of a warp along rows and columns of a piece that it multiplies as a whole
ONE = Span("_one", Affine(), 1, 1)  # dealt out where there is one point


def over_threads(p: TileProgram, device: Device) -> TileProgram:
    """After: every statement is dealt out to the threads of the block. The sums of the contraction
    that Roller tiled are in registers, with what is made of them behind; of all else each thread
    takes one point after the other, neighbours beside each other. A Sync stands after each part.
    """
    block = p.block or Block()
    threads = threads_in(block, device)
    made: list[Statement] = []
    rooms: list[Buffer] = []
    left = list(p.body)
    while left:
        s = left.pop(0)
        tile = register_tile(s, block, device) if isinstance(s, Reduce) else None
        if isinstance(s, Reduce) and tile is not None:
            after = _follows(s, left[0], p.body) if left else None
            tile = tile.named(unused(tile.sums.name, (*p.buffers, *rooms)))
            made.append(tile.loops(s, after))
            rooms.append(tile.sums)
            left = left if after is None else left[1:]
        elif isinstance(s, Map | Reduce | Scan):
            made.append(one_by_one(s, threads))
        else:
            made.append(placed(s, threads))
    body = [x for s in made for x in (s, Sync())][:-1]
    return without_unused(replace(p, body=tuple(body), buffers=(*p.buffers, *rooms)))


def unused(wish: str, buffers: Iterable[Buffer]) -> str:
    """A name that none of the buffers has: two reductions may make parts of one result."""
    taken = {b.name for b in buffers}
    wishes = (wish, *(f"{wish}{k}" for k in range(2, len(taken) + 3)))
    return next(name for name in wishes if name not in taken)


def threads_in(block: Block, device: Device) -> int:
    """Threads of a block that points are dealt out to: of a warp all are there anyway."""
    return min(max(block.threads, device.lanes), device.block_threads)


def one_by_one(s: Map | Reduce | Scan, threads: int) -> Statement:
    """A statement whose points are dealt out one by one, the last axis to neighbours first."""
    kept = tuple(x for x in s.spans if x.size == 1)
    return _dealt(replace(s, spans=kept), [x for x in s.spans if x.size != 1], threads)


def copied(s: Map, spans: Sequence[Span], threads: int, along: int, wide: int) -> Statement:
    """A map over more spans, dealt out: at most `along` threads go along the last one, 0: as many
    as there are, and each has `wide` points of it at once.

    for i < 8, j < 32 on threads: xs[j, i] = x[i, j]
    ->
    for i < 8, j' < 8 on threads: xs[j, i] = x[i, j] for j in 4 j' .. 4 j' + 4, unrolled
    """
    if wide == 1:
        return _dealt(s, spans, threads, along)
    *others, last = spans
    group = Span(f"{last.axis}_w", Affine(), int(last.size) // wide, int(last.size) // wide)
    own = Span(last.axis, last.base + var(group.axis) * wide, wide, last.extent)
    body = replace(s, spans=(*s.spans, own), form=UNROLLED)
    return _dealt(body, [*others, group], threads, along)


def placed(s: Statement, threads: int) -> Statement:
    """What data place, of which each thread has some elements beside each other: it goes along all
    that is placed, and so each result is combined in one order.

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
    mine = [x.span for x in around if isinstance(x, For) and x.span.axis in own]
    body: Statement = replace(inner, spans=tuple(x for x in inner.spans if x.size == 1))
    for x in reversed(around):
        body = body if isinstance(x, For) and x.span in mine else replace(x, body=(body,))
    return _dealt(body, [*mine, *(x for x in inner.spans if x.size != 1)], threads)


def _dealt(body: Statement, spans: Sequence[Span], threads: int, along: int = 0) -> Statement:
    """Loops over these, dealt out."""
    counts = shares([int(x.size) for x in spans], threads, along)
    for span, count in zip(reversed(spans), reversed(counts), strict=True):
        body = For(span, (body,), Threads(count))
    return body if spans else For(ONE, (body,), Threads(1))


def shares(sizes: Sequence[int], threads: int, along: int = 0) -> tuple[int, ...]:
    """The threads that loops of so many points are dealt out to: as many as there are, or `along`,
    go to the last one first, to the others no more than they need for as many rounds.
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


def _follows(s: Reduce, m: Statement, body: Iterable[Statement]) -> Map | None:
    """The map behind a reduction, where it alone reads what is reduced, point by point."""
    mine = s.target.buffer
    if not isinstance(m, Map) or m.spans != s.spans or mine.kind != "scratch":
        return None
    read = [f for f in fetches(m.expr) if f.buffer == mine]
    others = (x for x in body if x is not s and x is not m)
    if not read or any(f != s.target for f in read) or any(mine in touched(x) for x in others):
        return None
    return m


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The tile of a block in tiles of threads: each axis with the elements that a thread has of it,
    and how many threads that takes.
    """

    spans: tuple[Span, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    sums: Buffer

    def named(self, name: str) -> RegisterTile:
        """The same with its sums under another name."""
        return replace(self, sums=replace(self.sums, name=name))

    def mine(self, clipped: bool = True) -> tuple[Span, ...]:
        """A thread's part of each axis; not `clipped`: as far as whole tiles reach."""
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
        """The element of a point in the registers of its thread."""
        offset = Affine()
        for n, x in enumerate(self.mine()):
            offset = offset + (var(x.axis) - x.base) * prod(self.sizes[n + 1 :])
        return Fetch(self.sums, offset)

    def dealt(self, body: tuple[Statement, ...]) -> For:
        """What every thread does for its own tile."""
        loops = [(x, n) for x, n in zip(self.spans, self.counts, strict=True) if n > 1]
        for x, n in reversed(loops):
            body = (For(Span(_thread(x), Affine(), n, n), body, Threads(n)),)
        whole = body[0]
        return whole if loops and isinstance(whole, For) else For(ONE, body, Threads(1))

    def loops(self, s: Reduce, after: Map | None) -> For:
        """A reduction in registers, and what is made of it."""
        spans, mine = self.mine(), self.sum()
        wide = self.sums.dtype
        reduced = replace(s, target=mine, spans=spans, dtype=wide, form=UNROLLED)
        last = after or Map(s.target, s.spans, s.target)
        one: TileExpr = mine if wide == s.dtype else Do(f"cast_{s.dtype}", (mine,))
        made = with_loads(last.expr, lambda f: one if f == s.target else f)
        return self.dealt((reduced, Map(last.target, spans, made, UNROLLED)))


def part_of(axis: str) -> str:
    """The axis that counts the parts of what is reduced along another."""
    return f"_p_{axis}"


def _thread(x: Span) -> str:
    return f"_t_{x.axis}"


def register_tile(s: Reduce, block: Block, device: Device) -> RegisterTile | None:
    """How threads share a reduction's results where its operands are shared by several of them;
    None for any other, and where a block has not so many threads.
    """
    sizes = {part_of(axis): 1 for axis, _ in block.parts} | dict(block.register)
    if not all(x.axis in sizes and isinstance(x.size, int) for x in s.spans):
        return None
    own = tuple(_even(x, sizes[x.axis]) for x in s.spans)
    whole = dict(zip(block.matrix, PIECE_LANES))  # of rows and columns that no other block has
    counts = tuple(
        _ceil(-(-int(x.size) // n), whole.get(x.axis, 1) if is_uncut(x) else 1)
        for x, n in zip(s.spans, own, strict=True)
    )
    wide = {x.axis for x in s.spans if x.size != 1}
    shared = any(wide - o.axes for o in operands(s.expr))
    if not shared or prod(counts) > device.block_threads:
        return None
    name = f"{s.target.buffer.name}_sums"
    room = Buffer(name, "scratch", prod(own), computed(s.dtype), REGISTER)
    return RegisterTile(s.spans, own, counts, room)


def is_uncut(x: Span) -> bool:
    """Whether a block has all of an axis."""
    return x.base == Affine() and x.size == x.extent


def _ceil(count: int, each: int) -> int:
    """The next multiple."""
    return -(-count // each) * each


def _even(x: Span, most: int) -> int:
    """The most elements of an axis, up to a number, of which the block's are a multiple; any number
    where the axis is not cut, for what lies past its end is past the tensor's.
    """
    size = int(x.size)
    if is_uncut(x):
        return min(most, size)
    return max(n for n in range(1, min(most, size) + 1) if size % n == 0)
