"""Statements of a thread block: unrolled register tiles, matrix units, reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from types import MappingProxyType

from explorer.codegen.block_loops import inside, steps_at_once
from explorer.codegen.cpu.emitter import affine_text
from explorer.codegen.cuda.emitter import Emitter, unrounded
from explorer.codegen.cuda.expressions import Scalars, applied, register
from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.dtypes import DType, is_stored_otherwise
from explorer.ir.tile_program import Fetch, Map, Reduce, Scan, Shuffle, Span, TileExpr
from explorer.ir.tile_traversal import moved, substitute
from explorer.ops.interpreter.scalar import start_value
from explorer.tile.gpu.matrix_units import Fragment, fragments
from explorer.tile.gpu.operands import together

MOST_LOADED = 16  # points of a map with values in registers at once; chosen
HALVES: tuple[DType, ...] = ("float16", "bfloat16")
NONE: Mapping[str, Affine] = MappingProxyType({})
Values = dict[str, Affine]
Point = Callable[[Scalars, Values], None]


def unrolled_map(e: Emitter, s: Map) -> None:
    """Print `target = expr` for each point.

    If there are few points and none is clipped, all values are loaded before any is stored, so that
    no load waits for a store. Points belong to threads, which run in any order: none reads what
    another one stores.
    """
    points, expr = prod(int(x.size) for x in s.spans), unrounded(s.expr, s.target)
    if is_vector(s, e.multiples) and isinstance(s.expr, Fetch) and s.expr.buffer.name in e.aligned:
        vector_map(e, s, s.expr)
        return
    if is_pairs(s, e.multiples) and s.target.buffer.name in e.aligned:
        pairs_map(e, s, expr, points <= MOST_LOADED)
        return
    if points <= MOST_LOADED and not any(x.clip_low or x.clip_high for x in s.spans):
        loaded: list[tuple[Scalars, Fetch, str]] = []
        copied = s.expr if isinstance(s.expr, Fetch) and is_copied(s, s.expr) else None

        def load(scalars: Scalars, at: Values) -> None:
            if copied is not None:
                value = e.load_encoded(scalars, moved(copied, at))
            else:
                value = e.value(scalars, substitute(expr, at))
            loaded.append((scalars, moved(s.target, at), value))

        each(e, s.spans, load)
        for scalars, target, value in loaded:
            (e.store_encoded if copied is not None else e.store)(scalars, target, value)
        return

    def point(scalars: Scalars, at: Values) -> None:
        e.store(scalars, moved(s.target, at), e.value(scalars, substitute(expr, at)))

    each(e, s.spans, point)


def is_copied(s: Map, source: Fetch) -> bool:
    """Return True if elements are copied in their encoded form."""
    dtype = s.target.buffer.dtype
    return source.buffer.dtype == dtype and is_stored_otherwise(dtype)


def is_vector(s: Map, multiples: Mapping[str, int]) -> bool:
    """Return True if the points of the last axis can be loaded as one vector.

    They are neighbours in memory, from a multiple of their number on if their tensor begins at one.
    `multiples` has the number of which a variable is a multiple.
    """
    match s:
        case Map(expr=Fetch(buffer, offset, ()), spans=(*_, last)):
            wide, dtype = together(buffer.dtype), s.target.buffer.dtype
            in_memory = buffer.kind in ("input", "constant") and buffer.dtype == dtype
            begin = offset.substitute({last.axis: last.base})
            plain = not any(x.clip_low or x.clip_high for x in s.spans)
            aligned = _divides(wide, begin, multiples)
            contiguous = wide == last.size > 1 and offset.factor(last.axis) == 1
            return plain and in_memory and contiguous and aligned
    return False


def is_pairs(s: Map, multiples: Mapping[str, int]) -> bool:
    """Return True if the points of the last axis can be stored as pairs of 16-bit floats.

    They are computed neighbours in a result in memory, not copies, from even places on if their
    tensor begins at one.
    """
    match s:
        case Map(target=Fetch(buffer, offset, ()), spans=(*_, last)):
            narrow = buffer.kind == "output" and buffer.dtype in HALVES
            copied = isinstance(s.expr, Fetch) and is_copied(s, s.expr)
            plain = not any(x.clip_low or x.clip_high for x in s.spans)
            contiguous = int(last.size) % 2 == 0 and offset.factor(last.axis) == 1
            begin = offset.substitute({last.axis: last.base})
            even = _divides(2, begin, multiples)
            return narrow and not copied and plain and contiguous and even
    return False


def pairs_map(e: Emitter, s: Map, expr: TileExpr, few: bool) -> None:
    """Print two neighbouring points at a time, stored at once.

    With `few` points all are computed before any is stored.
    """
    *rows, last = s.spans
    pairs: list[tuple[Scalars, Fetch, list[str]]] = []

    def point(scalars: Scalars, at: Values) -> None:
        for n in range(0, int(last.size), 2):
            both = [at | {last.axis: last.base.substitute(at) + k} for k in (n, n + 1)]
            values = [e.value(scalars, substitute(expr, own)) for own in both]
            pairs.append((scalars, moved(s.target, both[0]), values))
            if not few:
                flush()

    def flush() -> None:
        for pair in pairs:
            e.store_both(*pair)
        pairs.clear()

    each(e, tuple(rows), point)
    flush()


def _divides(count: int, offset: Affine, multiples: Mapping[str, int]) -> bool:
    """Return True if an offset is a multiple of a number for all values of its variables."""
    steps = (*(f * multiples.get(name, 1) for name, f in offset.terms), offset.const)
    return all(isinstance(n, int) and n % count == 0 for n in steps)


def vector_map(e: Emitter, s: Map, source: Fetch) -> None:
    """Print vector loads of all rows before any is stored."""
    *rows, last = s.spans
    loaded: list[tuple[Scalars, Fetch, str]] = []

    def load(scalars: Scalars, at: Values) -> None:
        first = moved(source, {**at, last.axis: last.base.substitute(at)})
        names = e.load(scalars, first, together(source.buffer.dtype))
        for n, name in enumerate(names):
            target = moved(s.target, {**at, last.axis: last.base.substitute(at) + n})
            loaded.append((scalars, target, name))

    each(e, tuple(rows), load)
    for scalars, target, name in loaded:
        e.store_encoded(scalars, target, name)


def unrolled_reduce(e: Emitter, s: Reduce) -> None:
    """Print a reduction whose loops surround the points, each of which has its own sum."""
    start = start_value(s.combiner, s.dtype)

    def begin(scalars: Scalars, at: Values) -> None:
        e.store(scalars, moved(s.target, at), e.value(scalars, start))

    def step(scalars: Scalars, at: Values) -> None:
        value = e.part(scalars, substitute(s.expr, at))
        target: Fetch = moved(s.target, at)
        e.store(scalars, target, combined(s, e.value(scalars, target), value))

    if not s.onto:
        each(e, s.spans, begin)
    before, times = e.depth, steps_at_once(s, e.most_statements)
    for span in s.over if times == 1 else s.over[:-1]:
        e.loop(span)
    if times == 1:
        each(e, s.spans, step)
    else:
        last = s.over[-1]
        e.loop(last, times)
        for n in range(times):
            each(e, s.spans, step, {last.axis: var(last.axis) + n})
    e.depth = before


def each(
    e: Emitter, spans: tuple[Span, ...], point: Point, around: Mapping[str, Affine] = NONE
) -> None:
    """Print every point of the spans, under conditions where some are clipped.

    Common subexpressions of points are printed once, as far as the conditions reach. `around` has
    values of other variables.
    """
    scalars = e.scalars()

    def go(left: tuple[Span, ...], at: Values) -> None:
        if not left:
            point(scalars, at)
            return
        span, depth, names = left[0], e.depth, dict(scalars.names)
        for n in range(int(span.size)):
            value = span.base + n
            tests = inside(span, affine_text(value))
            if tests:
                e.line(f"if {' and '.join(tests)}:")
                e.depth += 1
            go(left[1:], at | {span.axis: value})
            if tests:
                e.depth = depth
                scalars.names = dict(names)

    go(spans, dict(around))


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


WARP_THREADS = 32  # CUDA C++ programming guide, SIMT architecture
WHOLE_WARP = f"0x{(1 << WARP_THREADS) - 1:X}"  # mask of the lanes of a shuffle


def reduce_(e: Emitter, s: Reduce) -> None:
    """Print a reduction element by element; the sum is in a register."""
    for span in s.spans:
        e.loop(span)
    scalars = e.scalars()
    acc = f"_acc{e.expressions}"
    first = s.target if s.onto else start_value(s.combiner, s.dtype)
    e.line(f"{acc} = {e.value(scalars, first)}")
    before = e.depth
    for span in s.over:
        e.loop(span)
    inner = e.scalars()
    e.line(f"{acc} = {combined(s, acc, e.value(inner, s.expr))}")
    e.depth = before
    e.store(scalars, s.target, acc)


def scan(e: Emitter, s: Scan) -> None:
    """Print a scan element by element; a number is carried along each row."""
    for span in s.spans:
        e.loop(span)
    e.expressions += 1
    acc, step = f"_acc{e.expressions}", f"{s.over.axis}_k"
    e.line(f"{acc} = {e.value(e.scalars(), start_value(s.combiner, s.dtype))}")
    e.line(f"for {step} in range({s.over.size}):")
    e.depth += 1
    e.line(f"{s.over.axis} = {f'{s.over.size} - 1 - {step}' if s.backwards else step}")
    scalars = e.scalars()
    value = e.value(scalars, s.expr)
    if s.exclusive:
        e.store(scalars, s.target, acc)
    e.line(f"{acc} = {combined(s, acc, value)}")
    if not s.exclusive:
        e.store(scalars, s.target, acc)


def shuffle(e: Emitter, s: Shuffle) -> None:
    """Print a butterfly reduction of lanes.

    Partners are half the lanes away, then a quarter, and so on. After it every lane has the
    complete result.
    """
    own_sum, away = register(s.target), s.lanes // 2
    while away:
        e.line(f"_other = cuda.shfl_xor_sync({WHOLE_WARP}, {own_sum}, {away})")
        e.line(f"{own_sum} = {combined(s, own_sum, '_other')}")
        away //= 2


def begin_shuffle(e: Emitter, s: Shuffle) -> None:
    """Initialise a shuffle's register, for threads that reduce nothing but take part."""
    e.line(f"{register(s.target)} = {e.value(e.scalars(), start_value(s.combiner, s.dtype))}")


def combined(s: Reduce | Scan | Shuffle, so_far: str, value: str) -> str:
    """Return the text of one more step of a reduction."""
    return applied(COMBINERS[s.combiner].step, s.dtype, [so_far, value])
