"""Splitting of a long reduction of few results over threads that would be idle.

s[i] = sum[k < K] x[i, k] for i < 2, in a block of 64 threads
->
p[i, t] = sum[k < K / 32] x[i, 32 k + t] for i < 2, t < 32
s[i] = sum[t < 32] p[i, t] for i < 2

and a contraction, if its block says in how many parts it is summed:

s[i, j] = sum[k < K] x[i, k] * w[k, j]
->
p[t, i, j] = sum[k < K / 4] x[i, K / 4 t + k] * w[K / 4 t + k, j] for t < 4
s[i, j] = sum[t < 4] p[t, i, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.dtypes import computed
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Fetch,
    For,
    Map,
    Reduce,
    Shuffle,
    Span,
    Statement,
    Sync,
    Threads,
    TileProgram,
)
from explorer.ir.tile_traversal import distributed_loops, substitute, threads_of, without_unused
from explorer.tile.gpu.distribute import part_of, register_tile, threads_in, unused_name
from explorer.tile.gpu.operands import operands
from explorer.tile.verify import shared_bytes

SHUFFLED = ("float32", "float64", "int32", "int64")  # dtypes that CUDA can shuffle between lanes


def within_warps(p: TileProgram, device: Device) -> TileProgram:
    """Reduce partial results of one warp by shuffles, without memory and Sync.

    Not if a block has a partial warp, as all lanes must reach a shuffle.
    """
    if threads_of(p.body) % device.lanes:
        return p
    body: list[Statement] = []
    registers: list[Buffer] = []
    left = list(p.body)
    while left:
        s = left.pop(0)
        shuffled = _shuffle_steps(s, left, device)
        if shuffled is None:
            body.append(s)
            continue
        body += shuffled
        registers += [x.target.buffer for x in shuffled if isinstance(x, Shuffle)]
        left = left[2:]
    return without_unused(replace(p, body=tuple(body), buffers=(*p.buffers, *registers)))


def _shuffle_steps(
    s: Statement, behind: Sequence[Statement], device: Device
) -> list[Statement] | None:
    """Return both steps of a reduction with registers, if each is within one warp, else None."""
    match [s, *behind[:2]]:
        case [For(threads=Threads()) as partial, Sync(), For(threads=Threads()) as then]:
            loops, body = distributed_loops(partial)
        case _:
            return None
    match [*body, *distributed_loops(then)[1]]:
        case [Reduce() as first, Reduce() as second]:
            lane = loops[-1].span
        case _:
            return None
    pair = second.over == (lane,) and second.expr == first.target
    if not pair or first.dtype != second.dtype or first.dtype not in SHUFFLED:
        return None
    is_full = all(x.threads is not None and x.threads.count == x.span.size for x in loops)
    lanes = int(lane.size)
    if not is_full or lanes > device.lanes or lanes & (lanes - 1):
        return None
    name = first.target.buffer.name.replace("_parts", "_lane")
    lane_sum = Fetch(Buffer(name, "scratch", 1, first.dtype, REGISTER), Affine())
    # An axis with one value, in the first lane alone: results lie along it.
    first_lane = Span("_first", var(lane.axis), 1, 1, clip_high=True)
    target = replace(second.target, offset=second.target.offset + var(first_lane.axis))
    return [
        _in_loops(loops, replace(first, target=lane_sum)),
        Shuffle(lane_sum, lanes, first.combiner, first.dtype),
        _in_loops(loops, Map(target, (*second.spans, first_lane), lane_sum)),
    ]


def _in_loops(loops: Sequence[For], s: Statement) -> For:
    """Return a statement in loops over threads."""
    nest = replace(loops[-1], body=(s,))
    for loop in reversed(loops[:-1]):
        nest = replace(loop, body=(nest,))
    return nest


def share_reductions(p: TileProgram, device: Device) -> TileProgram:
    """Split reductions with fewer results than the block has threads.

    This applies to reductions without a register tile. Several threads reduce elements some way
    apart, neighbouring threads neighbouring elements, then their results are reduced. It is not
    done if it saves less than half of the consecutive steps, or if the block has no room for it. A
    reduction with a register tile is split into the parts that the block asks for, each with such a
    tile.
    """
    block, body = p.block or thread_block(), list[Statement]()
    for s in p.body:
        sharing = _find_split(s, block, device) if isinstance(s, Reduce) else None
        if isinstance(s, Reduce) and sharing is not None:
            partial, first, second = _split(s, *sharing, device, p.buffers)
            grown = replace(p, buffers=(*p.buffers, partial))
            if shared_bytes(grown, device) <= device.block_shared_bytes:
                p = grown
                body += (first, second)
                continue
        body.append(s)
    return replace(p, body=tuple(body))


def _find_split(s: Reduce, block: Tiling, device: Device) -> tuple[Span, int, bool] | None:
    """Return the axis along which threads share a reduction, the parts, and `neighbours`, or None.

    `neighbours`: contiguous elements go to different threads.
    """
    if register_tile(s, block, device) is not None:
        parts = dict(block.parts)
        along = next((x for x in s.over if parts.get(x.axis, 1) > 1), None)
        if along is None or not _is_full_axis(s, along) or int(along.size) % parts[along.axis]:
            return None
        return along, parts[along.axis], _reads_along(s, along)
    results = prod(int(x.size) for x in s.spans)
    most = threads_in(block, device) // max(1, results)
    count = _lane_count(s, results, most, device) or _part_count(s, most)
    return None if count == 1 else (s.over[-1], count, True)


def _is_full_axis(s: Reduce, along: Span) -> bool:
    """Return True if all of an axis is reduced, from its beginning on."""
    return along.base == Affine() and along.size == along.extent and not s.onto


def _reads_along(s: Reduce, along: Span) -> bool:
    """Return True if the operands that no threads share are dense along an axis."""
    wide = {x.axis for x in s.spans if x.size != 1}
    return any(o.dense == along.axis for o in operands(s.expr) if wide <= o.axes)


def _split(
    s: Reduce,
    along: Span,
    parts: int,
    neighbours: bool,
    device: Device,
    buffers: tuple[Buffer, ...],
) -> tuple[Buffer, Reduce, Reduce]:
    """Return the buffer of partial results, and both reductions.

    `neighbours`: neighbouring threads reduce neighbouring elements; else each has a piece of the
    axis.
    """
    results = prod(int(x.size) for x in s.spans)
    name = unused_name(f"{s.target.buffer.name}_parts", buffers)
    partial = Buffer(name, "scratch", results * parts, computed(s.dtype), device.levels[0].name)
    part_axis = Span(part_of(along.axis), Affine(), parts, parts)
    spans = (*s.spans, part_axis) if neighbours else (part_axis, *s.spans)
    offset = Affine()
    for n, x in enumerate(spans):
        offset = offset + (var(x.axis) - x.base) * prod(int(y.size) for y in spans[n + 1 :])
    part, count = Fetch(partial, offset), int(along.size) // parts
    each = Span(along.axis, Affine(), count, count)
    inner, outer = (parts, 1) if neighbours else (1, count)
    index = var(along.axis) * inner + var(part_axis.axis) * outer
    first = replace(
        s,
        target=part,
        spans=spans,
        over=tuple(each if x is along else x for x in s.over),
        expr=substitute(s.expr, {along.axis: index}),
        dtype=partial.dtype,
    )
    return partial, first, replace(s, over=(part_axis,), expr=part)


def _lane_count(s: Reduce, results: int, most: int, device: Device) -> int:
    """Return the most lanes of a warp that can share each result, 0 if none can.

    They divide the reduced axis and fill whole warps, and need no memory for partial results.
    """
    along = s.over[-1]
    size = int(along.size)
    if s.dtype not in SHUFFLED or not _is_full_axis(s, along):
        return 0
    powers = [1 << n for n in range(device.lanes.bit_length() - 1, 0, -1)]
    fitting = (n for n in powers if n <= most and size % n == 0 and results * n % device.lanes == 0)
    total = prod(int(x.size) for x in s.over)
    return next((n for n in fitting if 2 * (total // n + n.bit_length() - 1) <= total), 0)


def _part_count(s: Reduce, most: int) -> int:
    """Return the equal parts of the last axis that leave the fewest consecutive steps.

    Of two such the more; 1 if the steps are not halved, or if an edge is clipped.
    """
    along, total = s.over[-1], prod(int(x.size) for x in s.over)
    size = int(along.size)
    if not _is_full_axis(s, along):
        return 1
    fitting = [n for n in range(1, min(most, size) + 1) if size % n == 0]
    parts = min(reversed(fitting), key=lambda n: total // n + n, default=1)
    return parts if 2 * (total // parts + parts) <= total else 1
