"""Which of a block's points a thread has in its registers: not neighbours, but each as far from the
last as there are threads, so that threads beside each other touch elements beside each other.

s[i, j] = sum[k] xs[i, k] * ws[k, j] for i in 4 i' .. 4 i' + 4, j in 4 j' .. 4 j' + 4, unrolled
->
s[i, j] = sum[k] xs[i, k] * ws[k, j] for i = i' + 16 m, j = j' + 16 n, m < 4, n < 4, unrolled
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.tile_programs.elements import REGISTER, Fetch
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Reduce, Span, Statement
from explorer.ir.tile_programs.traversal import dealt, moved, statements, substitute, with_loads
from explorer.tile.gpu.distribute import UNROLLED


def interleaved(p: TileProgram, device: Device) -> TileProgram:
    """After: along each axis of register tiles that no clip cuts, a thread has points as far apart
    as there are threads.
    """
    found, kept = dict[str, _Axis](), set[str]()
    for s in statements(p.body):
        if isinstance(s, For) and s.threads is not None:
            for axis, way in _ways(s):
                if way is None or found.setdefault(axis, way) != way:
                    kept.add(axis)
    ways = {axis: way for axis, way in found.items() if axis not in kept}
    return replace(p, body=tuple(_of(s, ways) for s in p.body)) if ways else p


@dataclass(frozen=True, slots=True)
class _Axis:
    """`size` points a thread, of which there are `count`; `base`: the first of thread 0."""

    thread: str
    base: Affine
    size: int
    count: int

    @property
    def before(self) -> Affine:
        """A point of a thread, by the variable that counts its own."""
        return self.base + var(self.thread) * self.size + var(self.own)

    @property
    def after(self) -> Affine:
        """The same where they are interleaved."""
        return self.base + var(self.thread) + var(self.own) * self.count

    @property
    def own(self) -> str:
        return f"{self.thread}_n"


def _ways(s: For) -> Iterator[tuple[str, _Axis | None]]:
    """How threads of a part have each axis of its register tiles; None: in a way that stays."""
    loops, body = dealt(s)
    counts = {x.span.axis: x.threads.count for x in loops if x.threads is not None}
    for one in body:
        if not isinstance(one, Map | Reduce) or one.form != UNROLLED:
            continue
        for x in one.spans:
            thread = next((t for t in counts if x.base.factor(t)), None)
            if thread is None or x.size == 1:
                continue
            plain = not (x.clip_low or x.clip_high) and x.base.factor(thread) == x.size
            base = x.base.without({thread})
            size, count = int(x.size), counts[thread]
            yield x.axis, _Axis(thread, base, size, count) if plain else None


def _of(s: Statement, ways: Mapping[str, _Axis]) -> Statement:
    if not isinstance(s, For):
        return s
    if s.threads is None:
        return replace(s, body=tuple(_of(x, ways) for x in s.body))
    loops, body = dealt(s)
    made: tuple[Statement, ...] = tuple(
        _one(x, ways) if isinstance(x, Map | Reduce) and x.form == UNROLLED else x for x in body
    )
    for loop in reversed(loops):
        made = (replace(loop, body=made),)
    return made[0]


def _one(s: Map | Reduce, ways: Mapping[str, _Axis]) -> Map | Reduce:
    mine = {x.axis: ways[x.axis] for x in s.spans if x.axis in ways and x.size != 1}
    before = {axis: way.before for axis, way in mine.items()}
    after = {axis: way.after for axis, way in mine.items()}

    def register(f: Fetch) -> Fetch:
        return moved(f, before) if f.buffer.level == REGISTER else f

    spans = tuple(
        Span(mine[x.axis].own, Affine(), x.size, x.size) if x.axis in mine else x for x in s.spans
    )
    expr = substitute(with_loads(s.expr, register), after)
    return replace(s, target=moved(register(s.target), after), spans=spans, expr=expr)
