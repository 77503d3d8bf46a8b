"""Sums of products of a whole warp on its tensor core, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from explorer.codegen.cuda.emitter import Emitter
from explorer.codegen.cuda.expressions import Scalars, register
from explorer.codegen.cuda.statements.unrolled import Values
from explorer.ir.tile_programs.elements import Fetch
from explorer.ir.tile_programs.statements import Reduce, Span
from explorer.ir.tile_programs.traversal import moved
from explorer.tile.gpu.matrix_units import Fragment, fragments


def matrix_reduce(e: Emitter, s: Reduce) -> None:
    """For each step along what is summed: the words of both operands that a lane brings, each once,
    and one instruction for each piece, onto the four sums of the lane there.
    """
    found, before = fragments(s, e.places), e.depth
    for span in found.over:
        e.loop(span)
    scalars, words = e.scalars(), dict[Fetch, list[str]]()
    for at in _points(found.pieces):
        brought = [_words(e, scalars, f, at, words) for f in (found.rows, found.columns)]
        sums = [register(moved(s.target, {**at, **own})) for own in _points(found.own)]
        args = ", ".join((*brought[0], *brought[1], *sums))
        e.line(f"{', '.join(sums)} = mma_{found.dtype}({args})")
    e.depth = before


def _words(
    e: Emitter, scalars: Scalars, f: Fragment, at: Values, known: dict[Fetch, list[str]]
) -> list[str]:
    """The words of one operand for a piece: the halves along what is summed one after the other,
    within each the rows (PTX ISA, section 9.7.15.5.8, figures of the fragments).
    """
    first = moved(f.element, at)
    if first not in known:
        *others, half, pair = (x for x in f.spans if x.axis not in at)
        known[first] = [
            e.word(scalars, moved(first, own), pair.axis, f.in_words)
            for own in _points((half, *others))
        ]
    return known[first]


def _points(spans: Sequence[Span]) -> list[Values]:
    """The values of some axes, the last one fastest."""
    ranges = (range(int(x.size)) for x in spans)
    return [
        {x.axis: x.base + n for x, n in zip(spans, point, strict=True)}
        for point in product(*ranges)
    ]
