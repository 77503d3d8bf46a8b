"""A long reduction of few results over threads that would have nothing to do.

s[i] = sum[k < K] x[i, k] for i < 2, in a block of 64 threads
->
p[i, t] = sum[k < K / 32] x[i, 32 k + t] for i < 2, t < 32
s[i] = sum[t < 32] p[i, t] for i < 2

and a contraction, where its block says in how many parts it is summed:

s[i, j] = sum[k < K] x[i, k] * w[k, j]
->
p[t, i, j] = sum[k < K / 4] x[i, K / 4 t + k] * w[K / 4 t + k, j] for t < 4
s[i, j] = sum[t < 4] p[t, i, j]
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Block
from explorer.ir.dtypes import computed
from explorer.ir.tile_programs.elements import Buffer, Fetch
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import Reduce, Span, Statement
from explorer.ir.tile_programs.traversal import substitute
from explorer.tile.gpu.distribute import part_of, register_tile, threads_in, unused
from explorer.tile.gpu.operands import operands
from explorer.tile.gpu.warp_reductions import SHUFFLED
from explorer.tile.verify import shared_bytes


def share_reductions(p: TileProgram, device: Device) -> TileProgram:
    """After: where a reduction without a register tile has fewer results than the block has
    threads, several of them share each: every one reduces elements some way apart, neighbours
    beside each other, then what they made is reduced. Not where that saves less than half of the
    steps one after the other, or the block has no room for it. One with a register tile is made of
    the parts that the block asks for, each of them with such a tile.
    """
    block, body = p.block or Block(), list[Statement]()
    for s in p.body:
        found = _shares(s, block, device) if isinstance(s, Reduce) else None
        if isinstance(s, Reduce) and found is not None:
            room, first, second = _shared_out(s, *found, device, p.buffers)
            grown = replace(p, buffers=(*p.buffers, room))
            if shared_bytes(grown, device) <= device.block_shared_bytes:
                p = grown
                body += (first, second)
                continue
        body.append(s)
    return replace(p, body=tuple(body))


def _shares(s: Reduce, block: Block, device: Device) -> tuple[Span, int, bool] | None:
    """The axis along which threads share a reduction, in how many parts, and whether neighbours in
    memory go to different ones; None where they do not.
    """
    if register_tile(s, block, device) is not None:
        parts = dict(block.parts)
        along = next((x for x in s.over if parts.get(x.axis, 1) > 1), None)
        if along is None or not _is_whole(s, along) or int(along.size) % parts[along.axis]:
            return None
        return along, parts[along.axis], _reads_along(s, along)
    results = prod(int(x.size) for x in s.spans)
    most = threads_in(block, device) // max(1, results)
    count = _lanes(s, results, most, device) or _parts(s, most)
    return None if count == 1 else (s.over[-1], count, True)


def _is_whole(s: Reduce, along: Span) -> bool:
    """Whether all of an axis is reduced, from its begin on."""
    return along.base == Affine() and along.size == along.extent and not s.onto


def _reads_along(s: Reduce, along: Span) -> bool:
    """Whether the operands that no thread shares with another are dense along an axis."""
    wide = {x.axis for x in s.spans if x.size != 1}
    return any(o.dense == along.axis for o in operands(s.expr) if wide <= o.axes)


def _shared_out(
    s: Reduce,
    along: Span,
    parts: int,
    neighbours: bool,
    device: Device,
    buffers: tuple[Buffer, ...],
) -> tuple[Buffer, Reduce, Reduce]:
    """The room for what each thread makes, and both reductions. `neighbours`: threads beside each
    other reduce elements beside each other; else each has a piece of the axis.
    """
    results = prod(int(x.size) for x in s.spans)
    name = unused(f"{s.target.buffer.name}_parts", buffers)
    room = Buffer(name, "scratch", results * parts, computed(s.dtype), device.levels[0].name)
    mine = Span(part_of(along.axis), Affine(), parts, parts)
    spans = (*s.spans, mine) if neighbours else (mine, *s.spans)
    offset = Affine()
    for n, x in enumerate(spans):
        offset = offset + (var(x.axis) - x.base) * prod(int(y.size) for y in spans[n + 1 :])
    part, count = Fetch(room, offset), int(along.size) // parts
    each = Span(along.axis, Affine(), count, count)
    inner, outer = (parts, 1) if neighbours else (1, count)
    index = var(along.axis) * inner + var(mine.axis) * outer
    first = replace(
        s,
        target=part,
        spans=spans,
        over=tuple(each if x is along else x for x in s.over),
        expr=substitute(s.expr, {along.axis: index}),
        dtype=room.dtype,
    )
    return room, first, replace(s, over=(mine,), expr=part)


def _lanes(s: Reduce, results: int, most: int, device: Device) -> int:
    """The lanes of a warp that share each result so that whole warps do, by the most that divide
    what is reduced: they need no memory for what they made; 0 where there are none.
    """
    along = s.over[-1]
    size = int(along.size)
    if s.dtype not in SHUFFLED or not _is_whole(s, along):
        return 0
    powers = [1 << n for n in range(device.lanes.bit_length() - 1, 0, -1)]
    fitting = (n for n in powers if n <= most and size % n == 0 and results * n % device.lanes == 0)
    total = prod(int(x.size) for x in s.over)
    return next((n for n in fitting if 2 * (total // n + n.bit_length() - 1) <= total), 0)


def _parts(s: Reduce, most: int) -> int:
    """The equal parts of the last axis that leave the fewest steps one after the other, of two such
    the more; 1 where they are not half as many as before, or an edge is cut.
    """
    along, total = s.over[-1], prod(int(x.size) for x in s.over)
    size = int(along.size)
    if not _is_whole(s, along):
        return 1
    fitting = [n for n in range(1, min(most, size) + 1) if size % n == 0]
    parts = min(reversed(fitting), key=lambda n: total // n + n, default=1)
    return parts if 2 * (total // parts + parts) <= total else 1
