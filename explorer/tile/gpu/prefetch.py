"""Prefetching of operand chunks: double buffering, with one half in registers.

While threads work on a chunk in shared memory, the next one is loaded to their registers.

for k' < K / 32:
    xs[i, k] = x[i, k] for k in 32 k' .. 32 k' + 32 on threads
    sync; s[i] = sum[k] xs[i, k] ... onto s[i]; sync
->
n[m] = x[i, k] for k in 0 .. 32 on threads
for k' < K / 32:
    xs[i, k] = n[m] on threads
    sync
    n[m] = x[i, k] for k in 32 k' + 32 .. 32 k' + 64 on threads, but in the last trip
    s[i] = sum[k] xs[i, k] ... onto s[i]; sync
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import is_stored_otherwise
from explorer.ir.tile_program import (
    REGISTER,
    Buffer,
    Fetch,
    For,
    Map,
    Span,
    Statement,
    Sync,
    Threads,
    TileProgram,
    fetches,
)
from explorer.ir.tile_traversal import distributed_loops, moved, substitute
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.verify import level_problem

MOST_OWN_ELEMENTS = 16  # of an operand, loaded ahead by a thread: a bound on registers, chosen


def prefetched(p: TileProgram, device: Device) -> TileProgram:
    """Load each chunk of operands to registers while threads work on the one before it.

    Not if a thread has too few registers, or if a chunk cannot be distributed evenly.
    """
    body = list[Statement]()
    for s in p.body:
        replacement = _prefetch_loop(s)
        if replacement is not None:
            new_buffers, loop = replacement
            grown = replace(p, buffers=(*p.buffers, *new_buffers))
            if not level_problem(grown, device):
                p = grown
                body += loop
                continue
        body.append(s)
    return replace(p, body=tuple(body))


def _prefetch_loop(s: Statement) -> tuple[list[Buffer], list[Statement]] | None:
    """Return new buffers, and the replacement of a loop over chunks."""
    if not isinstance(s, For) or s.threads is not None:
        return None
    if len(s.body) == 1:  # a loop around the loop over chunks
        inner = _prefetch_loop(s.body[0])
        return None if inner is None else (inner[0], [replace(s, body=tuple(inner[1]))])
    copies: list[_Copy] = []
    for inner_statement in s.body:
        if isinstance(inner_statement, Sync):
            break
        copy = _copy(inner_statement)
        if copy is None:
            return None
        copies.append(copy)
    if not copies or s.span.size == 1 or s.span.clip_low or s.span.clip_high:
        return None
    chunk, remaining = s.span.axis, s.body[len(copies) :]
    after, count = f"{chunk}_next", s.span.size
    one_more = Span(after, var(chunk) + 1, 1, count, clip_high=True)
    coming = For(one_more, tuple(c.load({chunk: var(after)}) for c in copies))
    stores = tuple(c.store() for c in copies)
    first_loads = [c.load({chunk: s.span.base}) for c in copies]
    loop = replace(s, body=(*stores, remaining[0], coming, *remaining[1:]))
    return [c.room for c in copies], [*first_loads, loop]


@dataclass(frozen=True, slots=True)
class _Copy:
    """An evenly distributed copy to shared memory, by way of a thread's registers (`room`)."""

    loops: tuple[For, ...]
    map: Map
    spans: tuple[Span, ...]
    here: Fetch
    room: Buffer

    def load(self, values: Mapping[str, Affine]) -> Statement:
        """Return the copy from operand to registers."""
        spans = tuple(replace(x, base=x.base.substitute(values)) for x in self.spans)
        expr = substitute(self.map.expr, values)
        return self._distribute(Map(self.here, spans, expr, UNROLLED))

    def store(self) -> Statement:
        """Return the copy from registers to shared memory."""
        return self._distribute(Map(self.map.target, self.spans, self.here, UNROLLED))

    def _distribute(self, body: Statement) -> Statement:
        for loop in reversed(self.loops):
            body = replace(loop, body=(body,))
        return body


def _copy(s: Statement) -> _Copy | None:
    """Return a statement as an evenly distributed copy, or None."""
    if not isinstance(s, For) or s.threads is None:
        return None
    loops, body = distributed_loops(s)
    if len(body) != 1 or not isinstance(body[0], Map) or body[0].form not in (None, UNROLLED):
        return None
    m = body[0]
    if is_stored_otherwise(m.target.buffer.dtype) or m.target.buffer.kind != "scratch":
        return None
    if any(f.buffer.kind not in ("input", "constant") for f in fetches(m.expr)):
        return None
    if any((x.size != 1 and m.form is None) or x.clip_low or x.clip_high for x in m.spans):
        return None
    places, own, values, total = list[For](), list[Span](), dict[str, Affine](), 1
    for loop in loops:
        x, count = loop.span, 1 if loop.threads is None else loop.threads.count
        if x.clip_low or x.clip_high or not isinstance(x.size, int) or x.size % count:
            return None
        place, own_axis, rounds = f"{x.axis}_p", f"{x.axis}_m", x.size // count
        total *= rounds
        values[x.axis] = x.base + var(place) + var(own_axis) * count
        places.append(For(Span(place, Affine(), count, count), (), Threads(count)))
        own.append(Span(own_axis, Affine(), rounds, rounds))
    points = list[Span]()
    for x in m.spans:  # these begin at 0, their base is in the values
        point = f"{x.axis}_e"
        values[x.axis] = x.base.substitute(values) + var(point)
        points.append(Span(point, Affine(), x.size, x.size))
        total *= int(x.size)
    if total > MOST_OWN_ELEMENTS:
        return None
    room = Buffer(f"{m.target.buffer.name}_next", "scratch", total, m.target.buffer.dtype, REGISTER)
    at, step = Affine(), total
    for x in (*own, *points):
        step //= int(x.size)
        at = at + var(x.axis) * step
    moved_map = replace(
        m, target=moved(m.target, values), expr=substitute(m.expr, values), form=UNROLLED
    )
    return _Copy(tuple(places), moved_map, (*own, *points), Fetch(room, at), room)
