"""Reductions over sliding windows as LLVM vector code.

Several neighbouring results are computed at once, so that an element of several windows is loaded
once. A tile is some results along the window's last axis, for every element of the dense axis
(channels that lie last). Its sums stay in registers from the first element of the window to the
last, and so does what is computed of them before they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from explorer.codegen.cpu.llvm_value import LlvmValue, constant
from explorer.codegen.cpu.nest import Reduced
from explorer.codegen.cpu.nest_reductions import combined, identity
from explorer.codegen.cpu.simd import of_integers
from explorer.codegen.cpu.vector_operations import (
    CELLS,
    KINDS,
    beyond,
    load,
    operation,
    splat,
    store,
)
from explorer.ir.combiners import COMBINERS

__all__ = ["Place", "Tile", "window_tile"]

I32, I64 = ir.IntType(32), ir.IntType(64)

Tree = Any  # "acc" | number of an operand | hexadecimal float | (op, Tree, ...)
Body = Callable[[list[Any], Any], None]


@dataclass(frozen=True, slots=True)
class Place:
    """The strides of an operand in elements.

    They are from one result to the next, along each axis of the window, and along the dense axis (0
    or 1).
    """

    result: int
    window: tuple[int, ...]
    dense: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Reductions of `data * weights` (or of `data`) over windows of `counts`, then `tree`.

    There are `results` of them. A count of None is passed: along such an axis there is a loop.
    `channels` is the extent of the dense axis, None if it is passed. Addresses are passed in the
    order data, weights, target, operands of the tree.
    """

    dtype: str
    lanes: int
    results: int
    channels: int | None
    counts: tuple[int | None, ...]
    combiner: str
    data: Place
    weights: Place | None
    target: Place
    operands: tuple[Place, ...]
    tree: Tree

    @property
    def places(self) -> tuple[Place, ...]:
        """Every operand, in the order in which their addresses are passed."""
        weights = () if self.weights is None else (self.weights,)
        return (self.data, *weights, self.target, *self.operands)

    @property
    def arguments(self) -> int:
        """The number of integers passed: addresses, channels, counts."""
        return len(self.places) + (self.channels is None) + self.counts.count(None)

    @property
    def reduction(self) -> Reduced:
        """The reduction as in a vectorised nest."""
        return Reduced(0, 0, self.combiner, self.dtype)


@cache
def window_tile(tile: Tile) -> Any:
    """Return a function of a tuple of integers that computes a tile.

    It is never inlined. Constants of its epilogue would be held in registers in the loops of a
    product that reads the results: a product of 4 x 24 sums needs all sixteen, and was half as fast
    (AVX2).
    """
    return of_integers(tile.arguments, lambda b, numbers: _Writer(b, tile, numbers).write(), 0)


class _Writer:
    """An emitter of one tile at a builder's position."""

    def __init__(self, b: Any, tile: Tile, arguments: Sequence[Any]) -> None:
        """Create an emitter from a tile's arguments."""
        self.b, self.tile, remaining = b, tile, list(arguments)
        cell = CELLS[tile.dtype].as_pointer()
        bases = [b.inttoptr(remaining.pop(0), cell) for _ in tile.places]
        self.data = bases.pop(0)
        self.weights = bases.pop(0) if tile.weights is not None else None
        self.target, *self.operands = bases
        self.channels = I64(tile.channels) if tile.channels is not None else remaining.pop(0)
        self.counts = [I64(n) if n is not None else remaining.pop(0) for n in tile.counts]

    def write(self) -> None:
        """Emit the loop over vectors of the dense axis, then a masked one for the remainder."""
        tile, b = self.tile, self.b
        fixed = None not in tile.counts
        body: Body = self.emit_unrolled if fixed else self.emit_loops
        wide = 4 if tile.results == 1 and not fixed else 1
        many, full_vectors = (b.and_(self.channels, I64(-tile.lanes * n)) for n in (wide, 1))
        self.loop(I64(0), many, wide * tile.lanes, lambda i: body(self.vectors(i, wide), None))
        if wide > 1:
            self.loop(many, full_vectors, tile.lanes, lambda i: body([i], None))
        if tile.channels is None or tile.channels % tile.lanes:
            with b.if_then(b.icmp_signed(">", self.channels, full_vectors)):
                body([full_vectors], self.mask(b.sub(self.channels, full_vectors)))

    def vectors(self, i: Any, count: int) -> list[Any]:
        """Return the positions of neighbouring vectors."""
        return [self.b.add(i, I64(n * self.tile.lanes)) for n in range(count)]

    def loop(self, start: Any, stop: Any, step: int, body: Callable[[Any], None]) -> None:
        """Emit the body for each `start, start + step, ...` below `stop`."""
        b, first = self.b, self.b.block
        top, inside, after = (b.append_basic_block(n) for n in ("top", "inside", "after"))
        b.branch(top)
        b.position_at_end(top)
        i = b.phi(I64)
        i.add_incoming(start, first)
        b.cbranch(b.icmp_signed("<", i, stop), inside, after)
        b.position_at_end(inside)
        body(i)
        i.add_incoming(b.add(i, I64(step)), b.block)
        b.branch(top)
        b.position_at_end(after)

    def mask(self, left: Any) -> Any:
        """Return the mask of the first `left` lanes."""
        few = splat(LlvmValue(self.b, self.b.trunc(left, I32)), self.tile.lanes)
        lanes = ir.Constant(few.v.type, list(range(self.tile.lanes)))
        return self.b.icmp_unsigned("<", lanes, few.v)

    def element(self, base: Any, place: Place, offset: Any, i: Any, mask: Any) -> LlvmValue:
        """Load elements of an operand, or one into all lanes if it does not move."""
        b, tile = self.b, self.tile
        at = b.gep(base, [b.add(offset, i) if place.dense else offset])
        if place.dense:
            return load(b, at, tile.dtype, tile.lanes, mask)
        return splat(load(b, at, tile.dtype, 0), tile.lanes)

    # Windows whose elements all exist.

    def emit_unrolled(self, at: list[Any], mask: Any) -> None:
        """Emit a block of results at one vector, unrolled."""
        (i,) = at
        if not COMBINERS[self.tile.combiner].picks:
            self.store_results(self.reduced(i, mask, exact=True)[0], i, mask)
            return
        sums, loaded = self.reduced(i, mask, exact=False)
        with self.b.if_else(self.any_nan(loaded)) as (some, none):
            with some:
                self.store_results(self.reduced(i, mask, exact=True)[0], i, mask)
            with none:
                self.store_results(sums, i, mask)

    def reduced(self, i: Any, mask: Any, *, exact: bool) -> tuple[list[LlvmValue], list[LlvmValue]]:
        """Return the reductions of all results, and the elements loaded; `exact`: NaN stays."""
        tile = self.tile
        sums: list[LlvmValue | None] = [None] * tile.results
        loaded: dict[int, LlvmValue] = {}
        for window in product(*(range(n or 0) for n in tile.counts)):
            weight = self.weight(window, i, mask)
            for p in range(tile.results):
                key = tile.data.result * p + _offset(tile.data, window)
                if key not in loaded:
                    loaded[key] = self.element(self.data, tile.data, I64(key), i, mask)
                sums[p] = self.accumulate(sums[p], loaded[key], weight, exact=exact)
        return [s for s in sums if s is not None], list(loaded.values())

    def weight(self, window: Sequence[int], i: Any, mask: Any) -> LlvmValue | None:
        """Load the weights of a place of the window; None if it has none."""
        place = self.tile.weights
        if place is None:
            return None
        return self.element(self.weights, place, I64(_offset(place, window)), i, mask)

    def accumulate(
        self, so_far: LlvmValue | None, data: LlvmValue, weight: LlvmValue | None, *, exact: bool
    ) -> LlvmValue:
        """Add one element to a reduction."""
        value = data if weight is None else data * weight
        if so_far is None:
            return value
        reduction = self.tile.reduction
        return (
            combined(reduction, so_far, value)
            if exact
            else beyond(reduction.combiner, value, so_far)
        )

    def any_nan(self, values: list[LlvmValue]) -> Any:
        """Return the condition that some lane is NaN; each comparison tests two vectors."""
        b, kind = self.b, ir.IntType(self.tile.lanes)
        pairs = zip(values[::2], [*values[1::2], values[-1]], strict=False)
        notes = [b.fcmp_unordered("uno", x.v, y.v) for x, y in pairs]
        while len(notes) > 1:
            notes = [b.or_(*notes[n : n + 2]) if notes[n + 1 :] else notes[n]
                     for n in range(0, len(notes), 2)]  # fmt: skip
        return b.icmp_unsigned("!=", b.bitcast(notes[0], kind), kind(0))

    # Windows at borders, of which a part exists.

    def emit_loops(self, at: list[Any], mask: Any) -> None:
        """Emit results at some vectors as loops over the part of their windows that exists."""
        b, tile = self.b, self.tile
        kind = ir.VectorType(KINDS[tile.dtype], tile.lanes)
        sums = [[cgutils.alloca_once(b, kind) for _ in range(tile.results)] for _ in at]
        for place in (place for places in sums for place in places):
            b.store(constant(kind, identity(tile.reduction)), place)

        def inner(window: list[Any]) -> None:
            for places, i in zip(sums, at, strict=True):
                self.accumulate_place(places, window, i, mask)

        self.nested([], inner)
        for places, i in zip(sums, at, strict=True):
            self.store_results([LlvmValue(b, b.load(place)) for place in places], i, mask)

    def accumulate_place(self, sums: list[Any], window: list[Any], i: Any, mask: Any) -> None:
        """Add the elements at one place of the looped axes to every result."""
        b, tile = self.b, self.tile
        values = [LlvmValue(b, b.load(place)) for place in sums]
        loaded: dict[int, LlvmValue] = {}
        data = self.window_offset(tile.data, window)
        for fixed in product(*(range(n or 1) for n in tile.counts)):
            weight = None
            if tile.weights is not None:
                distance = b.add(
                    self.window_offset(tile.weights, window), I64(_offset(tile.weights, fixed))
                )
                weight = self.element(self.weights, tile.weights, distance, i, mask)
            for p, value in enumerate(values):
                key = tile.data.result * p + _offset(tile.data, fixed)
                if key not in loaded:
                    distance = b.add(data, I64(key))
                    loaded[key] = self.element(self.data, tile.data, distance, i, mask)
                values[p] = self.accumulate(value, loaded[key], weight, exact=True)
        for place, value in zip(sums, values, strict=True):
            b.store(value.v, place)

    def nested(self, window: list[Any], body: Callable[[list[Any]], None]) -> None:
        """Emit the body for every place along the axes whose counts are passed."""
        if len(window) == len(self.counts):
            body(window)
            return
        if self.tile.counts[len(window)] is not None:
            self.nested([*window, I64(0)], body)
            return
        count = self.counts[len(window)]
        self.loop(I64(0), count, 1, lambda k: self.nested([*window, k], body))

    def window_offset(self, place: Place, window: list[Any]) -> Any:
        """Return the offset of a place of the window in an operand."""
        b, total = self.b, I64(0)
        for k, step in zip(window, place.window, strict=True):
            total = b.add(total, b.mul(k, I64(step)))
        return total

    # Results.

    def store_results(self, sums: list[LlvmValue], i: Any, mask: Any) -> None:
        """Compute the epilogue of the reductions, and store it."""
        b, tile = self.b, self.tile
        for p, total in enumerate(sums):
            value = self.value(tile.tree, total, p, i, mask)
            at = b.gep(self.target, [b.add(I64(tile.target.result * p), i)])
            store(b, at, value, tile.dtype, mask)

    def value(self, tree: Tree, total: LlvmValue, p: int, i: Any, mask: Any) -> LlvmValue:
        """Return the value of an epilogue's expression."""
        tile = self.tile
        match tree:
            case "acc":
                return total
            case str():
                kind = ir.VectorType(KINDS[tile.dtype], tile.lanes)
                return LlvmValue(self.b, constant(kind, float.fromhex(tree)))
            case int():
                place = tile.operands[tree]
                offset = I64(place.result * p)
                return self.element(self.operands[tree], place, offset, i, mask)
        name, *parts = tree
        values = [self.value(part, total, p, i, mask) for part in parts]
        return operation(name, tile.dtype, values)


def _offset(place: Place, window: Sequence[int]) -> int:
    return sum(k * step for k, step in zip(window, place.window, strict=True))
