"""Which of a block's points a thread has in its registers: not all neighbours, but groups of them,
each as far from the last as all threads reach, so that threads beside each other touch elements
beside each other. A group is what a thread reads of shared memory at once: up to 128 bits.

s[i, j] = sum[k] xs[k, i] * ws[k, j] for i in 8 i' .. 8 i' + 8, j in 8 j' .. 8 j' + 8, unrolled
->
s[i, j] = sum[k] xs[k, i] * ws[k, j] for i = 4 i' + 64 m + e, j = 4 j' + 64 n + f, unrolled,
    m < 2, e < 4, n < 2, f < 4
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_programs.elements import REGISTER, Fetch
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Reduce, Span, Statement
from explorer.ir.tile_programs.traversal import (
    dealt,
    loads,
    moved,
    statements,
    substitute,
    with_loads,
)
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.gpu.matrix_units import MATRIX
from explorer.tile.gpu.operands import VECTOR_BYTES

APART = (UNROLLED, MATRIX)  # in which each point of a thread is a statement of its own


def interleaved(p: TileProgram, device: Device) -> TileProgram:
    """After: along each axis of register tiles that no clip cuts, a thread has groups of points as
    far apart as all threads reach.
    """
    found, kept = dict[str, _Axis](), set[str]()
    together = {x.axis: n for s in statements(p.body) for x, n in _read_together(s)}
    for s in statements(p.body):
        if isinstance(s, For) and s.threads is not None:
            for axis, way in _ways(s, together):
                if way is None or found.setdefault(axis, way) != way:
                    kept.add(axis)
    ways = {axis: way for axis, way in found.items() if axis not in kept}
    return replace(p, body=tuple(_of(s, ways) for s in p.body)) if ways else p


@dataclass(frozen=True, slots=True)
class _Axis:
    """`size` points a thread, in groups of `together`, of `count` threads; `base`: the first of
    thread 0.
    """

    thread: str
    base: Affine
    size: int
    count: int
    together: int

    @property
    def before(self) -> Affine:
        """A point of a thread, by the variables that count its groups and the points of one."""
        return self.base + var(self.thread) * self.size + self._own(self.together)

    @property
    def after(self) -> Affine:
        """The same where they are interleaved."""
        return self.base + var(self.thread) * self.together + self._own(self.together * self.count)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The groups, and the points of one."""
        sizes = (self.size // self.together, self.together)
        return tuple(
            Span(name, Affine(), n, n) for name, n in zip(self._names, sizes, strict=True) if n > 1
        )

    def _own(self, apart: int) -> Affine:
        group, point = self._names
        total = var(point) if self.together > 1 else Affine()
        return total + var(group) * apart if self.size > self.together else total

    @property
    def _names(self) -> tuple[str, str]:
        return f"{self.thread}_n", f"{self.thread}_e"


def _ways(s: For, together: Mapping[str, int]) -> Iterator[tuple[str, _Axis | None]]:
    """How threads of a part have each axis of its register tiles; None: in a way that stays."""
    loops, body = dealt(s)
    counts = {x.span.axis: x.threads.count for x in loops if x.threads is not None}
    for one in body:
        if not isinstance(one, Map | Reduce) or one.form not in APART:
            continue
        for x in one.spans:
            thread = next((t for t in counts if x.base.factor(t)), None)
            if thread is None or x.size == 1:
                continue
            plain = not (x.clip_low or x.clip_high) and x.base.factor(thread) == x.size
            base = x.base.without({thread})
            size, count = int(x.size), counts[thread]
            way = _Axis(thread, base, size, count, together.get(x.axis, 1))
            yield x.axis, way if plain else None


def _read_together(s: Statement) -> Iterator[tuple[Span, int]]:
    """The axes along which a thread finds its points of an operand beside each other in shared
    memory, and how many of them it reads at once.
    """
    if not isinstance(s, Reduce) or s.form != UNROLLED:
        return
    for f in loads(s):
        words = f.buffer.kind == "scratch" and f.buffer.level != REGISTER
        most = VECTOR_BYTES // ITEM_BYTES[f.buffer.dtype] if words and not f.dynamic else 1
        for x in s.spans:
            if f.offset.factor(x.axis) == 1 and most > 1:
                yield x, max(n for n in (1, 2, 4, 8, 16) if n <= most and int(x.size) % n == 0)


def _of(s: Statement, ways: Mapping[str, _Axis]) -> Statement:
    if not isinstance(s, For):
        return s
    if s.threads is None:
        return replace(s, body=tuple(_of(x, ways) for x in s.body))
    loops, body = dealt(s)
    made: tuple[Statement, ...] = tuple(
        _one(x, ways) if isinstance(x, Map | Reduce) and x.form in APART else x for x in body
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

    spans = tuple(y for x in s.spans for y in (mine[x.axis].spans if x.axis in mine else (x,)))
    expr = substitute(with_loads(s.expr, register), after)
    return replace(s, target=moved(register(s.target), after), spans=spans, expr=expr)
