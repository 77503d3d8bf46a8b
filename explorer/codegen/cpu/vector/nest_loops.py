"""The loops of a nest in LLVM code: counters, vectors with a masked end, the values of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from explorer.codegen.cpu.math.llvm_value import LlvmValue, constant
from explorer.codegen.cpu.vector.nest import Nest, Node, Stored
from explorer.codegen.cpu.vector.vector_operations import (
    CELLS,
    KINDS,
    ask_for,
    load,
    operation,
    splat,
    store,
)
from explorer.ir.dtypes import computed, is_float

I32, I64 = ir.IntType(32), ir.IntType(64)
Counters = list[Any]
Values = dict[int, LlvmValue]
STRAIGHT_VECTORS = 8  # of a row that are written out without a loop; chosen, no measurement kept


class Loops:
    """Writes a nest where the builder stands; its orders are written by what extends it."""

    def __init__(self, b: Any, nest: Nest, given: Sequence[Any]) -> None:
        self.b, self.nest, rest = b, nest, list(given)
        addresses = [rest.pop(0) for _ in range(nest.bases)]
        self.bases = [
            b.inttoptr(addresses[o.base], CELLS[o.dtype].as_pointer())
            if o.dtype
            else addresses[o.base]
            for o in nest.operands
        ]
        self.counts = [I64(n) if n is not None else rest.pop(0) for n in nest.counts]
        self.steps = [
            [I64(s) if s is not None else rest.pop(0) for s in o.steps] for o in nest.operands
        ]
        needed = {a for n in nest.nodes if n.varies for a in children(n)}
        self.spread = needed | {s.node for s in nest.stores} | {f.node for f in nest.reductions}
        self.past = False  # whether stores that may be non-temporal are so here

    # Loops.

    def loop(self, stop: Any, step: int, body: Callable[[Any], None], start: Any = None) -> None:
        """The body for each `start, start + step, ...` below `stop`."""
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
        """The body for every turn of the first `depth` loops."""
        if len(counters) == depth:
            body(counters)
            return
        self.loop(self.counts[len(counters)], 1, lambda i: self.nested([*counters, i], depth, body))

    def vectors(self, unroll: int, body: Callable[[list[Any], Any], None]) -> None:
        """The body for the positions of all vectors, `unroll` at a time; a last one has a mask."""
        b, lanes, count = self.b, self.nest.lanes, self.counts[-1]
        known = self.nest.counts[-1]
        if known is not None and known <= STRAIGHT_VECTORS * lanes:
            full = known // lanes
            for first in range(0, full, unroll):
                body([I64(k * lanes) for k in range(first, min(first + unroll, full))], None)
            if known % lanes:
                body([I64(full * lanes)], self.known_mask(known % lanes))
            return
        block = lanes * unroll
        many = self.opaque(b.sub(count, b.urem(count, I64(block))))
        whole = b.and_(count, I64(-lanes))
        self.loop(many, block, lambda i: body(self._positions(i, unroll), None))
        if unroll > 1:
            self.loop(whole, lanes, lambda i: body([i], None), many)
        if known is None or known % lanes:
            with b.if_then(b.icmp_signed(">", count, whole)):
                body([whole], self.mask(b.sub(count, whole)))

    def opaque(self, value: Any) -> Any:
        """The same number, which LLVM does not know: it does not write such a loop out."""
        kind = ir.FunctionType(I64, [I64])
        return self.b.asm(kind, "", "=r,0", [value], False)

    def _positions(self, i: Any, unroll: int) -> list[Any]:
        return [self.b.add(i, I64(k * self.nest.lanes)) if k else i for k in range(unroll)]

    def mask(self, left: Any) -> Any:
        """The lanes below a number."""
        few = splat(LlvmValue(self.b, self.b.trunc(left, I32)), self.nest.lanes)
        return self.b.icmp_unsigned("<", self.every_lane(I32), few.v)

    def known_mask(self, left: int) -> Any:
        """The lanes below a number that is known here."""
        keep = [int(n < left) for n in range(self.nest.lanes)]
        return ir.Constant(ir.VectorType(ir.IntType(1), self.nest.lanes), keep)

    def every_lane(self, kind: Any) -> Any:
        """The numbers of the lanes."""
        return ir.Constant(ir.VectorType(kind, self.nest.lanes), list(range(self.nest.lanes)))

    # Values.

    def offset(self, operand: int, counters: Counters) -> Any:
        """How far an operand's element lies from its address."""
        b, o = self.b, self.nest.operands[operand]
        total = I64(o.first) if o.first else None
        for counter, step, known in zip(counters, self.steps[operand], o.steps, strict=True):
            if known == 0:
                continue
            part = counter if known == 1 else b.mul(counter, step)
            total = part if total is None else b.add(part, total)
        return total if total is not None else I64(0)

    def at(self, operand: int, counters: Counters) -> Any:
        """The address of an operand's element."""
        return self.b.gep(self.bases[operand], [self.offset(operand, counters)])

    def uniform(self, counters: Counters) -> Values:
        """The values that are the same for a whole row, in every lane where vectors need them."""
        found: Values = {}
        for n, node in enumerate(self.nest.nodes):
            if not node.varies:
                found[n] = self.value(node, found, counters, 0, None)
        return self.in_every_lane(found)

    def in_every_lane(self, found: Values) -> Values:
        """The same, and as vectors, under negative numbers, where vectors need them."""
        return found | {
            -1 - n: splat(x, self.nest.lanes) for n, x in found.items() if n in self.spread
        }

    def varying(
        self, known: Values, counters: Counters, mask: Any, store_early: bool = False
    ) -> Values:
        """The values of one vector; `store_early`: each is stored as soon as it is there."""
        found = {-1 - n: x for n, x in known.items() if n < 0}
        waiting = list(self.nest.stores) if store_early else []
        for n, node in enumerate(self.nest.nodes):
            if node.varies and n not in found:
                found[n] = self.value(node, found, counters, self.nest.lanes, mask)
            while waiting and waiting[0].node == n:
                self.stored_one(waiting.pop(0), found, counters, mask)
        for s in waiting:
            self.stored_one(s, found, counters, mask)
        return found

    def value(
        self, node: Node, known: Values, counters: Counters, lanes: int, mask: Any
    ) -> LlvmValue:
        """One node's value."""
        b = self.b
        match node.op:
            case "load":
                operand = self.nest.operands[node.args[0]]
                place = self.at(node.args[0], counters)
                if operand.ahead and lanes:
                    ask_for(b, place, operand.ahead)
                return load(b, place, operand.dtype, lanes, mask)
            case "index":
                return self._index(node.args[0], counters, lanes)
            case "const":
                return LlvmValue(b, constant(KINDS[computed(node.dtype)], _number(node)))
        args = [known[a] for a in node.args]
        exponent = float.fromhex(node.value) if node.value else None
        return operation(node.op, computed(node.dtype), args, exponent)

    def _index(self, operand: int, counters: Counters, lanes: int) -> LlvmValue:
        b = self.b
        first = LlvmValue(b, b.add(self.bases[operand], self.offset(operand, counters)))
        if not lanes:
            return first
        steps = splat(LlvmValue(b, self.steps[operand][-1]), lanes)
        return splat(first, lanes) + steps * LlvmValue(b, self.every_lane(I64))

    def stored(self, values: Values, counters: Counters, mask: Any) -> None:
        """What is stored at every point."""
        for s in self.nest.stores:
            self.stored_one(s, values, counters, mask)

    def stored_one(self, s: Stored, values: Values, counters: Counters, mask: Any) -> None:
        """One of the values that are stored."""
        dtype, past = self.nest.operands[s.operand].dtype, s.past and self.past
        store(self.b, self.at(s.operand, counters), values[s.node], dtype, mask, past)


def children(node: Node) -> tuple[int, ...]:
    """The nodes that a node is a function of."""
    return () if node.op in ("load", "index", "const") else node.args


def _number(node: Node) -> Any:
    if is_float(node.dtype):
        return float.fromhex(node.value)
    return int(node.value)
