"""Several maps over the same points as one loop of vector code: what they share is loaded and
computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import affine_text
from explorer.codegen.loops import collapse
from explorer.ir.kernel import Affine, Const, var
from explorer.ir.tile_program import Do, Fetch, Map, Span, Statement, TileExpr, fetches

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
LANES = 16
MOST_TOGETHER = 8  # maps of one loop: what they load stays in registers
BINARY = ("add", "sub", "mul", "max", "min")

Tree = Any  # (base, offset, step) of a load | float | (op, Tree, Tree)


def together(body: Sequence[Statement]) -> list[tuple[Statement, ...]]:
    """The statements in order, with runs of maps that one loop can do side by side."""
    groups: list[tuple[Statement, ...]] = []
    for s in body:
        joined = _joined(groups[-1], s) if groups and isinstance(s, Map) else None
        if joined is not None:
            groups[-1] = (*groups[-1], joined)
        else:
            groups.append((s,))
    return groups


def vector_groups(body: Sequence[Statement]) -> dict[int, tuple[Map, ...]]:
    """The maps to print as vector loops, by the position of the first of each loop.

    Where no two maps share a loop there are none: a lone map is vectorised by the compiler.
    """
    found: dict[int, tuple[Map, ...]] = {}
    position = 0
    groups = together(body)
    for group in groups:
        mine = tuple(m for m in group if isinstance(m, Map) and _is_vector_work(m))
        if mine:
            found[position] = mine
        position += len(group)
    return found if any(len(g) > 1 for g in found.values()) else {}


def _joined(group: tuple[Statement, ...], new: Map) -> Map | None:
    """The map under the axes of the maps before it; None where it does not walk their points, or
    reads what they write.
    """
    first = group[0]
    if not isinstance(first, Map) or len(group) == MOST_TOGETHER:
        return None
    if not (_is_vector_work(first) and _is_vector_work(new)):
        return None
    written = {m.target.buffer.name for m in group if isinstance(m, Map)}
    if written & {f.buffer.name for f in fetches(new.expr)}:
        return None
    names = {s.axis: f.axis for s, f in zip(new.spans, first.spans, strict=False)}
    if tuple(replace(s, axis=names.get(s.axis, s.axis)) for s in new.spans) != first.spans:
        return None
    values = {old: var(axis) for old, axis in names.items() if old != axis}
    return Map(_moved(new.target, values), first.spans, _renamed(new.expr, values))


def _moved(f: Fetch, values: Mapping[str, Affine]) -> Fetch:
    return replace(f, offset=f.offset.substitute(values)) if values else f


def _renamed(expr: TileExpr, values: Mapping[str, Affine]) -> TileExpr:
    match expr:
        case Do(op, args):
            return Do(op, tuple(_renamed(a, values) for a in args))
        case Fetch():
            return _moved(expr, values)
        case _:
            return expr


def _is_vector_work(m: Map) -> bool:
    """Whether a map is arithmetic on float32 that lies dense along the last axis, or does not move
    along it.
    """
    if not m.spans:
        return False
    last = m.spans[-1].axis
    every = (m.target, *fetches(m.expr))
    good = all(f.buffer.dtype == "float32" and not f.dynamic for f in every)
    steps = all(f.offset.factor(last) in (0, 1) for f in every)
    ints = all(isinstance(f.offset.const, int) for f in every)
    return good and steps and ints and m.target.offset.factor(last) == 1 and _is_plain(m.expr)


def _is_plain(expr: TileExpr) -> bool:
    match expr:
        case Fetch():
            return True
        case Const(value, "float32"):
            return isinstance(value, (int, float)) and value == value
        case Do(op, args):
            return op in BINARY and len(args) == 2 and all(_is_plain(a) for a in args)
        case _:
            return False


@dataclass(slots=True)
class _Bases:
    """Addresses that the loop starts from: loads and stores a constant distance apart share one."""

    axis: str
    known: dict[tuple[str, tuple[object, ...]], int] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)

    def place(self, f: Fetch) -> tuple[int, int, int]:
        """The base of an element, how far from it, and its step along the axis."""
        key = (f.buffer.name, f.offset.terms)
        if key not in self.known:
            self.known[key] = len(self.text)
            offset = affine_text(Affine(f.offset.terms))
            self.text.append(f"{f.buffer.name} + ({offset}) * 4")
        step, const = f.offset.factor(self.axis), f.offset.const
        assert isinstance(step, int) and isinstance(const, int)
        return self.known[key], const, step

    def tree(self, expr: TileExpr) -> Tree:
        """An expression on the addresses."""
        match expr:
            case Fetch():
                return self.place(expr)
            case Const(value, _):
                assert isinstance(value, (int, float))
                return float(np.float32(value))
            case Do(op, (x, y)):
                return op, self.tree(x), self.tree(y)
        raise AssertionError(expr)


def maps(e: Emitter, group: Sequence[Map]) -> None:
    """Print maps that `together` put together."""
    start = e.depth
    every = Do("all", tuple(m.expr for m in group))
    spans, both, targets = collapse(group[0].spans, every, *(m.target for m in group))
    assert isinstance(both, Do)
    last = spans[-1]
    for span in spans[:-1]:
        e.loop(span)
    bases = _Bases(last.axis)
    outputs = tuple(
        (bases.place(t), bases.tree(x)) for t, x in zip(targets, both.args, strict=True)
    )
    name = f"maps{e.kernels}"
    e.kernels += 1
    e.header.append(f"{name} = vector_maps({outputs!r}, {_is_whole(last)})")
    lo, hi = e.bounds(last)
    e.line(f"{last.axis} = {lo}")
    e.line(f"{name}({hi} - {last.axis}, ({' '.join(f'{t},' for t in bases.text)}))")
    e.depth = start


def _is_whole(s: Span) -> bool:
    clipped = s.clip_low or s.clip_high
    return not clipped and isinstance(s.size, int) and s.size % LANES == 0


@cache
def vector_maps(outputs: tuple[tuple[tuple[int, int, int], Tree], ...], whole: bool) -> Any:
    """`target[i] = tree` for i below a count, for each of `outputs`, `LANES` at a time.

    A target and a load are (number of an address, offset, step), in elements. `whole`: the count is
    a multiple of `LANES`; else the last elements are masked, so that nothing outside is touched.
    """

    @intrinsic
    def loop(context: Any, count: Any, addresses: Any) -> Any:
        def emit(cx: Any, builder: Any, sig: Any, args: Any) -> Any:
            bases = [
                builder.inttoptr(builder.extract_value(args[1], n), F32.as_pointer())
                for n in range(len(addresses))
            ]
            _Loop(builder, bases, outputs).run(args[0], whole)
            return cx.get_dummy_value()

        return types.void(types.intp, addresses), emit

    return loop


class _Loop:
    """Writes the vector loop, then one masked step for what remains."""

    def __init__(self, b: Any, bases: list[Any], outputs: tuple[Any, ...]) -> None:
        self.b, self.bases, self.outputs = b, bases, outputs
        self.vector = ir.VectorType(F32, LANES)
        self.at: Any = None
        self.mask: Any = None
        self.values: dict[Tree, Any] = {}

    def run(self, count: Any, whole: bool) -> None:
        """All points below `count`."""
        b = self.b
        end = b.mul(b.sdiv(count, I64(LANES)), I64(LANES))
        before = b.block
        top, done = b.append_basic_block("vectors"), b.append_basic_block("vectors_end")
        b.cbranch(b.icmp_signed(">", end, I64(0)), top, done)
        b.position_at_end(top)
        at = b.phi(I64)
        at.add_incoming(I64(0), before)
        self.step(at, None)
        after = b.add(at, I64(LANES))
        at.add_incoming(after, b.block)
        b.cbranch(b.icmp_signed("<", after, end), top, done)
        b.position_at_end(done)
        if not whole:
            with b.if_then(b.icmp_signed("<", end, count)):
                self.step(end, self.below(b.sub(count, end)))

    def below(self, count: Any) -> Any:
        """The mask of the first lanes."""
        b, kind = self.b, ir.VectorType(I32, LANES)
        many = b.insert_element(ir.Constant(kind, ir.Undefined), b.trunc(count, I32), I32(0))
        many = b.shuffle_vector(many, many, ir.Constant(kind, [0] * LANES))
        return b.icmp_signed("<", ir.Constant(kind, list(range(LANES))), many)

    def step(self, at: Any, mask: Any) -> None:
        """Every output at `LANES` points."""
        self.at, self.mask, self.values = at, mask, {}
        for target, tree in self.outputs:
            value = self.value(tree)
            pointer = self.pointer(target)
            if mask is None:
                self.b.store(value, pointer, align=4)
            else:
                kind = [self.vector, pointer.type, I32, mask.type]
                store = self.function("llvm.masked.store.v16f32.p0v16f32", ir.VoidType(), kind)
                self.b.call(store, [value, pointer, I32(4), mask])

    def pointer(self, place: tuple[int, int, int]) -> Any:
        """Where a vector lies."""
        base, offset, step = place
        at = self.b.add(self.at, I64(offset)) if step else I64(offset)
        return self.b.bitcast(self.b.gep(self.bases[base], [at]), self.vector.as_pointer())

    def value(self, tree: Tree) -> Any:
        """The vector of an expression, made once."""
        if tree not in self.values:
            self.values[tree] = self.made(tree)
        return self.values[tree]

    def made(self, tree: Tree) -> Any:
        b = self.b
        match tree:
            case float():
                return self.constant(tree)
            case (int(), int(), int()):
                return self.load(tree)
            case ("max" | "min" as name, x, float() as limit):  # keeps NaN, in one instruction
                value, bound = self.value(x), self.constant(limit)
                beyond = b.fcmp_ordered(">" if name == "max" else "<", bound, value)
                return b.select(beyond, bound, value)
            case ("max" | "min" as name, x, y):
                kind = [self.vector, self.vector]
                called = self.function(f"llvm.{name}imum.v16f32", self.vector, kind)
                return b.call(called, [self.value(x), self.value(y)])
            case (name, x, y):
                left, right = self.value(x), self.value(y)
                return getattr(b, f"f{name}")(left, right, flags=["contract"])
        raise AssertionError(tree)

    def load(self, place: tuple[int, int, int]) -> Any:
        """A vector from memory, or one element in all lanes."""
        b = self.b
        pointer = self.pointer(place)
        if not place[2]:
            one = b.load(b.bitcast(pointer, F32.as_pointer()), align=4)
            none = ir.Constant(self.vector, ir.Undefined)
            same = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
            return b.shuffle_vector(b.insert_element(none, one, I32(0)), none, same)
        if self.mask is None:
            return b.load(pointer, align=4)
        kind = [pointer.type, I32, self.mask.type, self.vector]
        called = self.function("llvm.masked.load.v16f32.p0v16f32", self.vector, kind)
        return b.call(called, [pointer, I32(4), self.mask, self.constant(0.0)])

    def constant(self, value: float) -> Any:
        """A vector of one number."""
        return ir.Constant(self.vector, [value] * LANES)

    def function(self, name: str, result: Any, arguments: list[Any]) -> Any:
        """An LLVM intrinsic by its full name."""
        known = self.b.module.globals
        if name in known:
            return known[name]
        return ir.Function(self.b.module, ir.FunctionType(result, arguments), name)
