"""A long reduction of few results over threads that would have nothing to do.

s[i] = sum[k < K] x[i, k] for i < 2, in a block of 64 threads
->
p[i, t] = sum[k < K / 32] x[i, 32 k + t] for i < 2, t < 32
s[i] = sum[t < 32] p[i, t] for i < 2
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
from explorer.tile.gpu.distribute import register_tile, threads_in, unused
from explorer.tile.gpu.warp_reductions import SHUFFLED
from explorer.tile.verify import shared_bytes


def share_reductions(p: TileProgram, device: Device) -> TileProgram:
    """After: where a reduction without a register tile has fewer results than the block has
    threads, several of them share each: every one reduces elements some way apart, neighbours
    beside each other, then what they made is reduced. Not where that saves less than half of the
    steps one after the other, or the block has no room for it.
    """
    block, body = p.block or Block(), list[Statement]()
    for s in p.body:
        if isinstance(s, Reduce) and register_tile(s, block, device) is None:
            room, made = _shared_out(s, threads_in(block, device), device, p.buffers)
            grown = replace(p, buffers=(*p.buffers, *room))
            if room and shared_bytes(grown, device) <= device.block_shared_bytes:
                p = grown
                body += made
                continue
        body.append(s)
    return replace(p, body=tuple(body))


def _shared_out(
    s: Reduce, threads: int, device: Device, buffers: tuple[Buffer, ...]
) -> tuple[tuple[Buffer, ...], tuple[Statement, ...]]:
    """The room for what each thread makes, and both reductions; nothing where it does not help."""
    along = s.over[-1]
    results = prod(int(x.size) for x in s.spans)
    most = threads // max(1, results)
    parts = _lanes(s, results, most, device) or _parts(s, most)
    if parts == 1:
        return (), ()
    name = unused(f"{s.target.buffer.name}_parts", buffers)
    room = Buffer(name, "scratch", results * parts, computed(s.dtype), device.levels[0].name)
    mine = Span(f"_p_{along.axis}", Affine(), parts, parts)
    offset = var(mine.axis)
    for n, x in enumerate(s.spans):
        rest = prod(int(y.size) for y in s.spans[n + 1 :]) * parts
        offset = offset + (var(x.axis) - x.base) * rest
    part = Fetch(room, offset)
    count = int(along.size) // parts
    each = Span(along.axis, Affine(), count, count)
    expr = substitute(s.expr, {along.axis: var(along.axis) * parts + var(mine.axis)})
    first = replace(
        s,
        target=part,
        spans=(*s.spans, mine),
        over=(*s.over[:-1], each),
        expr=expr,
        dtype=room.dtype,
    )
    return (room,), (first, replace(s, over=(mine,), expr=part))


def _lanes(s: Reduce, results: int, most: int, device: Device) -> int:
    """The lanes of a warp that share each result so that whole warps do, by the most that divide
    what is reduced: they need no memory for what they made; 0 where there are none.
    """
    along = s.over[-1]
    size = int(along.size)
    if s.dtype not in SHUFFLED or along.base != Affine() or size != along.extent or s.onto:
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
    if along.base != Affine() or size != along.extent or s.onto:
        return 1
    fitting = [n for n in range(1, min(most, size) + 1) if size % n == 0]
    parts = min(reversed(fitting), key=lambda n: total // n + n, default=1)
    return parts if 2 * (total // parts + parts) <= total else 1
