"""Matrix products of a warp on its tensor core, fragment by fragment."""

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
    """Print a matrix product of a warp.

    Each step along the reduced axes loads a lane's words of both operands, each once. One
    instruction for each piece adds to the lane's four sums there.
    """
    operands, before = fragments(s, e.places), e.depth
    for span in operands.over:
        e.loop(span)
    scalars, words = e.scalars(), dict[Fetch, list[str]]()
    for at in _points(operands.pieces):
        operand_words = [
            _words(e, scalars, f, at, words) for f in (operands.rows, operands.columns)
        ]
        sums = [register(moved(s.target, {**at, **own})) for own in _points(operands.own)]
        args = ", ".join((*operand_words[0], *operand_words[1], *sums))
        e.line(f"{', '.join(sums)} = mma_{operands.dtype}({args})")
    e.depth = before


def _words(
    e: Emitter, scalars: Scalars, f: Fragment, at: Values, loaded: dict[Fetch, list[str]]
) -> list[str]:
    """Return the words of one operand for a piece, loaded once.

    The order is that of the fragments' figures in PTX ISA, section 9.7.15.5.8: the halves along the
    reduced axis one after the other, within each the rows.
    """
    first = moved(f.element, at)
    if first not in loaded:
        *others, half, pair = (x for x in f.spans if x.axis not in at)
        loaded[first] = [
            e.word(scalars, moved(first, own), pair.axis, f.in_words)
            for own in _points((half, *others))
        ]
    return loaded[first]


def _points(spans: Sequence[Span]) -> list[Values]:
    """Return the values of some axes, the last one fastest."""
    ranges = (range(int(x.size)) for x in spans)
    return [
        {x.axis: x.base + n for x, n in zip(spans, point, strict=True)}
        for point in product(*ranges)
    ]
