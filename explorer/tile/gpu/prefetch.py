"""While threads work on a chunk of operands in shared memory, the next chunk is on its way to their
registers: double buffering, of which one half is registers.

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
from explorer.ir.tile_programs.elements import REGISTER, Buffer, Fetch, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Span, Statement, Sync, Threads
from explorer.ir.tile_programs.traversal import dealt, moved, substitute
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.verify import level_problem

MOST_OWN_ELEMENTS = 16  # of an operand that a thread brings at once: a bound on registers, chosen


def prefetched(p: TileProgram, device: Device) -> TileProgram:
    """After: where chunks of operands come to shared memory in a loop, each comes to registers
    while the one before it is worked on; unless a thread has no room for it, or a chunk cannot be
    dealt out evenly.
    """
    body = list[Statement]()
    for s in p.body:
        found = _loop(s)
        if found is not None:
            rooms, made = found
            grown = replace(p, buffers=(*p.buffers, *rooms))
            if not level_problem(grown, device):
                p = grown
                body += made
                continue
        body.append(s)
    return replace(p, body=tuple(body))


def _loop(s: Statement) -> tuple[list[Buffer], list[Statement]] | None:
    """New buffers, and what stands in the place of a loop over chunks."""
    if not isinstance(s, For) or s.threads is not None:
        return None
    if len(s.body) == 1:  # around the loop over chunks
        inner = _loop(s.body[0])
        return None if inner is None else (inner[0], [replace(s, body=tuple(inner[1]))])
    copies: list[_Copy] = []
    for one in s.body:
        if isinstance(one, Sync):
            break
        copy = _copy(one)
        if copy is None:
            return None
        copies.append(copy)
    if not copies or s.span.size == 1 or s.span.clip_low or s.span.clip_high:
        return None
    chunk, rest = s.span.axis, s.body[len(copies) :]
    after, count = f"{chunk}_next", s.span.size
    one_more = Span(after, var(chunk) + 1, 1, count, clip_high=True)
    coming = For(one_more, tuple(c.load({chunk: var(after)}) for c in copies))
    stores = tuple(c.store() for c in copies)
    made = [c.load({chunk: s.span.base}) for c in copies]
    loop = replace(s, body=(*stores, rest[0], coming, *rest[1:]))
    return [c.room for c in copies], [*made, loop]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy to shared memory, dealt out evenly: what a thread brings is in `room` in between."""

    loops: tuple[For, ...]
    map: Map
    spans: tuple[Span, ...]
    here: Fetch
    room: Buffer

    def load(self, values: Mapping[str, Affine]) -> Statement:
        """Operand -> registers."""
        spans = tuple(replace(x, base=x.base.substitute(values)) for x in self.spans)
        expr = substitute(self.map.expr, values)
        return self._dealt(Map(self.here, spans, expr, UNROLLED))

    def store(self) -> Statement:
        """Registers -> shared memory."""
        return self._dealt(Map(self.map.target, self.spans, self.here, UNROLLED))

    def _dealt(self, body: Statement) -> Statement:
        for loop in reversed(self.loops):
            body = replace(loop, body=(body,))
        return body


def _copy(s: Statement) -> _Copy | None:
    if not isinstance(s, For) or s.threads is None:
        return None
    loops, body = dealt(s)
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
        place, mine, rounds = f"{x.axis}_p", f"{x.axis}_m", x.size // count
        total *= rounds
        values[x.axis] = x.base + var(place) + var(mine) * count
        places.append(For(Span(place, Affine(), count, count), (), Threads(count)))
        own.append(Span(mine, Affine(), rounds, rounds))
    kept = list[Span]()
    for x in m.spans:  # from 0 on: where they begin is in the values
        point = f"{x.axis}_e"
        values[x.axis] = x.base.substitute(values) + var(point)
        kept.append(Span(point, Affine(), x.size, x.size))
        total *= int(x.size)
    if total > MOST_OWN_ELEMENTS:
        return None
    room = Buffer(f"{m.target.buffer.name}_next", "scratch", total, m.target.buffer.dtype, REGISTER)
    at, step = Affine(), total
    for x in (*own, *kept):
        step //= int(x.size)
        at = at + var(x.axis) * step
    moved_map = replace(
        m, target=moved(m.target, values), expr=substitute(m.expr, values), form=UNROLLED
    )
    return _Copy(tuple(places), moved_map, (*own, *kept), Fetch(room, at), room)
