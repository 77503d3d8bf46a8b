"""Statements whose points are statements of their own: the register tile of a thread."""

from __future__ import annotations

from collections.abc import Callable

from explorer.codegen.cpu.expressions import affine_text
from explorer.codegen.cuda.emitter import Emitter, inside
from explorer.codegen.cuda.expressions import Scalars
from explorer.codegen.cuda.reductions import combined
from explorer.ir.affine import Affine
from explorer.ir.tile_programs.elements import Fetch
from explorer.ir.tile_programs.statements import Map, Reduce, Span
from explorer.ir.tile_programs.traversal import moved, substitute
from explorer.ops.kernels.scalar import start_value

Values = dict[str, Affine]
Point = Callable[[Scalars, Values], None]


def unrolled_map(e: Emitter, s: Map) -> None:
    """`target = expr` for each point."""

    def point(scalars: Scalars, at: Values) -> None:
        e.store(scalars, moved(s.target, at), e.value(scalars, substitute(s.expr, at)))

    each(e, s.spans, point)


def unrolled_reduce(e: Emitter, s: Reduce) -> None:
    """What is reduced is iterated over around the points, of which each has its own sum."""
    start = start_value(s.combiner, s.dtype)

    def begin(scalars: Scalars, at: Values) -> None:
        e.store(scalars, moved(s.target, at), e.value(scalars, start))

    def step(scalars: Scalars, at: Values) -> None:
        value = e.value(scalars, substitute(s.expr, at))
        target: Fetch = moved(s.target, at)
        e.store(scalars, target, combined(s, e.value(scalars, target), value))

    if not s.onto:
        each(e, s.spans, begin)
    before = e.depth
    for span in s.over:
        e.loop(span)
    each(e, s.spans, step)
    e.depth = before


def each(e: Emitter, spans: tuple[Span, ...], point: Point) -> None:
    """Every point of the spans, within conditions where some are clipped away; what several points
    share is printed once, as far as the conditions reach.
    """
    scalars = e.scalars()

    def go(left: tuple[Span, ...], at: Values) -> None:
        if not left:
            point(scalars, at)
            return
        span, depth, known = left[0], e.depth, dict(scalars.names)
        for n in range(int(span.size)):
            value = span.base + n
            tests = inside(span, affine_text(value))
            if tests:
                e.line(f"if {' and '.join(tests)}:")
                e.depth += 1
            go(left[1:], at | {span.axis: value})
            if tests:
                e.depth = depth
                scalars.names = dict(known)

    go(spans, {})
