"""Vectorised loop nests: as data, and their loops in LLVM code.

A nest says what is read, computed, stored and reduced at every point. Its loops are counters,
vectors with a masked tail, and the values of nodes.

Orders. "along": the vectors lie along the reduced axis, in several accumulators, whose lanes are
reduced at the end; or along a row that is only mapped. "across": they lie across it, and a block of
results stays in registers for the whole reduction. "rows": across as well, but the results lie in
memory, and several rows are reduced at a time. "turned": a map with operands that are dense along
the loop before the vectors' one: square blocks of them are transposed in registers. "scan": running
reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from explorer.codegen.cpu.llvm_value import LlvmValue, constant, prefetch_line
from explorer.codegen.cpu.vector_operations import (
    CELLS,
    KINDS,
    load,
    operation,
    splat,
    store,
)
from explorer.ir.dtypes import computed, is_float

I32, I64 = ir.IntType(32), ir.IntType(64)
Counters = list[Any]
Values = dict[int, LlvmValue]
STRAIGHT_VECTORS = 8  # of a row, unrolled completely; chosen, no measurement kept


@dataclass(frozen=True, slots=True)
class Operand:
    """An array element that is read or written: `first` elements after address number `base`.

    If `dtype` is "" it is that number itself. `steps` are the elements that one trip of each loop
    moves by, the vectors' loop last; None: the distance is passed.
    """

    dtype: str
    steps: tuple[int | None, ...]
    base: int = 0
    first: int = 0
    turned: bool = False  # dense along the loop before the vectors'
    ahead: int = 0  # prefetch distance in bytes, to the next row


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a nest.

    `op` is "load" or "index" (of the operand `args[0]`), "const" (`value`), or a function of the
    nodes `args`, the first of which has type `dtype`.
    """

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    value: str = ""
    varies: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A store of a node's value to an operand at every point.

    `past`: non-temporal, if the address is aligned.
    """

    operand: int
    node: int
    past: bool = False


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction of a node's values to an operand."""

    operand: int
    node: int
    combiner: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops with `counts` trips, the one over vectors last; None: the count is passed.

    `lanes` is a power of two; `unroll` may be any number.
    """

    order: str
    lanes: int
    unroll: int
    counts: tuple[int | None, ...]
    bases: int
    operands: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    stores: tuple[Stored, ...]
    reductions: tuple[Reduced, ...]

    @property
    def arguments(self) -> int:
        """The number of integers passed: addresses, then counts, then steps."""
        steps = sum(o.steps.count(None) for o in self.operands)
        return self.bases + self.counts.count(None) + steps


class Loops:
    """An emitter of a nest at a builder's position; subclasses emit its orders."""

    def __init__(self, b: Any, nest: Nest, arguments: Sequence[Any]) -> None:
        """Create an emitter from a nest's arguments: addresses, counts and steps."""
        self.b, self.nest, remaining = b, nest, list(arguments)
        addresses = [remaining.pop(0) for _ in range(nest.bases)]
        self.bases = [
            b.inttoptr(addresses[o.base], CELLS[o.dtype].as_pointer())
            if o.dtype
            else addresses[o.base]
            for o in nest.operands
        ]
        self.counts = [I64(n) if n is not None else remaining.pop(0) for n in nest.counts]
        self.steps = [
            [I64(s) if s is not None else remaining.pop(0) for s in o.steps] for o in nest.operands
        ]
        needed = {a for n in nest.nodes if n.varies for a in children(n)}
        self.spread = needed | {s.node for s in nest.stores} | {f.node for f in nest.reductions}
        self.past = False  # True if marked stores are non-temporal here

    # Loops.

    def loop(self, stop: Any, step: int, body: Callable[[Any], None], start: Any = None) -> None:
        """Emit the body for each `start, start + step, ...` below `stop`."""
        b, first = self.b, self.b.block
        top, inside, after = (b.append_basic_block(n) for n in ("top", "inside", "after"))
        b.branch(top)
        b.position_at_end(top)
        i = b.phi(I64)
        i.add_incoming(start if start is not None else I64(0), first)
        b.cbranch(b.icmp_signed("<", i, stop), inside, after)
        b.position_at_end(inside)
        body(i)
        i.add_incoming(b.add(i, I64(step)), b.block)
        b.branch(top)
        b.position_at_end(after)

    def nested(self, counters: Counters, depth: int, body: Callable[[Counters], None]) -> None:
        """Emit the body for every trip of the first `depth` loops."""
        if len(counters) == depth:
            body(counters)
            return
        self.loop(self.counts[len(counters)], 1, lambda i: self.nested([*counters, i], depth, body))

    def vectors(self, unroll: int, body: Callable[[list[Any], Any], None]) -> None:
        """Emit the body for the positions of all vectors, `unroll` at a time.

        The tail has a mask.
        """
        b, lanes, count = self.b, self.nest.lanes, self.counts[-1]
        constant_count = self.nest.counts[-1]
        if constant_count is not None and constant_count <= STRAIGHT_VECTORS * lanes:
            full = constant_count // lanes
            for first in range(0, full, unroll):
                body([I64(k * lanes) for k in range(first, min(first + unroll, full))], None)
            if constant_count % lanes:
                body([I64(full * lanes)], self.constant_mask(constant_count % lanes))
            return
        block = lanes * unroll
        many = self.opaque(b.sub(count, b.urem(count, I64(block))))
        full_vectors = b.and_(count, I64(-lanes))
        self.loop(many, block, lambda i: body(self._positions(i, unroll), None))
        if unroll > 1:
            self.loop(full_vectors, lanes, lambda i: body([i], None), many)
        if constant_count is None or constant_count % lanes:
            with b.if_then(b.icmp_signed(">", count, full_vectors)):
                body([full_vectors], self.mask(b.sub(count, full_vectors)))

    def opaque(self, value: Any) -> Any:
        """Return the same number, unknown to LLVM, so that it does not unroll the loop."""
        kind = ir.FunctionType(I64, [I64])
        return self.b.asm(kind, "", "=r,0", [value], False)

    def _positions(self, i: Any, unroll: int) -> list[Any]:
        return [self.b.add(i, I64(k * self.nest.lanes)) if k else i for k in range(unroll)]

    def mask(self, left: Any) -> Any:
        """Return the mask of the first `left` lanes."""
        few = splat(LlvmValue(self.b, self.b.trunc(left, I32)), self.nest.lanes)
        return self.b.icmp_unsigned("<", self.every_lane(I32), few.v)

    def constant_mask(self, left: int) -> Any:
        """Return the mask of the first `left` lanes, a constant."""
        keep = [int(n < left) for n in range(self.nest.lanes)]
        return ir.Constant(ir.VectorType(ir.IntType(1), self.nest.lanes), keep)

    def every_lane(self, kind: Any) -> Any:
        """Return the numbers of the lanes."""
        return ir.Constant(ir.VectorType(kind, self.nest.lanes), list(range(self.nest.lanes)))

    # Values.

    def offset(self, operand: int, counters: Counters) -> Any:
        """Return the offset of an operand's element from its address."""
        b, o = self.b, self.nest.operands[operand]
        total = I64(o.first) if o.first else None
        for counter, step, constant_step in zip(
            counters, self.steps[operand], o.steps, strict=True
        ):
            if constant_step == 0:
                continue
            part = counter if constant_step == 1 else b.mul(counter, step)
            total = part if total is None else b.add(part, total)
        return total if total is not None else I64(0)

    def at(self, operand: int, counters: Counters) -> Any:
        """Return the address of an operand's element."""
        return self.b.gep(self.bases[operand], [self.offset(operand, counters)])

    def uniform(self, counters: Counters) -> Values:
        """Return the values that are the same for a whole row.

        Those that vectors need are in every lane.
        """
        scalars: Values = {}
        for n, node in enumerate(self.nest.nodes):
            if not node.varies:
                scalars[n] = self.value(node, scalars, counters, 0, None)
        return self.in_every_lane(scalars)

    def in_every_lane(self, scalars: Values) -> Values:
        """Add vectors, under negative numbers, of the values that vectors need."""
        return scalars | {
            -1 - n: splat(x, self.nest.lanes) for n, x in scalars.items() if n in self.spread
        }

    def varying(
        self, row_values: Values, counters: Counters, mask: Any, store_early: bool = False
    ) -> Values:
        """Return the values of one vector; with `store_early` each is stored once computed."""
        values = {-1 - n: x for n, x in row_values.items() if n < 0}
        waiting = list(self.nest.stores) if store_early else []
        for n, node in enumerate(self.nest.nodes):
            if node.varies and n not in values:
                values[n] = self.value(node, values, counters, self.nest.lanes, mask)
            while waiting and waiting[0].node == n:
                self.store_value(waiting.pop(0), values, counters, mask)
        for s in waiting:
            self.store_value(s, values, counters, mask)
        return values

    def value(
        self, node: Node, values: Values, counters: Counters, lanes: int, mask: Any
    ) -> LlvmValue:
        """Return one node's value."""
        b = self.b
        match node.op:
            case "load":
                operand = self.nest.operands[node.args[0]]
                place = self.at(node.args[0], counters)
                if operand.ahead and lanes:
                    prefetch_line(b, b.add(b.ptrtoint(place, I64), I64(operand.ahead)))
                return load(b, place, operand.dtype, lanes, mask)
            case "index":
                return self._index(node.args[0], counters, lanes)
            case "const":
                return LlvmValue(b, constant(KINDS[computed(node.dtype)], _number(node)))
        args = [values[a] for a in node.args]
        exponent = float.fromhex(node.value) if node.value else None
        return operation(node.op, computed(node.dtype), args, exponent)

    def _index(self, operand: int, counters: Counters, lanes: int) -> LlvmValue:
        b = self.b
        first = LlvmValue(b, b.add(self.bases[operand], self.offset(operand, counters)))
        if not lanes:
            return first
        steps = splat(LlvmValue(b, self.steps[operand][-1]), lanes)
        return splat(first, lanes) + steps * LlvmValue(b, self.every_lane(I64))

    def store_values(self, values: Values, counters: Counters, mask: Any) -> None:
        """Store all values of a point."""
        for s in self.nest.stores:
            self.store_value(s, values, counters, mask)

    def store_value(self, s: Stored, values: Values, counters: Counters, mask: Any) -> None:
        """Store one value."""
        dtype, past = self.nest.operands[s.operand].dtype, s.past and self.past
        store(self.b, self.at(s.operand, counters), values[s.node], dtype, mask, past)


def children(node: Node) -> tuple[int, ...]:
    """Return the nodes that a node is a function of."""
    return () if node.op in ("load", "index", "const") else node.args


def _number(node: Node) -> Any:
    if is_float(node.dtype):
        return float.fromhex(node.value)
    return int(node.value)
