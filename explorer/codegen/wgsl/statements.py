"""Statements of a thread block in WGSL: unrolled register tiles, reductions, scans and shuffles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from explorer.codegen.block_loops import inside, steps_at_once
from explorer.codegen.cpu.emitter import affine_text
from explorer.codegen.wgsl.emitter import (
    MOST_STATEMENTS,
    Emitter,
    is_copy,
    unrounded,
)
from explorer.codegen.wgsl.expressions import Scalars, register
from explorer.codegen.wgsl.functions import constant, spell
from explorer.codegen.wgsl.types import value_type
from explorer.errors import BadOption
from explorer.ir.affine import Affine, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_program import (
    At,
    Fetch,
    For,
    LoopForm,
    Map,
    Reduce,
    Scan,
    Shuffle,
    Span,
    Statement,
    Sync,
    Threads,
)
from explorer.ir.tile_traversal import distributed_loops, moved, substitute
from explorer.ops.interpreter.scalar import start_value

EXCHANGED = "exchanged"  # words of workgroup memory, two a thread
MOST_LOADED = 16  # points of a map with values in registers at once; chosen
NONE: Mapping[str, Affine] = MappingProxyType({})
Values = dict[str, Affine]
Point = Callable[[Scalars, Values], None]


def statement(e: Emitter, s: Statement) -> None:
    """Print one statement."""
    start = e.depth
    match s:
        case For(threads=Threads()):
            loops, body = distributed_loops(s)
            e.distribute(loops)
            for inner in body:
                statement(e, inner)
        case For(span, body):
            e.loop(span)
            e.loops += 1
            for inner in body:
                statement(e, inner)
            e.loops -= 1
        case At(span, index, body):
            e.at(span, index)
            for inner in body:
                statement(e, inner)
        case Sync():  # of a warp too: WGSL has no barrier of a subgroup
            e.line(e.barrier)
        case Shuffle():
            shuffle(e, s)
        case Map(form=None):
            e.open()
            for span in s.spans:
                e.loop(span)
            scalars = e.scalars()
            if is_copy(s.target, s.expr):
                e.store_as_is(scalars, s.target, _copied(e, scalars, s.expr, s.target))
            else:
                e.assign(scalars, s.target, s.expr)
        case Reduce(form=None):
            reduce_(e, s)
        case Scan(form=None):
            scan(e, s)
        case Map(form=LoopForm("unrolled")):
            unrolled_map(e, s)
        case Reduce(form=LoopForm("unrolled")):
            unrolled_reduce(e, s)
        case _:
            raise BadOption(f"{type(s).__name__} is not printed in WGSL")
    e.close(start)


def _copied(e: Emitter, scalars: Scalars, source: object, target: Fetch) -> str:
    """Return an element as it is stored in another one of the same dtype."""
    assert isinstance(source, Fetch)
    value = e.value(scalars, source)
    stored = scalars.stored(value, target)
    return stored if stored.startswith("f16(") else value


def unrolled_map(e: Emitter, s: Map) -> None:
    """Print `target = expr` for each point.

    If there are few points and none is clipped, all values are loaded before any is stored, so that
    no load waits for a store. Points belong to threads, which run in any order: none reads what
    another one stores.
    """
    points, expr = prod(int(x.size) for x in s.spans), unrounded(s.expr, s.target)
    copied = is_copy(s.target, s.expr)
    loaded: list[tuple[Scalars, Fetch, str]] = []

    def load(scalars: Scalars, at: Values) -> None:
        target = moved(s.target, at)
        if copied:
            value = _copied(e, scalars, substitute(s.expr, at), target)
        else:
            value = e.value(scalars, substitute(expr, at))
        loaded.append((scalars, target, value))

    def store() -> None:
        for scalars, target, value in loaded:
            (e.store_as_is if copied else e.store)(scalars, target, value)
        loaded.clear()

    def point(scalars: Scalars, at: Values) -> None:
        load(scalars, at)
        store()

    e.open()
    few = points <= MOST_LOADED and not any(x.clip_low or x.clip_high for x in s.spans)
    each(e, s.spans, load if few else point)
    store()


def unrolled_reduce(e: Emitter, s: Reduce) -> None:
    """Print a reduction whose loops surround the points, each of which has its own sum."""
    start = start_value(s.combiner, s.dtype)

    def begin(scalars: Scalars, at: Values) -> None:
        e.store(scalars, moved(s.target, at), e.value(scalars, start))

    def step(scalars: Scalars, at: Values) -> None:
        value = e.part(scalars, substitute(s.expr, at))
        target: Fetch = moved(s.target, at)
        e.store(scalars, target, combined(s, e.value(scalars, target), value))

    e.open()
    if not s.onto:
        each(e, s.spans, begin)
    before, times = e.depth, steps_at_once(s, MOST_STATEMENTS)
    for span in s.over if times == 1 else s.over[:-1]:
        e.loop(span)
    if times == 1:
        each(e, s.spans, step)
    else:
        last = s.over[-1]
        e.loop(last, times)
        for n in range(times):
            each(e, s.spans, step, {last.axis: var(last.axis) + n})
    e.close(before)


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
                e.open(f"if ({' && '.join(tests)})")
            go(left[1:], at | {span.axis: value})
            if tests:
                e.close(depth)
                scalars.names = dict(names)

    go(spans, dict(around))


def reduce_(e: Emitter, s: Reduce) -> None:
    """Print a reduction element by element; the sum is in a register."""
    e.open()
    for span in s.spans:
        e.loop(span)
    scalars = e.scalars()
    acc = f"acc{e.expressions}"
    first = s.target if s.onto else start_value(s.combiner, s.dtype)
    e.line(f"var {acc} = {e.value(scalars, first)};")
    before = e.depth
    for span in s.over:
        e.loop(span)
    value = e.value(e.scalars(), s.expr)
    e.line(f"{acc} = {combined(s, acc, value)};")
    e.close(before)
    e.store(scalars, s.target, acc)


def scan(e: Emitter, s: Scan) -> None:
    """Print a scan element by element; a number is carried along each row."""
    e.open()
    for span in s.spans:
        e.loop(span)
    e.expressions += 1
    acc, step = f"acc{e.expressions}", f"{s.over.axis}_k"
    start = start_value(s.combiner, s.dtype)
    e.line(f"var {acc} = {constant(start.value, start.dtype)};")
    e.counted(step, "0", str(s.over.size))
    e.line(f"let {s.over.axis} = {f'{s.over.size} - 1 - {step}' if s.backwards else step};")
    scalars = e.scalars()
    value = e.value(scalars, s.expr)
    if s.exclusive:
        e.store(scalars, s.target, acc)
    e.line(f"{acc} = {combined(s, acc, value)};")
    if not s.exclusive:
        e.store(scalars, s.target, acc)


def shuffle(e: Emitter, s: Shuffle) -> None:
    """Print a butterfly reduction of neighbouring threads.

    Partners are half the lanes away, then a quarter, and so on; at the end every lane has the
    complete result. Values go through two rows of workgroup memory in turn, with a barrier between
    write and read; partners within a subgroup exchange them without memory.
    """
    own_sum, away, type_ = register(s.target), s.lanes // 2, value_type(s.dtype)
    if away >= max(1, e.lanes) and (e.exchanges or e.loops):
        e.line(e.barrier)  # a row may be read still
    while away:
        if away < e.lanes:
            other = f"subgroupShuffleXor({own_sum}, {away}u)"
        else:
            row = e.threads * (e.exchanges % 2)
            e.exchanges += 1
            begin = f"{row} + " if row else ""
            e.line(f"{EXCHANGED}[{begin}thread] = bitcast<u32>({own_sum});")
            e.line(e.barrier)
            other = f"bitcast<{type_}>({EXCHANGED}[{begin}(thread ^ {away})])"
        e.line(f"{own_sum} = {combined(s, own_sum, other)};")
        away //= 2


def begin_shuffle(e: Emitter, s: Shuffle) -> None:
    """Initialise a shuffle's register, for threads that reduce nothing but take part."""
    start = start_value(s.combiner, s.dtype)
    e.line(f"{register(s.target)} = {constant(start.value, start.dtype)};")


def combined(s: Reduce | Scan | Shuffle, so_far: str, value: str) -> str:
    """Return the text of one more step of a reduction."""
    return spell(COMBINERS[s.combiner].step, s.dtype, [so_far, value])
