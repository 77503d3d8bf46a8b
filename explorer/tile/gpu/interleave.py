"""Interleaving of a block's points over threads: groups of points instead of all neighbours.

Groups of a thread are as far apart as all threads reach, so that neighbouring threads touch
neighbouring elements. A group is what a thread reads of shared memory at once: up to 128 bits.

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
from explorer.ir.tile_program import REGISTER, Fetch, For, Map, Reduce, Span, Statement, TileProgram
from explorer.ir.tile_traversal import (
    distributed_loops,
    loads,
    moved,
    statements,
    substitute,
    with_loads,
)
from explorer.tile.gpu.distribute import UNROLLED
from explorer.tile.gpu.matrix_units import MATRIX
from explorer.tile.gpu.operands import VECTOR_BYTES

APART = (UNROLLED, MATRIX)  # forms in which each point of a thread is a statement


def interleaved(p: TileProgram, device: Device) -> TileProgram:
    """Interleave the register tiles' points of threads along each axis that no clip cuts."""
    axes, fixed = dict[str, _Axis](), set[str]()
    together = {x.axis: n for s in statements(p.body) for x, n in _read_together(s)}
    for s in statements(p.body):
        if isinstance(s, For) and s.threads is not None:
            for axis, interleaving in _interleavings(s, together):
                if interleaving is None or axes.setdefault(axis, interleaving) != interleaving:
                    fixed.add(axis)
    chosen = {axis: interleaving for axis, interleaving in axes.items() if axis not in fixed}
    return replace(p, body=tuple(_rewrite(s, chosen) for s in p.body)) if chosen else p


@dataclass(frozen=True, slots=True)
class _Axis:
    """The points of an axis: `size` a thread, in groups of `together`, of `count` threads.

    `base` is the first point of thread 0.
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
        """The same point after interleaving."""
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


def _interleavings(s: For, together: Mapping[str, int]) -> Iterator[tuple[str, _Axis | None]]:
    """Yield how threads share each axis of a part's register tiles; None: it must stay."""
    loops, body = distributed_loops(s)
    counts = {x.span.axis: x.threads.count for x in loops if x.threads is not None}
    for inner in body:
        if not isinstance(inner, Map | Reduce) or inner.form not in APART:
            continue
        for x in inner.spans:
            thread = next((t for t in counts if x.base.factor(t)), None)
            if thread is None or x.size == 1:
                continue
            plain = not (x.clip_low or x.clip_high) and x.base.factor(thread) == x.size
            base = x.base.without({thread})
            size, count = int(x.size), counts[thread]
            interleaving = _Axis(thread, base, size, count, together.get(x.axis, 1))
            yield x.axis, interleaving if plain else None


def _read_together(s: Statement) -> Iterator[tuple[Span, int]]:
    """Yield the axes with contiguous points of an operand in shared memory, and the vector size."""
    if not isinstance(s, Reduce) or s.form != UNROLLED:
        return
    for f in loads(s):
        words = f.buffer.kind == "scratch" and f.buffer.level != REGISTER
        most = VECTOR_BYTES // ITEM_BYTES[f.buffer.dtype] if words and not f.dynamic else 1
        for x in s.spans:
            if f.offset.factor(x.axis) == 1 and most > 1:
                yield x, max(n for n in (1, 2, 4, 8, 16) if n <= most and int(x.size) % n == 0)


def _rewrite(s: Statement, axes: Mapping[str, _Axis]) -> Statement:
    """Return a statement with the register tiles inside of it interleaved."""
    if not isinstance(s, For):
        return s
    if s.threads is None:
        return replace(s, body=tuple(_rewrite(x, axes) for x in s.body))
    loops, body = distributed_loops(s)
    interleaved_body: tuple[Statement, ...] = tuple(
        _interleaved(x, axes) if isinstance(x, Map | Reduce) and x.form in APART else x
        for x in body
    )
    for loop in reversed(loops):
        interleaved_body = (replace(loop, body=interleaved_body),)
    return interleaved_body[0]


def _interleaved(s: Map | Reduce, axes: Mapping[str, _Axis]) -> Map | Reduce:
    """Return a register tile's statement with interleaved points."""
    own = {x.axis: axes[x.axis] for x in s.spans if x.axis in axes and x.size != 1}
    before = {axis: interleaving.before for axis, interleaving in own.items()}
    after = {axis: interleaving.after for axis, interleaving in own.items()}

    def register(f: Fetch) -> Fetch:
        return moved(f, before) if f.buffer.level == REGISTER else f

    spans = tuple(y for x in s.spans for y in (own[x.axis].spans if x.axis in own else (x,)))
    expr = substitute(with_loads(s.expr, register), after)
    return replace(s, target=moved(register(s.target), after), spans=spans, expr=expr)
