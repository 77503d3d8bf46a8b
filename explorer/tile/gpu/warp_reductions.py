"""What lanes of one warp have each reduced is reduced from register to register.

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
from explorer.ir.tile_programs.elements import REGISTER, Buffer, Fetch
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import (
    For,
    Map,
    Reduce,
    Shuffle,
    Span,
    Statement,
    Sync,
    Threads,
)
from explorer.ir.tile_programs.traversal import dealt, threads_of, without_unused

SHUFFLED = ("float32", "float64", "int32", "int64")  # that a lane can read of another: CUDA's words


def within_warps(p: TileProgram, device: Device) -> TileProgram:
    """After: a reduction that lanes of one warp share goes through no memory, and needs no Sync.
    Not where a block is no whole warps, for all lanes come to a shuffle.
    """
    if threads_of(p.body) % device.lanes:
        return p
    made: list[Statement] = []
    rooms: list[Buffer] = []
    left = list(p.body)
    while left:
        s = left.pop(0)
        found = _shuffled(s, left, device)
        if found is None:
            made.append(s)
            continue
        made += found
        rooms += [x.target.buffer for x in found if isinstance(x, Shuffle)]
        left = left[2:]
    return without_unused(replace(p, body=tuple(made), buffers=(*p.buffers, *rooms)))


def _shuffled(s: Statement, behind: Sequence[Statement], device: Device) -> list[Statement] | None:
    """Both steps of a reduction by registers, where they are of one warp each time."""
    match [s, *behind[:2]]:
        case [For(threads=Threads()) as one, Sync(), For(threads=Threads()) as then]:
            loops, body = dealt(one)
        case _:
            return None
    match [*body, *dealt(then)[1]]:
        case [Reduce() as first, Reduce() as second]:
            lane = loops[-1].span
        case _:
            return None
    pair = second.over == (lane,) and second.expr == first.target
    if not pair or first.dtype != second.dtype or first.dtype not in SHUFFLED:
        return None
    whole = all(x.threads is not None and x.threads.count == x.span.size for x in loops)
    lanes = int(lane.size)
    if not whole or lanes > device.lanes or lanes & (lanes - 1):
        return None
    name = first.target.buffer.name.replace("_parts", "_lane")
    mine = Fetch(Buffer(name, "scratch", 1, first.dtype, REGISTER), Affine())
    # An axis with one value, in the first lane alone: results lie along it.
    alone = Span("_first", var(lane.axis), 1, 1, clip_high=True)
    target = replace(second.target, offset=second.target.offset + var(alone.axis))
    return [
        _in(loops, replace(first, target=mine)),
        Shuffle(mine, lanes, first.combiner, first.dtype),
        _in(loops, Map(target, (*second.spans, alone), mine)),
    ]


def _in(loops: Sequence[For], s: Statement) -> For:
    """A statement in loops over threads."""
    whole = replace(loops[-1], body=(s,))
    for loop in reversed(loops[:-1]):
        whole = replace(loop, body=(whole,))
    return whole
