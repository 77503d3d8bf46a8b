"""Reductions of warps' partial results from register to register.

p[i, t] = sum[k < K / 32] x[i, 32 k + t] on 2 x 32 threads
sync
s[i] = sum[t < 32] p[i, t] on 2 threads
->
r = sum[k < K / 32] x[i, 32 k + t] on 2 x 32 threads
r = sum of it in 32 threads beside each other
s[i] = r on the first of these
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
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
from explorer.ir.tile_traversal import distributed_loops, threads_of, without_unused

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
